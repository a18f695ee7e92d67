"""The walk over a whole site finds what it is there to find: planted faults, one page each."""

import pytest
import site_check
from site_check import View

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<link rel="icon" href="data:,"></head><body><main><h1>{name}</h1>{body}</main></body></html>"""
FAULTS = {
    "script": "<script>throw new Error('boom')</script>",
    "console": "<script>console.error('said so')</script>",
    "abroad": "<script>fetch('http://127.0.0.1:9/x.json').catch(() => 0)</script>",
    "missing": "<script>fetch('gone.json')</script>",
    "wide": "<div style='width:700px'>wide</div>",
    "pale": "<p style='color:#ccc;background:#fff'>hard to read</p>",
    "link": "<a href='nowhere.html'>nowhere</a>",
}
SAYS = {
    "script": "script: boom",
    "console": "console: said so",
    "abroad": "external request: http://127.0.0.1:9/x.json",
    "missing": "HTTP 404",
    "wide": "scrolls sideways: 7",
    "pale": "axe color-contrast (serious, 1 times)",
    "link": "a broken link (nowhere.html)",
}
PHONE, DESK = View("light", 390), View("light", 1280)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, list[str]]:
    """What is found on each page, seen on a phone; `sound.html` has no fault."""
    folder = tmp_path_factory.mktemp("faults")
    for name, body in {"sound": "<p>As it should be.</p>", **FAULTS}.items():
        (folder / f"{name}.html").write_text(PAGE.format(name=name, body=body), "utf-8")
    told = site_check.check(folder, [PHONE])
    return {name: [t for t in told if t.startswith(f"{name}.html")] for name in ("sound", *FAULTS)}


@pytest.mark.site
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_on_its_page(found, fault):
    assert any(SAYS[fault] in text for text in found[fault]), found[fault]


@pytest.mark.site
def test_a_sound_page_has_no_fault(found):
    assert found["sound"] == []


@pytest.mark.site
def test_what_scrolls_on_a_phone_does_not_on_a_desk(tmp_path):
    (tmp_path / "wide.html").write_text(PAGE.format(name="wide", body=FAULTS["wide"]), "utf-8")
    assert site_check.check(tmp_path, [DESK]) == []


def test_every_page_is_looked_at_in_light_and_dark_on_a_desk_and_on_a_phone():
    seen = {(view.scheme, view.width_px) for view in site_check.VIEWS}
    assert seen == {(s, w) for s in ("light", "dark") for w in (1280, 390)}


def test_without_a_site_it_says_how_to_build_one(tmp_path, capsys):
    assert site_check.main(tmp_path) == 2
    assert "make site" in capsys.readouterr().err
