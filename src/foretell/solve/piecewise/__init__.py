"""Continuous piecewise-linear vector fields: exact flow, training kernels, analysis."""
