"""The documentation site: pages of Markdown, notebooks that are run as the site is built, and the API's docstrings."""

from importlib.metadata import version as version_of

project = "fastbm"
author = copyright = "the founders of fastbm"
release = version = version_of("fastbm")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "fastbm"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 2
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False
