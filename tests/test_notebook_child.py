"""Why a notebook failed is told, also where the disk is full while it is written."""

from pathlib import Path

import nbformat
import papermill
import pytest

from nlqlib import notebook_child
from nlqlib.notebook_child import Job, execute
from nlqlib.notebook_failure import Failure

OWN = Failure("ValueError", "the notebook's own", "Below this")
WHOLE = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))


def job(folder: Path, working: str = WHOLE, executed: str = "done.ipynb") -> Job:
    """A notebook that was run: `working` is what papermill left."""
    (folder / "working.ipynb").write_text(working, "utf-8")
    (folder / "file").write_text("no folder")
    return Job("any.ipynb", str(folder / "working.ipynb"), str(folder / executed), {})


@pytest.mark.parametrize(
    ("working", "executed", "error", "message"),
    [
        (WHOLE, "file/done.ipynb", "WriteError", "cannot write"),
        (WHOLE[:100], "done.ipynb", "NotJSONError", "not appear to be JSON"),
        ("", "done.ipynb", "NotJSONError", "not appear to be JSON"),
    ],
    ids=["no folder", "cut", "empty"],
)
def test_a_notebook_that_cannot_be_kept_failed(
    working: str, executed: str, error: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_child, "_run", lambda job: None)
    told = execute(job(tmp_path, working, executed))
    assert told["status"] == "failed" and told["failure"]["error"] == error
    assert message in told["failure"]["message"]


@pytest.mark.parametrize(
    ("working", "executed"),
    [(WHOLE, "file/done.ipynb"), (WHOLE[:100], "done.ipynb")],
    ids=["no folder", "cut"],
)
def test_the_notebooks_own_failure_comes_before_that_of_writing_it(
    working: str, executed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_child, "_run", lambda job: OWN)
    told = execute(job(tmp_path, working, executed))
    assert (told["status"], told["failure"]["message"]) == ("failed", OWN.message)


def test_a_failing_cell_is_told_though_the_notebook_in_work_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise papermill.PapermillExecutionError(0, 1, "1 / 0", "ZeroDivisionError", "division by zero", [])

    monkeypatch.setattr(papermill, "execute_notebook", failed)
    told = execute(job(tmp_path, WHOLE[:100]))
    assert told["failure"]["error"] == "ZeroDivisionError"
