"""A notebook as an analyst runs it in JupyterLab: a bar, an interrupt in the middle, and a second run."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from nlqlib import paths

NOTEBOOK = "06_saturation"
HERE = """
from pathlib import Path
from nlqlib import paths
paths.ARTIFACTS = Path({folder!r})  # before anything else is imported: what is retained goes there
"""
PARAMETERS = 'target, profile, client, seed, max_num_seqs = "twin", "quick", "wire", 0, 32\n'
PARAMETERS += "beyond, repeats, n_requests = [8, 12, 16, 20, 24, 32], 1, 300\n"
LEVELS = 6
WAIT_S = 60.0


def notebook(folder: Path) -> Any:
    """The notebook up to its first measuring cell, its parameters set, with `folder` for its artifacts."""
    nb = nbformat.read(paths.NOTEBOOKS / f"{NOTEBOOK}.ipynb", as_version=4)
    last = next(i for i, cell in enumerate(nb.cells) if "saturation.beyond(" in cell.source)
    nb.cells = [nbformat.v4.new_code_cell(HERE.format(folder=str(folder))), *nb.cells[: last + 1]]
    for cell in nb.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = PARAMETERS
    return nb


def client(nb: Any) -> NotebookClient:
    return NotebookClient(
        nb, timeout=WAIT_S, kernel_name="python3", resources={"metadata": {"path": str(paths.NOTEBOOKS)}}
    )


def bodies(folder: Path) -> list[dict[str, Any]]:
    """The points in `folder`; a file in the making is not there yet, since it is renamed when whole."""
    found = [p for p in folder.rglob("*.json") if not p.name.endswith(".run.json")]
    return [json.loads(path.read_text("utf-8")) for path in found]


def statuses(folder: Path) -> list[str]:
    return sorted(str(body["status"]) for body in bodies(folder))


def interrupt_in_the_middle(running: NotebookClient, folder: Path) -> None:
    """Do what the stop button does, when one point is finished and another is being measured."""
    until = time.monotonic() + WAIT_S
    while not {"success", "started"} <= set(statuses(folder)) and time.monotonic() < until:
        time.sleep(0.01)
    asyncio.run(running.km.interrupt_kernel())


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The notebook interrupted while it measures, and then, in the same kernel, its cell run again."""
    folder = tmp_path_factory.mktemp("lab")
    nb = notebook(folder)
    running, seen = client(nb), {"folder": folder, "cell": nb.cells[-1]}
    with running.setup_kernel():
        for at, cell in enumerate(nb.cells[:-1]):
            running.execute_cell(cell, at)
        watch = threading.Thread(target=interrupt_in_the_middle, args=(running, folder))
        watch.start()
        with pytest.raises(CellExecutionError) as stopped:
            running.execute_cell(nb.cells[-1], len(nb.cells) - 1)
        watch.join()
        seen |= {"error": stopped.value, "after": bodies(folder), "bar": printed(nb.cells[-1])}
        seen["files"] = sorted(p.name for p in folder.rglob("*") if p.is_file())
        seen["times"] = finished_at(folder)
        running.execute_cell(nb.cells[-1], len(nb.cells) - 1)
        yield seen


def printed(cell: Any) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def finished_at(folder: Path) -> dict[str, str]:
    """When each finished point was completed, by the name of its file."""
    done = [p for p in folder.rglob("*.json") if '"status": "success"' in p.read_text("utf-8")]
    sidecars = {p.name: p.with_suffix(".run.json").read_text("utf-8") for p in done}
    return {name: json.loads(text)["completed_at"] for name, text in sidecars.items()}


def test_the_cell_ends_as_interrupted_and_not_as_failed(interrupted: dict[str, Any]) -> None:
    assert interrupted["error"].ename == "KeyboardInterrupt"


def test_a_bar_counts_the_levels(interrupted: dict[str, Any]) -> None:
    assert f"/{LEVELS}" in interrupted["bar"] and "%|" in interrupted["bar"]


def test_finished_points_are_kept_and_the_open_one_says_that_it_was_cancelled(
    interrupted: dict[str, Any],
) -> None:
    ended = [body["status"] for body in interrupted["after"]]
    assert ended.count("success") >= 1 and len(ended) < LEVELS
    assert ended.count("cancelled") == 1 and set(ended) == {"success", "cancelled"}
    [open_one] = [body for body in interrupted["after"] if body["status"] == "cancelled"]
    assert open_one["metrics"] == [] and "interrupted" in open_one["error"]


def test_no_half_written_file_is_left(interrupted: dict[str, Any]) -> None:
    names = interrupted["files"]
    assert all(name.endswith((".json", ".jsonl", ".prom.gz")) for name in names), names
    assert all(body["samples"] for body in interrupted["after"] if body["status"] == "success")


def test_a_second_run_measures_what_is_left_and_keeps_the_rest(interrupted: dict[str, Any]) -> None:
    assert statuses(interrupted["folder"]) == ["success"] * LEVELS
    now = finished_at(interrupted["folder"])
    assert interrupted["times"].items() <= now.items() and len(now) == LEVELS
    assert any("text/html" in output.get("data", {}) for output in interrupted["cell"].outputs)
