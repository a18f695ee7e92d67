"""The retained staircase on the page of the diagnosis: which of its runs, and on whose deployment."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from retained_points import points

from nlqlib.artifacts import Record
from nlqlib.experiments.diagnosis_page import STAIRCASE, diagnoses
from nlqlib.experiments.saved_levels import saved_staircase
from nlqlib.paths import ARTIFACTS

UNSEEN = "whether independent processes queue as well: no valid staircase"


def like(target: str, admission: dict[str, int] | None, **identity: Any) -> Record:
    """A level of the target's page on admission, behind other limits or of another identity."""
    record = points(target, "03_admission", "before-n")[0]
    mine = {**record.body["identity"], **identity}
    mine.pop("admission")
    return replace(
        record, body={**record.body, "identity": mine | ({"admission": admission} if admission else {})}
    )


TARGETS = pytest.mark.parametrize("target", ["twin", "local"])


@TARGETS
@pytest.mark.parametrize(
    ("admission", "verdict"),
    [
        ({"router": 1, "replica": 1}, "serial"),
        ({"router": 1, "replica": 32}, "serial"),  # what lies behind a router of 1 is never reached
        ({"router": 32, "replica": 32}, "parallel"),  # limits that let every process through
        (None, "parallel"),
    ],
)
def test_a_run_behind_the_same_first_limit_counts(
    target: str, admission: dict[str, int] | None, verdict: str
) -> None:
    found = saved_staircase(ARTIFACTS / target / STAIRCASE, like(target, admission))
    assert found is not None and found.controls_hold and found.verdict == verdict


@TARGETS
@pytest.mark.parametrize("admission", [{"router": 32, "replica": 1}, {"router": 4}, {"replica": 2}])
def test_limits_that_were_never_tested_have_no_staircase(target: str, admission: dict[str, int]) -> None:
    assert saved_staircase(ARTIFACTS / target / STAIRCASE, like(target, admission)) is None


@TARGETS
@pytest.mark.parametrize("changed", [{"model": "another"}, {"name": "another"}])
def test_another_endpoint_has_no_staircase(target: str, changed: dict[str, str]) -> None:
    found = like(target, {"router": 1, "replica": 1}, **changed)
    assert saved_staircase(ARTIFACTS / target / STAIRCASE, found) is None


def test_another_engine_has_no_staircase() -> None:
    settings = points("local", "03_admission", "before-n")[0].body["identity"]["settings"]
    other = like("local", {"router": 1, "replica": 1}, settings={**settings, "engine_version": "0.1"})
    assert saved_staircase(ARTIFACTS / "local" / STAIRCASE, other) is None


@TARGETS
def test_the_diagnosis_of_the_page_rests_on_the_staircase_of_the_other(target: str) -> None:
    sweeps = {name: points(target, "03_admission", f"{name}-n") for name in ("before", "after")}
    found = diagnoses(sweeps)
    for name, said in (("before", "serial"), ("after", "parallel")):
        assert UNSEEN not in found[name].not_observable
        [evidence] = [e for e in found[name].evidence if e.name == "independent processes"]
        assert evidence.reading.startswith(said)
    assert found["before"].verdict == "serialised upstream"
    assert found["after"].verdict == "batching works"
    client = next(x for x in found["before"].layers if x.name == "Client")
    assert "independent processes queue as well" in client.finding


def test_without_a_retained_staircase_the_page_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("nothing") / "03_admission"
    records = points("twin", "03_admission", "before-n")
    record = replace(records[0], path=elsewhere / records[0].path.name)
    assert saved_staircase(record.path.parent.parent / STAIRCASE, record) is None


def test_of_a_test_measured_again_the_latest_counts(tmp_path: Path) -> None:
    for path in (ARTIFACTS / "local" / STAIRCASE).glob("staircase-*.json*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    [body] = [p for p in tmp_path.glob("*.json") if not p.name.endswith(".run.json")]
    older = json.loads(body.read_text("utf-8"))
    service_s = older["results"]["service_s"]["as it is"]
    older["results"]["service_s"]["as it is"] = 99.0
    (tmp_path / "staircase-00000000.json").write_text(json.dumps(older), "utf-8")
    (tmp_path / "staircase-00000000.run.json").write_text('{"completed_at": "2020-01-01"}', "utf-8")
    found = saved_staircase(tmp_path, like("local", None))
    assert found is not None and found.endpoint.service_s == pytest.approx(service_s)


@pytest.mark.parametrize(("label", "counts"), [("low/low", True), ("", True), ("high/high", False)])
def test_a_staircase_of_another_label_is_of_another_deployment(
    label: str, counts: bool, tmp_path: Path
) -> None:
    for path in (ARTIFACTS / "local" / STAIRCASE).glob("staircase-*.json*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    [body] = [p for p in tmp_path.glob("*.json") if not p.name.endswith(".run.json")]
    told = json.loads(body.read_text("utf-8"))
    body.write_text(json.dumps(told | {"params": {**told["params"], "cell": "low/low"}}), "utf-8")
    level = like("local", None)
    theirs = replace(level, body={**level.body, "params": {**level.params, "cell": label}})
    assert (saved_staircase(tmp_path, theirs) is not None) is counts
