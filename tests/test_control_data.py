"""The map as data: thirteen rows of the article, predictions that can fail, and a digest of just those."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nlqlib import paths
from nlqlib.artifacts import Store
from nlqlib.experiments import control
from nlqlib.experiments.control_answers import ASKED
from nlqlib.experiments.control_data import FILE, OWN, MapError, digest, read, rows, statements
from nlqlib.experiments.control_page import predictions_table
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target

CONTROLS = (
    "Client concurrency",
    "Router admission",
    "Replica admission",
    "Engine batch limits",
    "Prefix caching",
    "ISL",
    "OSL",
    "`max_tokens`",
    "`max_model_len`",
    "Structured outputs",
    "Semantic guardrails",
    "Held-out evaluation",
    "Model architecture",
)
MINIMAL = """
[[row]]
id = "a"
control = "A"
change = "1 → 2"
article = "x"
how = "so"
refuted_by = "not so"
before = { point = "one" }
after = { point = "two" }
[[row.predicted]]
id = "x"
signal = "x"
metric = "m"
direction = "up"
least = 0.1
"""


def test_the_rows_are_the_articles_thirteen_in_its_order() -> None:
    assert tuple(row.control for row in rows()) == CONTROLS


def test_every_row_says_how_it_is_measured_and_what_would_refute_it() -> None:
    assert all(row.change and row.article and row.how and row.refuted_by for row in rows())
    assert set(predictions_table().index) == set(CONTROLS)


def test_every_row_has_a_prediction_that_can_fail_or_says_why_none_can() -> None:
    for row in rows():
        assert row.unobservable or any(p.construction != "always" for p in row.predicted)


def test_own_points_of_the_map_are_really_run(tmp_path: Path) -> None:
    study = Study(OWN, open_target("twin"), "full", "wire", Store(tmp_path))
    names = {f"{t.sweep}-*" for t in control.trials(study)} | {a.point for a in ASKED}
    picks = [pick for row in rows() for p in row.predicted for pick in (p.before, p.after)]
    assert {pick.point for pick in picks if pick.notebook == OWN} <= names


def test_other_notebooks_of_the_map_exist_or_are_planned() -> None:
    named = {pick.notebook for row in rows() for p in row.predicted for pick in (p.before, p.after)}
    assert all(re.fullmatch(r"\d\d_\w+", name) for name in named)
    assert {"03_admission", "06_saturation", "13_heldout_semantics"} <= named
    for name in ("03_admission", "06_saturation", "13_heldout_semantics"):
        assert (paths.ROOT / "notebooks" / f"{name}.ipynb").exists()


def test_what_a_prediction_leaves_out_is_as_in_its_row() -> None:
    [row] = read(MINIMAL)
    [one] = row.predicted
    assert (one.before.point, one.after.point, one.before.metric, one.before.stat) == (
        "one",
        "two",
        "m",
        "mean",
    )
    assert one.before.notebook == OWN and one.words == "rises by 10% or more"


def test_the_digest_is_of_what_measurements_can_refute_and_of_nothing_else() -> None:
    plain = read(MINIMAL)
    assert digest(plain) == digest(read(MINIMAL.replace('how = "so"', 'how = "differently"')))
    assert digest(plain) == digest([replace(plain[0], refuted_by="other words")])
    for old, new in (('"up"', '"down"'), ("0.1", "0.2"), ('"two"', '"three"'), ('"m"', '"n"')):
        assert digest(plain) != digest(read(MINIMAL.replace(old, new, 1)))
    assert statements(plain)[0]["direction"] == "up"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"up"', '"sideways"', "a.x: direction"),
        ("least = 0.1", "least = 0", "0 < least"),
        ('signal = "x"\n', "", "row a: 'signal'"),
        ('refuted_by = "not so"\n', "", "refuted_by"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(MapError, match=message):
        read(MINIMAL.replace(old, new))


def test_two_signals_of_one_name_are_refused() -> None:
    twice = MINIMAL + MINIMAL[MINIMAL.index("[[row.predicted]]") :]
    with pytest.raises(MapError, match=r"two predictions are called a\.x"):
        read(twice)


def test_a_row_without_predictions_needs_a_reason() -> None:
    bare = MINIMAL[: MINIMAL.index("before =")]
    with pytest.raises(MapError, match="needs predictions"):
        read(bare)
    [row] = read(bare + 'unobservable = "one model is served"\n')
    assert row.predicted == () and row.notebooks == ()


def test_the_file_says_when_it_was_written_to_be_read() -> None:
    assert "Written before the first run" in FILE.read_text("utf-8")
