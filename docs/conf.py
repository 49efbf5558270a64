"""How the documentation is built: make docs."""

import foretell

project = "foretell"
author = "The foretell developers"
version = release = foretell.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# scikit-learn adds these two to every estimator; they mean nothing for recordings.
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = f"foretell {release}"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_show_sourcelink = False
