"""The map from claims to retained runs: complete, and without a line that leads nowhere."""

from fnmatch import fnmatchcase

import pytest

from nlqlib import paths
from nlqlib.article import claim, claims
from nlqlib.article_reads import coverage, reads, reads_of
from nlqlib.experiments.claims_readers import READERS

READS = reads()
NEVER_READ = {"setting": "no result", "once": "one answer of one live run"}
"""Scopes of claims that no run of ours can answer."""


@pytest.mark.parametrize("c", claims(), ids=lambda c: c.id)
def test_every_result_that_means_the_same_somewhere_has_a_way_to_its_value(c):
    assert c.scope.name in NEVER_READ or reads_of(c)


@pytest.mark.parametrize("read", READS, ids=lambda r: f"{r.notebook}-{r.by or r.metric or r.result}")
def test_every_line_names_a_notebook_a_claim_and_one_source_of_values(read):
    assert (paths.NOTEBOOKS / f"{read.notebook}.ipynb").is_file()
    assert bool(read.by) + bool(read.metric and read.stat) + bool(read.result) == 1
    assert read.by is None or read.by in READERS
    for ids, points in read.claims.items():
        mine = [c for c in claims() if fnmatchcase(c.id, ids)]
        assert mine, f"{ids} fits no claim"
        assert points and all("{" not in p for c in mine for p in read.points(c))


def test_every_comparison_is_used():
    assert {r.by for r in READS if r.by} == set(READERS)


def test_the_notebook_that_answers_a_claim_is_read_first():
    for c in claims():
        found = [r.notebook for r in reads_of(c)]
        assert c.notebook not in found or found[0] == c.notebook, c.id


def test_a_condition_of_the_claim_stands_in_the_name_of_its_point():
    [first, *_] = reads_of(claim("dense.throughput.8"))
    assert first.points(claim("dense.throughput.8")) == ("dense-n08",)
    assert first.points(claim("kv.usage")) == ()


def test_the_first_pattern_that_fits_decides():
    [first, *_] = reads_of(claim("dense.efficiency.8"))
    assert first.points(claim("dense.efficiency.8")) == ("dense-n01", "dense-n08")


def test_the_counts_of_the_articles_numbers_add_up():
    told = coverage()
    assert told.numbers == told.claimed + told.excluded > 300
    assert told.left_over == 0
