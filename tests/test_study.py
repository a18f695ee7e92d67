"""A study reuses what is retained without contact, and says what its numbers are."""

from pathlib import Path

import nbformat
import pytest

from nlqlib import paths
from nlqlib.artifacts import Measured, Store
from nlqlib.experiments.plans import NOTEBOOKS, plan
from nlqlib.experiments.study import Spec, Study
from nlqlib.notebook_params import defaults
from nlqlib.plan import Asked
from nlqlib.records import Metric
from nlqlib.serving.target import TargetError, open_target

SPEC = Spec("one", {"n": 1}, ("nlqlib.twin.recordings",), requests=3)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study("test", open_target("twin"), "full", "wire", Store(root=tmp_path))


def measured() -> Measured:
    return Measured(metrics=[Metric("throughput", "req/s", "mean", 0.31, 3, "measured")])


def test_a_point_is_measured_once(study: Study) -> None:
    assert not study.retained(SPEC)
    assert not study.point(SPEC, measured).reused
    assert study.retained(SPEC)
    again = study.point(SPEC, lambda: pytest.fail("measured again"))
    assert again.reused
    assert again.value("throughput", "mean") == 0.31


def test_nothing_is_contacted_for_a_retained_point(study: Study) -> None:
    study.point(SPEC, measured)
    assert not study.target.connected


def test_another_parameter_is_another_point(study: Study) -> None:
    study.point(SPEC, measured)
    assert not study.retained(Spec("one", {"n": 2}, SPEC.modules))


def test_the_twin_says_what_is_modelled_and_whose_words_it_replays(study: Study) -> None:
    said = study.statement()
    assert "replayed from recordings of Qwen/Qwen2.5-Coder-1.5B-Instruct" in said
    assert "times modelled (Qwen2.5-3B-Instruct on one NVIDIA L4" in said and "virtual time" in said


def test_answers_that_are_only_lengths_are_no_words_of_anybody(study: Study) -> None:
    said = study.statement("drawn")
    assert "only the lengths count, drawn at 115 ± 3 tokens" in said and "replayed" not in said


def test_where_some_are_replayed_and_some_drawn_both_are_said(study: Study) -> None:
    said = study.statement("replayed", "drawn")
    assert said == study.statement("drawn", "replayed")
    assert "some answers replayed from recordings of Qwen" in said
    assert "of the others only the lengths count" in said


def test_answers_of_another_kind_are_refused(study: Study) -> None:
    with pytest.raises(ValueError, match="replayed, drawn, or both, not synthetic"):
        study.statement("synthetic")  # type: ignore[arg-type]


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(TargetError, match="use full or quick"):
        Study.open("test", "twin", profile="fast")


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_plan_counts_only_what_is_missing(name: str) -> None:
    notebook = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    source = next(c.source for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    params = defaults(source, name)
    remeasured = plan(Asked(name, "local", "quick", None, params, True))
    assert plan(Asked(name, "local", "quick", None, params, False)).requests <= remeasured.requests


def test_provenance_names_the_artifact_of_each_point(study: Study) -> None:
    record = study.point(SPEC, measured)
    table = study.provenance(record)
    assert table.loc["one", "artifact"] == record.path.name
    assert len(table.loc["one", "fingerprint"]) == 8
