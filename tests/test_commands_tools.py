"""The help of the small commands: inputs that anybody can write, and outputs that are what is printed."""

import json
from pathlib import Path

import pytest
from test_window_command import page, saved

from nlqlib import commands_serve, commands_tools
from nlqlib.__main__ import main, parser
from nlqlib.experiments.twin_validation import GROUPS
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.intent import intent_of
from nlqlib.twin.scenario import parse

COMMANDS = ("sql", "serve", "simulate", "validate-twin", "window")


def given(example: str) -> str:
    """The file that an example shows."""
    return example.partition("holds\n")[2].partition("\n  python -m nlqlib")[0]


def promised(example: str) -> list[str]:
    """The lines that an example says are printed, with single spaces; a line of … stands for others."""
    said = example.partition("\nprints")[2].splitlines()[1:]
    return [line for text in said if (line := " ".join(text.split())) != "…"]


def keeps(shown: str, example: str, least: int) -> None:
    """`shown` holds every line that `example` promises, at least `least` of them."""
    lines = promised(example)
    assert len(lines) >= least and all(line in shown for line in lines)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    return " ".join(capsys.readouterr().out.split())


def helped(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_has_an_example_and_says_what_it_prints(capsys: pytest.CaptureFixture[str], name: str) -> None:
    told = helped(capsys, name)
    assert f"python -m nlqlib {name} " in told and "\nprints" in told


def test_the_example_of_sql_is_an_intent_and_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "intent.json"
    path.write_text(given(commands_tools.SQL_EXAMPLE), "utf-8")
    assert intent_of(json.loads(path.read_text("utf-8")), load_catalog()).metrics == ("revenue",)
    shown = printed(capsys, "sql", str(path))
    keeps(shown, commands_tools.SQL_EXAMPLE, 5)


def test_the_example_of_simulate_is_a_scenario_and_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(given(commands_tools.SIMULATE_EXAMPLE), "utf-8")
    assert len(parse(path.read_text("utf-8")).requests) == 2
    shown = printed(capsys, "simulate", str(path))
    keeps(shown, commands_tools.SIMULATE_EXAMPLE, 4)


def test_the_example_of_window_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = printed(capsys, "window", *saved(tmp_path, page(10), page(110)), "--elapsed", "60")
    keeps(shown, commands_tools.WINDOW_EXAMPLE, 5)


def test_the_example_of_validate_twin_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    main(["validate-twin", "--only", "tokens"])
    shown = " ".join(capsys.readouterr().out.split())
    keeps(shown, commands_tools.VALIDATE_EXAMPLE, 2)


def test_every_group_of_bounds_is_named_in_the_help() -> None:
    listed = commands_tools.VALIDATE.partition("groups: ")[2]
    assert listed.replace("\n", " ").split(", ") == list(GROUPS)


def test_the_example_of_serve_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands_serve, "listen", lambda port: port)
    monkeypatch.setattr(
        commands_serve, "serve_app", lambda app, port, ready: ready(f"http://127.0.0.1:{port}") or 0
    )
    shown = printed(capsys, "serve", "twin", "--port", "8001", "--words", "synthetic")
    lines = promised(commands_tools.SERVE_EXAMPLE.partition("\nand is then")[0])
    assert len(lines) == 3 and all(line in shown for line in lines)


def test_plan_and_reproduce_say_what_they_do_and_how_they_are_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan, run = helped(capsys, "plan"), helped(capsys, "reproduce")
    assert "usage: python -m nlqlib plan " in plan and "contacts nothing" in plan
    assert "Run the notebooks" not in plan and "Run the notebooks against a target" in run
    assert "every answer as long as it may be" in " ".join(run.split())


def test_every_small_command_is_still_there() -> None:
    [actions] = parser()._subparsers._group_actions  # type: ignore[union-attr]
    assert {*COMMANDS, "engine"} <= set(actions.choices or ())
