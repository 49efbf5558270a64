"""How the documentation is built: make docs."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import foretell

project = "foretell"
author = "The foretell developers"
version = release = foretell.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = f"foretell {release}"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars: dict[str, list[str]] = {"**": []}
html_static_path = ["_static"]
html_css_files = ["house.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
copyright = "The foretell developers, Apache License 2.0"


def skip_metadata_routing(app: Any, what: str, name: str, member: Any, skip: bool, _: Any) -> bool:
    """Leave out what scikit-learn adds to every estimator; it means nothing for recordings."""
    return skip or bool(re.fullmatch(r"get_metadata_routing|set_\w+_request", name))


def keep_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let |z| be an absolute value in docstrings, where Sphinx would look for a substitution."""
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            lines[number] = re.sub(r"(``.*?``)|\|", lambda match: match[1] or r"\|", line)


def write_math(writer: Any, node: nodes.math) -> None:
    """Mathematics as MathML: browsers draw it themselves, and no page loads anything."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def write_math_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (write_math, None), (write_math_block, None))
    app.connect("autodoc-skip-member", skip_metadata_routing)
    app.connect("autodoc-process-docstring", keep_bars)
