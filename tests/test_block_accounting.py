"""Prefix-cache tokens by the block rules: known values for two block sizes, and the twin's own counters."""

from pathlib import Path

import pytest

from nlqlib.artifacts import Store
from nlqlib.experiments.block_accounting import cases, planned, record, sentence, table
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target
from nlqlib.twin.limits import EngineLimits


@pytest.mark.parametrize(
    ("block", "hits"),
    [(16, [0, 992, 0, 1008, 0, 512, 992]), (128, [0, 896, 0, 896, 0, 512, 896])],
)
def test_hits_are_whole_blocks_and_never_the_last_token(block: int, hits: list[int]) -> None:
    found = planned(cases(1), EngineLimits(1170, block_size=block))
    assert [n for _, n in found] == hits
    assert [n for n, _ in found] == [1000, 1000, 1024, 1024, 1000, 1000, 2000]


def test_the_twins_counters_equal_the_plan(tmp_path: Path) -> None:
    target = open_target("twin").engine(words="synthetic")
    study = Study("05_knee", target, "full", "wire", Store(tmp_path))
    found = record(study)
    assert set(table(found)["equal"]) == {"yes"}
    assert sentence(found).startswith("7 of 7 cases")
