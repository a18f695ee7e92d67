"""A real site, built without network from executed notebooks and opened in a browser."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from site_browser import chromium, serving
from site_pages import ALT, ALT_2, code, notebook

from nlqlib import paths, site
from nlqlib.site_html import check_html

ARMS = f"""
import pandas as pd
from nlqlib import plots
arms = pd.DataFrame({{"arm": ["a", "b"], "share": [0.5, 1], "low": [0.3, 0.8], "high": [0.7, 1], "n": 20}})
plots.show(plots.share_bars(arms, target="twin", kind="replayed"), alt={ALT!r})
arms["tokens"] = [25, 30]
strip = plots.strip(arms, "tokens", by="arm", unit="tokens", target="twin", kind="replayed")
plots.show(strip, alt={ALT_2!r})
arms.assign(sql="SELECT region, sum(net_revenue) AS revenue FROM fact_orders GROUP BY region ORDER BY 2 DESC")
"""
PROSE = """## Größe: how much?

Inline $X(N) / (N \\cdot X(1))$ and [a cited page](https://example.org/paper), and [the other](02_hand.ipynb).

$$\\mathrm{TPOT} = \\frac{t_2 - t_1}{n - 1}$$"""

BLOCKER = """
import socket
def refuse(*a, **k): raise OSError("the network is cut off")
socket.socket.connect = socket.getaddrinfo = refuse
"""


def cut_off(folder: Path) -> tuple[list[str], dict[str, str]]:
    """A command prefix and environment under which no process reaches a network."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))} | {"LC_ALL": "C"}
    for prefix in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix, env
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(BLOCKER)
    return [], env | {"PYTHONPATH": str(folder / "blocked")}


def make_site(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    prefix, env = cut_off(folder)
    command = [*prefix, sys.executable, "-m", "nlqlib.site", "--executed", str(folder / "executed")]
    command += ["--out", str(folder / "site"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=env, cwd=folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A site of two targets, one page really executed, built without network in an awkward folder."""
    folder = tmp_path_factory.mktemp("site") / "a {b} ü c"
    for target in ("twin", "local"):
        (folder / "executed" / target).mkdir(parents=True)
        hand = notebook(code("1 + 1", new_output("execute_result", {"text/plain": "2"}, execution_count=1)))
        nbformat.write(hand, folder / "executed" / target / "02_hand.ipynb")
    source = notebook(
        new_markdown_cell(PROSE), new_code_cell(ARMS), new_code_cell('print("\\x1b[31mred\\x1b[0m")')
    )
    nbformat.write(source, folder / "01_run.ipynb")
    done = folder / "executed" / "twin" / "01_run.ipynb"
    doubled = [str(p).replace("{", "{{").replace("}", "}}") for p in (folder / "01_run.ipynb", done)]
    papermill.execute_notebook(*doubled, kernel_name="python3", progress_bar=False)  # it formats its paths
    ran = make_site(folder)
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.site
def test_the_builds_here_really_have_no_network(tmp_path):
    prefix, env = cut_off(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        ran = subprocess.run([*prefix, sys.executable, "-c", call], capture_output=True, text=True, env=env)
    assert ran.returncode == 1 and "Error" in ran.stderr


@pytest.mark.site
def test_alt_texts_reach_the_page_each_at_its_own_figure(built):
    page = (built / "site/twin/01_run.html").read_text("utf-8")
    images = [tag.split(">")[0] for tag in page.split("<img ")[1:]]
    assert len(images) == 2
    assert f'alt="{ALT}"' in images[0] and f'alt="{ALT_2}"' in images[1]


@pytest.mark.site
def test_the_built_site_passes_its_own_gate(built):
    assert check_html(built / "site") == []


@pytest.mark.site
def test_no_page_holds_an_outside_address_or_a_path_of_the_machine(built):
    for page in (built / "site").rglob("*.html"):
        text = (
            page.read_text("utf-8").replace("http://www.w3.org/", "").replace("https://host/", "")
        )  # examples
        assert "http://" not in text and "https://" not in text and str(paths.ROOT) not in text, page
        assert built.name not in text


@pytest.mark.site
def test_a_citation_stays_as_text_and_a_formula_is_mathml(built):
    page = (built / "site/twin/01_run.html").read_text("utf-8")
    assert "a cited page" in page and "example.org" not in page
    assert page.count("<math") == 2 and "<mfrac>" in page and "MathJax" not in page


@pytest.mark.site
def test_every_page_names_its_target(built):
    twin, local = ((built / f"site/{t}/02_hand.html").read_text("utf-8") for t in ("twin", "local"))
    assert "Target <strong>twin</strong>" in twin and "Modelled times, answers replayed or drawn" in twin
    assert "Target <strong>local</strong>" in local and ">Measured<" in local


def test_what_a_notebook_says_of_its_target_is_found_in_its_outputs():
    said = "*target twin: times modelled (an L4); words replayed from recordings of M*"
    shown = new_output("display_data", {"text/markdown": said})
    assert site._statement(notebook(code("study.banner()", shown))) == said[len("*target twin: ") : -1]
    assert site._statement(notebook(code("1"))) is None


@pytest.mark.site
def test_output_is_free_of_ansi_escapes(built):
    page = (built / "site/twin/01_run.html").read_text("utf-8")
    assert "\x1b" not in page and ">red\n<" in page.replace("<span></span>", "")


@pytest.mark.site
def test_a_refused_notebook_leaves_the_old_site_in_place(built):
    before = (built / "site/index.html").read_bytes()
    bad = built / "executed/local/03_bad.ipynb"
    nbformat.write(notebook(code("1/0", new_output("error", ename="ZeroDivisionError", evalue="x"))), bad)
    ran = make_site(built)
    bad.unlink()
    assert ran.returncode == 1 and "local/03_bad, under “Why?”: an error output" in ran.stderr
    assert "no site built: 1 problem" in ran.stderr and (built / "site/index.html").read_bytes() == before


@pytest.mark.site
def test_a_warning_of_sphinx_is_an_error(tmp_path):
    (tmp_path / "executed/twin").mkdir(parents=True)
    bad = notebook(new_markdown_cell("see [x](nowhere.ipynb)"), code("1"))
    nbformat.write(bad, tmp_path / "executed/twin/01.ipynb")
    ran = make_site(tmp_path)
    assert ran.returncode == 1 and "nowhere.ipynb" in ran.stderr and not (tmp_path / "site").exists()
    assert str(tmp_path) not in ran.stderr


def test_nothing_executed_is_one_line_that_says_what_to_do(tmp_path, capsys):
    assert site.main(["--executed", str(tmp_path / "none"), "--out", str(tmp_path / "site")]) == 2
    assert "run `make reproduce` first" in capsys.readouterr().err


def test_an_unknown_target_names_the_command_that_would_run_it(tmp_path, capsys):
    (tmp_path / "twin").mkdir()
    nbformat.write(notebook(code("1")), tmp_path / "twin/01.ipynb")
    assert site.main(["--executed", str(tmp_path), "--out", str(tmp_path / "o"), "--target", "local"]) == 2
    assert "run `make reproduce TARGET=local` first" in capsys.readouterr().err


def test_a_file_that_is_no_notebook_is_one_line(tmp_path, capsys):
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin/01.ipynb").write_text('{"cells": [')
    assert site.main(["--executed", str(tmp_path), "--out", str(tmp_path / "o")]) == 2
    assert "01.ipynb is no notebook" in capsys.readouterr().err


def test_a_folder_that_is_no_site_is_never_replaced(tmp_path):
    (tmp_path / "executed/twin").mkdir(parents=True)
    nbformat.write(notebook(code("1")), tmp_path / "executed/twin/01.ipynb")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(site.SiteError, match="not a site built here"):
        site.build_site(tmp_path / "executed", tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").exists()


def test_targets_come_in_reading_order_and_pages_by_number():
    pages = ["twin/01_a", "twin/02_b", "local/01_a"]
    assert [line for line in site.toctrees(pages).splitlines() if "/" in line] == pages
    assert sorted(["my-l4", "local", "twin"], key=site._target_order) == ["twin", "local", "my-l4"]


@pytest.fixture(scope="module")
def served(built):
    with serving(built / "site") as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.mark.site
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_every_page_opens_without_error_outside_request_or_sideways_scroll(
    built, served, browser, scheme, width
):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    tab, wrong = context.new_page(), []
    tab.on("console", lambda m: m.type in ("error", "warning") and wrong.append(m.text))
    tab.on("pageerror", lambda e: wrong.append(str(e)))
    tab.on("request", lambda r: r.url.startswith((served, "data:")) or wrong.append(f"outside: {r.url}"))
    tab.on("response", lambda r: r.status >= 400 and wrong.append(f"{r.status}: {r.url}"))
    pages = sorted(p.relative_to(built / "site").as_posix() for p in (built / "site").rglob("*.html"))
    assert {"index.html", "twin/01_run.html", "local/02_hand.html", "search.html"} <= set(pages)
    for page in pages:
        tab.goto(served + page, wait_until="networkidle")
        broken = tab.evaluate("[...document.images].filter(i => !i.naturalWidth).map(i => i.src)")
        wide = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert (wrong, broken, max(wide, 0)) == ([], [], 0), page
    context.close()


@pytest.mark.site
def test_the_search_finds_a_page_without_any_server_behind_it(served, browser):
    tab = browser.new_page()
    tab.goto(served + "search.html?q=Claim", wait_until="networkidle")
    tab.wait_for_selector("ul.search li a")
    assert "Claim" in tab.inner_text("ul.search")
    tab.close()


@pytest.mark.site
def test_the_points_of_a_figure_are_read_by_pointer_and_by_keys_and_lie_where_they_are_drawn(served, browser):
    tab = browser.new_page()
    tab.goto(served + "twin/01_run.html", wait_until="networkidle")
    frame, tip = tab.locator(".figure-read").first, tab.locator(".figure-read .figure-tip").first
    assert frame.get_attribute("aria-label").startswith("2 points") and not tip.is_visible()
    frame.focus()
    tab.keyboard.press("ArrowRight")
    assert "0.5" in tip.inner_text() and "0.3 to 0.7" in tip.inner_text()
    box, dot = frame.bounding_box(), tab.locator(".figure-read .figure-dot").first.bounding_box()
    tab.keyboard.press("Escape")
    assert not tip.is_visible()
    tab.mouse.move(dot["x"] + 7, dot["y"] + 7)
    assert "0.5" in tip.inner_text()
    seen = tip.bounding_box()
    assert box["x"] <= seen["x"] and seen["x"] + seen["width"] <= box["x"] + box["width"] + 1
    tab.emulate_media(media="print")
    assert not tip.is_visible() and tab.locator(".figure-read img").first.is_visible()
    tab.close()


@pytest.mark.site
def test_without_scripts_a_figure_is_its_picture_and_its_table(served, browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(served + "twin/01_run.html")
    assert tab.locator(".figure-read").count() == 0 and tab.locator(".cell_output img").first.is_visible()
    assert tab.locator("details.figure-data").count() == 2
    context.close()
