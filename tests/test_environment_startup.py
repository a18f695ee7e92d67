"""Page 00 keeps how long the engine took to start with its identity, and shows it where it was seen."""

from dataclasses import replace
from pathlib import Path

import pytest

from nlqlib.artifacts import Store
from nlqlib.experiments import environment, environment_startup
from nlqlib.experiments.study import Study
from nlqlib.records import Json
from nlqlib.serving.startup import DOING
from nlqlib.serving.target import Connection, Kind, open_target

PHASES = {"imports": 9.25, "configuration": 0.75, "weights": 20.5, "server": None, "ready": 1.5, "total": 32}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "cache"))


def study(folder: Path, kind: Kind = "local", startup_s: Json | None = None) -> Study:
    """A study of the twin as if it were an endpoint of `kind` whose start took `startup_s`."""
    twin = open_target("twin")

    def connect() -> Connection:
        there = twin.connect()
        return replace(there, engine={**there.engine, "startup_s": startup_s})

    name = "mine" if kind == "url" else kind
    target = twin if kind == "twin" else replace(twin, kind=kind, name=name, connect=connect)
    return Study("00_environment", target, "quick", "openai", Store(folder))


def test_the_phases_are_kept_with_the_identity_in_their_order(tmp_path: Path) -> None:
    one = study(tmp_path, startup_s=PHASES)
    environment.identity(one)
    kept = one.store.find(one.key(environment.IDENTITY))
    assert kept is not None and kept.server is not None
    assert list(environment_startup.startup_phases(kept).items()) == list(PHASES.items())
    assert {(m.unit, m.tag) for m in kept.metrics} == {("s", "measured")}
    assert [m.n for m in kept.metrics if m.value is None] == [None], "one was not seen: missing, not 0"


def test_the_table_says_what_went_on_and_for_how_long(tmp_path: Path) -> None:
    one = study(tmp_path, startup_s=PHASES)
    table = environment_startup.startup_table(environment.identity(one), one)
    assert table is not None
    assert table.frame["seconds"].tolist() == ["9.2", "0.8", "20.5", "—", "1.5", "32.0"]
    assert table.frame.index.tolist() == [*(DOING[phase] for phase in [*PHASES][:-1]), "total"]
    assert table.caption == "The engine's start, told from its log. Target: local (measured)."


def test_the_sentence_names_the_total_and_the_longest_phase(tmp_path: Path) -> None:
    one = study(tmp_path, startup_s=PHASES)
    told = environment_startup.startup_sentence(environment.identity(one), one)
    assert told.startswith("From its launch to its first answer the engine took 32.0 s, 20.5 s of them load")


def test_a_point_kept_without_them_is_reused_and_shows_none(tmp_path: Path) -> None:
    environment.identity(study(tmp_path))
    one = study(tmp_path, startup_s=PHASES)
    record = environment.identity(one)
    assert record.reused and not one.target.connected
    assert environment_startup.startup_table(record, one) is None
    assert "kept without" in environment_startup.startup_sentence(record, one)


@pytest.mark.parametrize(("kind", "why"), [("twin", "Nothing was started"), ("url", "Not observable here")])
def test_where_nothing_is_started_there_is_no_table_and_the_page_says_why(
    tmp_path: Path, kind: Kind, why: str
) -> None:
    one = study(tmp_path, kind)
    record = environment.identity(one)
    assert record.metrics == ()
    assert environment_startup.startup_table(record, one) is None
    assert environment_startup.startup_sentence(record, one).startswith(why)
