"""What the gate in front of the site refuses, and what it lets pass."""

import pytest
from nbformat.v4 import new_output
from site_pages import ALT_2, code, figure, notebook, stream

from nlqlib import paths
from nlqlib.site_gate import MAX_OUTPUT_BYTES, check_notebook
from nlqlib.site_html import check_html

SHOW = "plots.show(fig, alt='…')"
REFUSED = {
    "error": (code("1/0", new_output("error", ename="ZeroDivisionError", evalue="division by zero")),
              "an error output (ZeroDivisionError: division by zero)"),
    "traceback": (code("f()", stream("\x1b[1mTraceback\x1b[0m (most recent call last)")), "a printed"),
    "lost figure": (code(SHOW), "0 of 1 figures that plots.show was called for"),
    "one figure of two": (code(f"{SHOW}\n{SHOW}", figure()), "1 of 2 figures"),
    "no alt": (code(SHOW, figure(None)), "a figure without alt text"),
    "blank alt": (code(SHOW, figure("  \n ")), "a figure without alt text"),
    "no number": (code(SHOW, figure("A figure of throughput over concurrency.")), "without a number"),
    "pyplot figure": (code("plt.plot(x)", figure(None)), "a figure without alt text"),
    "too large": (code("x", stream("x" * (MAX_OUTPUT_BYTES + 1))),
                  "output of 500,001 bytes, more than 500,000"),
    "not executed": (code("x = 1", count=None), "a code cell was not executed"),
    "widget": (code("bar", new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})),
               "an interactive output"),
    "home path": (code("p", stream("warning in /home/ada/nlqlib/x.py:3")), "(/home/ada/nlqlib/x.py:3)"),
    "path in source": (code("open('/tmp/x y.json')"), "a path of this machine (/tmp/x)"),
    "this checkout": (code("p", stream(f"{paths.ROOT}/data")), "a path of this machine"),
    "windows path": (code("p", stream(r"C:\Users\ada\x")), "a path of this machine"),
    "api key": (code("k", stream("key sk-abcdefghijklmnop1234")), "what looks like an API key"),
    "bearer": (code("h", stream("Authorization: Bearer abcdefghijklmnop")), "what looks like a bearer token"),
    "url password": (code("u", stream("https://ada:secret@host/v1")), "what looks like a password in a URL"),
    "assigned": (code("api_key = 'a1b2c3d4e5f6a1b2c3d4e5f6'"), "what looks like a secret"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_the_gate_refuses_with_page_heading_and_reason(case):
    cell, reason = REFUSED[case]
    problems = check_notebook(notebook(cell), "twin/01")
    assert len(problems) == 1
    assert str(problems[0]).startswith("twin/01, under “Why?”: ") and reason in str(problems[0])
    assert problems[0].remedy and "\n" not in str(problems[0])


PASSED = {
    "figure": code(SHOW, figure()),
    "figures in a loop": code("for f in figs:\n    plots.show(f, alt=f.alt)", figure(), figure(ALT_2)),
    "figure in a branch": code("if seen:\n    plots.show(fig, alt=alt)"),
    "figure in a function": code("def draw(f):\n    plots.show(f, alt=alt)"),
    "magic": code("%matplotlib inline\n!ls\nx = 1"),
    "api paths": code(
        "x", stream("POST /v1/chat/completions, GET /metrics; and/or 1/2; https://host/home/x")
    ),
    "relative path": code("x", stream("build/executed/twin/01.ipynb and ~/.cache and data/tmp/x")),
    "token counts": code("prompt_tokens = 3286; token = 115; api_key_env = 'OPENAI_API_KEY'"),
    "digest": code("x", stream("sha256 " + "ab" * 32)),
    "empty cell": code("  ", count=None),
}


@pytest.mark.parametrize("case", PASSED)
def test_the_gate_lets_pass(case):
    assert [str(p) for p in check_notebook(notebook(PASSED[case], code("1")), "p")] == []


def test_a_secret_is_named_but_never_repeated():
    secret = "sk-abcdefghijklmnop1234"
    error = new_output("error", ename="Refused", evalue=f"401 for {secret}", traceback=[secret])
    said = "\n".join(map(str, check_notebook(notebook(code("ask()", error)), "p")))
    assert "what looks like an API key" in said and "[redacted]" in said and secret not in said


def test_a_hidden_text_is_found_in_source_and_output_and_not_repeated():
    for cell in (code("target = 'https://inner.host/v1'"), code("t", stream("at inner.host"))):
        (problem,) = check_notebook(notebook(cell), "p", hidden=("inner.host",))
        assert "the host of a private endpoint" in str(problem) and "inner.host" not in str(problem)


def test_every_problem_is_reported_not_only_the_first():
    cells = [code("1/0", new_output("error", ename="E", evalue="e")), code(SHOW), code("x", count=None)]
    assert len(check_notebook(notebook(*cells), "p")) == 3


def test_a_notebook_whose_outputs_are_too_large_together_is_refused():
    cells = [code("x", stream("x" * (MAX_OUTPUT_BYTES - 1))) for _ in range(11)]
    assert [p.heading for p in check_notebook(notebook(*cells), "p")] == [None]


def test_a_notebook_without_code_was_not_run():
    assert "no code cell" in str(check_notebook(notebook(), "p")[0])


PAGE = '<html><head><link href="a.css"></head><body><h1 id="top">T</h1>{}</body></html>'
BAD_HTML = {
    "gone": ('<a href="b.html">x</a>', "a broken link (b.html)"),
    "escapes the site": ('<a href="../../etc/passwd">x</a>', "a broken link (../../etc/passwd)"),
    "missing anchor": ('<a href="#nowhere">x</a>', "a link to a missing heading (#nowhere)"),
    "image file gone": ('<img alt="a" src="b.png">', "a broken link (b.png)"),
    "code mark": ("<table><tr><td>set `a` to 1</td></tr></table>", "a raw code mark (`a`)"),
    "no alt": ('<img src="a.css">', "an image without alt text (a.css)"),
    "outside link": ('<a href="https://example.org/x">x</a>', "an external URL (https://example.org/x)"),
    "outside script": ('<script src="//cdn.example/x.js"></script>', "an external URL (//cdn.example/x.js)"),
    "outside style": (
        "<style>@import 'https://f.example/css';</style>",
        "an external URL (https://f.example/css)",
    ),
    "inline style": (
        '<p style="background:url(http://e.org/a.png)">',
        "an external URL (http://e.org/a.png)",
    ),
    "inline module": (
        "<script>import x from 'https://cdn.example/a.js'</script>",
        "an external URL ('https://cdn",
    ),
}


@pytest.mark.parametrize("case", BAD_HTML)
def test_a_page_that_asks_for_what_is_not_there_is_refused(case, tmp_path):
    body, reason = BAD_HTML[case]
    (tmp_path / "a.css").write_text("p {}")
    (tmp_path / "a.html").write_text(PAGE.format(body))
    problems = check_html(tmp_path)
    assert len(problems) == 1 and reason in str(problems[0]), problems


def test_a_whole_page_passes(tmp_path):
    good = (
        '<a href="#top">x</a><a href="a.html#top">x</a><a href="#">x</a><img alt="a" src="data:image/png,x">'
    )
    (tmp_path / "a.css").write_text("p {background: url(data:image/png,x)}")
    (tmp_path / "a.html").write_text(
        PAGE.format(good + "<p>see https://example.org</p><svg xmlns='http://x'/>")
    )
    assert check_html(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.css", "@import url(https://f.example/x)"), ("a.js", "import('https://c.example/x.js')")],
)
def test_assets_that_load_from_outside_are_refused(name, text, tmp_path):
    (tmp_path / "a.html").write_text("<html></html>")
    (tmp_path / name).write_text(text)
    assert [p.page for p in check_html(tmp_path)] == [name]
