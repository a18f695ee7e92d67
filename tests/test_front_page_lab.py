"""JupyterLab's first page: every notebook with its claim, and it runs from top to bottom."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

from nlqlib import paths
from nlqlib.front_page_lab import contents

START = paths.NOTEBOOKS / "start" / "index.ipynb"


def test_every_notebook_is_listed_in_order_with_its_claim():
    names = [name for name, _, _ in contents().entries]
    assert names == sorted(p.stem for p in paths.NOTEBOOKS.glob("[0-9]*.ipynb"))
    assert all(claim and not claim.startswith("#") for _, claim, _ in contents().entries)


def test_a_notebook_says_of_which_targets_there_are_retained_runs(tmp_path):
    for target in ("twin", "local"):
        (tmp_path / target / "05_knee").mkdir(parents=True)
    kept = {name: targets for name, _, targets in contents(artifacts=tmp_path).entries}
    assert kept["05_knee"] == ("local", "twin") and kept["06_saturation"] == ()


def test_its_links_lead_to_notebooks():
    shown = contents()._repr_html_()
    for name, _, _ in contents().entries:
        assert f'href="../{name}.ipynb"' in shown and (START.parent / f"../{name}.ipynb").exists()


def test_make_lab_opens_it():
    assert "default_url=/lab/tree/start/index.ipynb" in (paths.ROOT / "Makefile").read_text()


def test_its_source_has_no_outputs():
    cells = json.loads(START.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.site
def test_it_runs_from_top_to_bottom():
    nb = nbformat.read(START, as_version=4)
    NotebookClient(nb, timeout=60, kernel_name="python3").execute(cwd=str(START.parent))
    assert "05_knee" in "".join(str(cell.get("outputs")) for cell in nb.cells)
