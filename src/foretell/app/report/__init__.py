"""The report: one HTML file that needs nothing else."""

from foretell.app.report.page import render

__all__ = ["render"]
