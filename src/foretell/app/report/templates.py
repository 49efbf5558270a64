"""The templates of the pages, as they are read by every page."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def templates() -> Environment:
    """Every template of this folder; text is escaped, and an unknown name is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("foretell.app.report")
    return Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
