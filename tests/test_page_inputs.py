"""An executed notebook is kept while nothing that it follows from has changed, and run again otherwise."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from nlqlib import page_inputs
from nlqlib.artifact_record import READ, load_record
from nlqlib.notebook_run import Notebook, Points
from nlqlib.page_inputs import Page, settings

POINTS = Points(measured=1, reused=2)
SINCE = "2026-01-02T03:04:05.678+00:00"


def keep(made: Page, touched: Iterable[Path] = (), since: str = SINCE) -> bool:
    return made.keep(made.sources(), POINTS, touched, since)


def write(*parts: str, text: str = "{} ") -> Callable[[Path], None]:
    def change(home: Path) -> None:
        home.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
        home.joinpath(*parts).write_text(text)

    return change


def remove(*parts: str) -> Callable[[Path], None]:
    return lambda home: home.joinpath(*parts).unlink()


def seen(home: Path, name: str = "03_admission", **environment: str) -> Page:
    """The page of what lies in `home`."""
    source, executed = home / "notebooks" / f"{name}.ipynb", home / "executed" / f"{name}.ipynb"
    note = home / "inputs" / f"{name}.json"
    return Page(
        Notebook(source, {"n": 1}), executed, note, {"TARGET": "twin"} | environment, home / "artifacts"
    )


def page(home: Path, name: str = "03_admission") -> Page:
    """A page that was executed in `home`, one artifact of each of two targets beside it."""
    for folder in ("notebooks", "executed"):
        write(folder, f"{name}.ipynb", text="{}")(home)
    for target in ("twin", "local"):
        write("artifacts", target, name, "a-1.json", text="{}")(home)
    return seen(home, name)


def kept(home: Path, name: str = "03_admission", **environment: str) -> bool:
    return seen(home, name, **environment).kept() is not None


def test_what_was_executed_is_kept_with_its_points_and_since_when(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert made.kept() is None
    assert keep(made, {tmp_path / "artifacts" / "twin" / "03_admission"})
    found = made.kept()
    assert found is not None and (found.points, found.since) == (3, SINCE)


@pytest.mark.parametrize(
    "change",
    [
        write("notebooks", "03_admission.ipynb"),
        write("executed", "03_admission.ipynb"),
        remove("executed", "03_admission.ipynb"),
        remove("inputs", "03_admission.json"),
        write("inputs", "03_admission.json", text='{"executed": "cu'),
        write("artifacts", "twin", "03_admission", "a-1.json"),
        write("artifacts", "twin", "03_admission", "b-2.json"),
        remove("artifacts", "twin", "03_admission", "a-1.json"),
        write("artifacts", "twin", "02_serialization_staircase", "new.json"),
    ],
)
def test_a_change_of_what_it_follows_from_has_it_run_again(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    assert keep(page(tmp_path)) and kept(tmp_path)
    change(tmp_path)
    assert not kept(tmp_path)


@pytest.mark.parametrize("setting", ["TWIN", "PROFILE", "MODEL", "QWEN_3B_URL", "NLQLIB_FIXTURES"])
def test_another_setting_has_it_run_again(tmp_path: Path, setting: str) -> None:
    assert keep(page(tmp_path))
    assert not kept(tmp_path, **{setting: "other"}) and kept(tmp_path, **{setting: ""})


def test_another_parameter_or_other_code_has_it_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = page(tmp_path)
    assert keep(made)
    other = Page(Notebook(made.notebook.path, {"n": 2}), *list(vars(made).values())[1:])
    assert other.kept() is None and made.kept()
    monkeypatch.setattr(page_inputs, "suite", lambda: "other code")
    assert made.kept() is None


def test_what_was_edited_while_the_page_ran_has_it_run_again(tmp_path: Path) -> None:
    made = page(tmp_path)
    begun = made.sources()
    write("notebooks", "03_admission.ipynb")(tmp_path)
    assert not made.keep(begun, POINTS, (), SINCE) and made.kept() is None


def test_a_linked_folder_counts_and_what_is_being_written_does_not(tmp_path: Path) -> None:
    write("elsewhere", "03_admission", "a-1.json", text="{}")(tmp_path)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "linked").symlink_to(tmp_path / "elsewhere")
    for name in ("03_admission", "99_summary"):
        assert keep(page(tmp_path, name))
    write("elsewhere", "03_admission", ".a-1.json.123.0123abcd.tmp")(tmp_path)
    assert kept(tmp_path) and kept(tmp_path, "99_summary")
    write("elsewhere", "03_admission", "a-1.json")(tmp_path)
    assert not kept(tmp_path) and not kept(tmp_path, "99_summary")


def test_what_another_page_measured_does_not_matter_unless_it_reads_it(tmp_path: Path) -> None:
    for name in ("03_admission", "99_summary"):
        assert keep(page(tmp_path, name))
    write("artifacts", "twin", "05_knee", "c-3.json")(tmp_path)
    assert kept(tmp_path) and not kept(tmp_path, "99_summary")


def test_a_page_that_read_what_it_does_not_declare_is_never_kept(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert keep(made)
    assert not keep(made, {tmp_path / "artifacts" / "twin" / "05_knee"})
    assert made.kept() is None


def test_a_folder_read_elsewhere_is_watched_as_well(tmp_path: Path) -> None:
    assert keep(page(tmp_path), {tmp_path / "calibrations"}) and kept(tmp_path)
    write("calibrations", "own.json")(tmp_path)
    assert not kept(tmp_path)


def test_the_key_is_no_input_and_neither_is_the_time() -> None:
    told = {"TARGET": "twin", "API_KEY_ENV": "KEY", "KEY": "secret", "REMEASURE": "1", "HOME": "/home"}
    assert settings(told) == {"TARGET": "twin", "API_KEY_ENV": "KEY"}


def test_a_kernel_notes_every_folder_it_reads_artifacts_from_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(READ, str(tmp_path / "read"))
    for folder in ("a", "b", "a"):
        write(folder, "x.json", text="{}")(tmp_path)
        load_record(tmp_path / folder / "x.json")
    lines = (tmp_path / "read").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [str(tmp_path / "a"), str(tmp_path / "b")]
