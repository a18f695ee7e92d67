"""The site as people meet it: by keyboard, screen reader, phone and printer, and without scripts."""

from pathlib import Path

import nbformat
import pytest
from front_pages import admission, knee, notebook, shows
from nbformat.v4 import new_output
from site_browser import chromium, serving
from site_check import VIEWS, View, look
from site_pages import code

from nlqlib import commands_site, site
from nlqlib.experiments.plans import PLANS

CLAIMS = """<div class="claims"><table class="claims-table dataframe"><caption>Every claim</caption>
<thead><tr><th scope="col">claim</th><th scope="col">target</th><th scope="col">verdict</th>
<th scope="col">rests on</th></tr></thead>
<tbody>{}</tbody></table></div>"""
ROW = """<tr data-target="{0}" data-verdict="{1}" data-section="S"><td data-label="claim">c{2}</td>
<td data-label="target">{0}</td>
<td data-label="verdict">{1}</td><td data-label="rests on">
<span class="claims-source" data-page="{0}/05_knee">05_knee</span></td></tr>"""
ROWS = [("twin", "differs"), ("twin", "reproduced"), ("my-l4", "reproduced"), ("local", "not-measured")]
NAMED = (
    "index", "my-l4/03_admission", "twin/99_summary", "your_endpoint", "methods", "data", "architecture",
    "extending", "search",
)  # fmt: skip
PAGES = tuple(f"{name}.html" for name in NAMED)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("access")
    body = "".join(ROW.format(target, verdict, i) for i, (target, verdict) in enumerate(ROWS))
    table = new_output(
        "execute_result", {"text/html": CLAIMS.format(body), "text/plain": "t"}, execution_count=1
    )
    summary = notebook(
        "twin", code("page.counts_table(f)", shows("How it comes out", "4", "")), code("page.every(f)", table)
    )
    for target in ("twin", "my-l4"):
        (folder / "executed" / target).mkdir(parents=True)
        nbformat.write(admission(target), folder / f"executed/{target}/03_admission.ipynb")
        nbformat.write(knee(target), folder / f"executed/{target}/05_knee.ipynb")
    nbformat.write(summary, folder / "executed/twin/99_summary.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands_site, "PLANS", {"05_knee": PLANS["05_knee"]})  # all of them take a while
        texts = commands_site.texts()
    report = site.build_site(folder / "executed", folder / "site", texts=texts)
    assert report.ok, [*report.problems, *report.warnings]
    return folder / "site"


@pytest.fixture(scope="module")
def served(built):
    with serving(built) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(browser):
    page = browser.new_page()
    yield page
    page.close()


def shown(tab) -> list[str]:
    return tab.eval_on_selector_all(
        "table.claims-table tbody tr",
        "rows => rows.filter(r => r.offsetParent).map(r => r.cells[0].innerText)",
    )


def test_the_front_page_is_about_the_users_endpoint_and_names_its_run(built):
    page = (built / "index.html").read_text("utf-8")
    assert "Target <strong>my-l4</strong>: what my-l4 is" in page and "2026-01-02 03:04 UTC" in page
    assert "Limited at 1, by the router" in page and "Not observable here: the queue." in page


@pytest.mark.parametrize("page", [p for p in PAGES if p != "search.html"])
def test_every_page_names_its_targets(built, page):
    assert "Target <strong>" in (built / page).read_text("utf-8")


def test_what_the_prose_pages_say_of_costs_and_errors_is_computed(built):
    told = (built / "your_endpoint.html").read_text("utf-8")
    assert "05_knee" in told and "<!-- plan" not in told
    assert "off by" in (built / "methods.html").read_text("utf-8")


def test_the_claims_table_links_to_the_pages_that_there_are(built):
    page = (built / "twin/99_summary.html").read_text("utf-8")
    assert page.count('href="../twin/05_knee.html"') >= 2 and 'href="../my-l4/05_knee.html"' in page
    assert 'data-page="local/05_knee"' in page and 'href="../local/05_knee.html"' not in page


@pytest.mark.site
def test_claims_are_filtered_by_target_and_verdict_and_the_choice_can_be_linked_to(served, tab):
    tab.goto(served + "twin/99_summary.html", wait_until="networkidle")
    assert shown(tab) == ["c0", "c1", "c2", "c3"]
    tab.locator("select[name=verdict]").select_option("reproduced")
    assert shown(tab) == ["c1", "c2"] and tab.inner_text(".claims-filters output") == "2 of 4 rows"
    tab.locator("select[name=target]").select_option("twin")
    assert shown(tab) == ["c1"] and "verdict=reproduced" in tab.url
    tab.goto(served + "twin/99_summary.html?verdict=differs", wait_until="networkidle")
    assert shown(tab) == ["c0"]


@pytest.mark.site
def test_without_scripts_the_claims_table_is_whole(served, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served + "twin/99_summary.html")
    assert page.locator("table.claims-table tbody tr").count() == 4
    assert page.locator("table.claims-table tbody tr").last.is_visible()
    context.close()


@pytest.mark.site
def test_on_a_phone_a_claim_names_its_columns_and_nothing_scrolls_sideways(served, browser):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    for path in PAGES:
        page.goto(served + path, wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(served + "twin/99_summary.html", wait_until="networkidle")
    label = "getComputedStyle(document.querySelector('td[data-label]'), '::before').content"
    assert "claim" in page.evaluate(label)
    context.close()


@pytest.mark.site
def test_in_print_there_is_no_navigation_and_the_page_is_whole(served, tab):
    tab.goto(served + "index.html", wait_until="networkidle")
    tab.emulate_media(media="print")
    assert not tab.locator(".bd-sidebar-primary").is_visible() and tab.locator("h1").first.is_visible()
    assert not tab.locator(".prev-next-footer").first.is_visible()


BARE = """() => {
  const named = e => (e.innerText || e.getAttribute("aria-label") || e.title || (e.labels && e.labels.length)
    || [...e.querySelectorAll("img")].some(i => i.alt));
  const levels = [...document.querySelectorAll("h1,h2,h3,h4")]
    .filter(h => h.offsetParent).map(h => +h.tagName[1]);  // the theme keeps a second title for print
  return {
    lang: document.documentElement.lang, h1: levels.filter(l => l === 1).length,
    skipped: levels.some((l, i) => i && l > levels[i - 1] + 1),
    main: document.querySelectorAll("main").length,
    nameless: [...document.querySelectorAll("main a[href], main button, main select")]
      .filter(e => e.offsetParent && !named(e)).map(e => e.outerHTML.slice(0, 80)),
    unreachable: [...document.querySelectorAll(".wide")].filter(e => e.tabIndex !== 0).length,
  };
}"""


@pytest.mark.site
@pytest.mark.parametrize("path", ["index.html", "twin/99_summary.html", "my-l4/03_admission.html"])
def test_a_page_has_one_title_headings_in_order_and_a_name_for_all_that_can_be_used(served, tab, path):
    tab.goto(served + path, wait_until="load")
    found = tab.evaluate(BARE)
    told = {"lang": "en", "h1": 1, "skipped": False, "main": 1, "nameless": [], "unreachable": 0}
    assert found == told


@pytest.mark.site
@pytest.mark.parametrize(("view", "pages"), [(VIEWS[0], PAGES), (View("dark", 390), PAGES[:3])], ids=str)
def test_axe_and_the_console_find_nothing_on_any_page(served, browser, view, pages):
    size = {"width": view.width_px, "height": view.height_px}
    context = browser.new_context(color_scheme=view.scheme, viewport=size)
    found = {path: told for path in pages if (told := look(context, served, path, view))}
    context.close()
    assert found == {}
