"""Sphinx configuration of the site: executed notebooks in, static pages out, nothing from the network."""

project = "One LLM-backed service, measured"
author = "the nlqlib authors"
language = "en"
extensions = ["myst_nb", "nlqlib.site_sphinx"]
exclude_patterns = ["_static", "**.ipynb_checkpoints"]

# Notebooks come executed; our reader keeps each figure's alt text and names the target on every page.
nb_execution_mode = "off"
nb_custom_formats = {".ipynb": "nlqlib.site_reader.read"}
nb_merge_streams = True
nb_ipywidgets_js = {}
nb_render_markdown_format = "myst"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Formulas are MathML: no MathJax, no script.
html_math_renderer = "mathml"

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["nlqlib.css"]
# filters of the claims table, and boxes that scroll in the tab order: pages are whole without either
html_js_files = [(name, {"defer": "defer"}) for name in ("claims.js", "figures.js", "scroll.js")]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # without it the theme complains in the console on a first visit
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "use_source_button": False,
    "use_repository_button": False,
    "use_edit_page_button": False,
    "use_issues_button": False,
    "launch_buttons": {},
    "icon_links": [],
    "navbar_persistent": [],
    "footer_content_items": [],
    "footer_start": [],
    "footer_end": [],
    "toc_title": "On this page",
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "search_bar_text": "Search",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
