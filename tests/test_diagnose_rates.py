"""How often the diagnosis is right: judged fairly, counted the same every time, and told as it is."""

from dataclasses import replace

import pytest

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.experiments.diagnose_rates import NOISES, TRUTHS, VIEWS, Case, Truth, cases, judge
from nlqlib.experiments.diagnose_rates_page import (
    document,
    page,
    retained,
    rows,
    sentence,
    table,
    wrong_sentence,
)

BY_NAME = {truth.name: truth for truth in TRUTHS}


def said(kind: str, limit: int | None = None) -> Diagnosis:
    empty: dict[str, object] = dict.fromkeys(Diagnosis.__dataclass_fields__)
    return Diagnosis(**empty | {"kind": kind, "limit": limit})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("truth", "view", "kind", "limit", "judged"),
    [
        ("router limit 4", "everything seen", "limited", 4, "right"),
        ("router limit 4", "from outside", "limited", 5, "number off"),
        ("router limit 1", "from outside", "serialised upstream", 1, "right"),
        ("router limit 1", "from outside", "limited", 2, "number off"),
        ("router limit 4", "from outside", "cannot tell", None, "cannot tell"),
        ("router limit 4", "from outside", "batching works", None, "wrong"),
        ("max_num_seqs 4", "everything seen", "limited", 4, "wrong"),
        ("max_num_seqs 4", "from outside", "limited", 4, "right"),
        ("no limit", "from outside", "limited", 4, "wrong"),
        ("as busy with one as with many", "from outside", "cannot tell", None, "right"),
        ("as busy with one as with many", "from outside", "serialised upstream", 1, "wrong"),
    ],
)
def test_a_verdict_is_judged_by_kind_and_number(
    truth: str, view: str, kind: str, limit: int | None, judged: str
) -> None:
    assert judge(BY_NAME[truth], view, said(kind, limit)) == judged


@pytest.mark.parametrize("name", ["router limit 4", "no limit, throughput fades"])
def test_the_retained_counts_are_those_of_this_code(name: str) -> None:
    again = rows(document(cases([BY_NAME[name]], seeds=(1, 2))))
    kept = [c for c in rows(retained()) if c["truth"] == name and c["seed"] in (1, 2)]
    assert again == kept


def test_every_deployment_is_seen_by_everybody_under_every_noise() -> None:
    kept = rows(retained())
    seeds = len(retained()["world"]["seeds"])
    assert len(kept) == len(TRUTHS) * len(NOISES) * len(VIEWS) * seeds
    assert {c["truth"] for c in kept} == set(BY_NAME)


def test_with_everything_seen_hardly_a_verdict_is_wrong() -> None:
    inside = [c for c in rows(retained()) if c["view"] == "everything seen"]
    assert sum(c["judged"] == "wrong" for c in inside) <= 0.02 * len(inside)


def test_where_no_outside_can_tell_the_wrong_verdict_names_its_rival() -> None:
    short = [c for c in rows(retained()) if c["truth"] == "prompts taken in turn, short answers"]
    assert all(c["judged"] == "right" for c in short if c["view"] == "everything seen")
    assert all(c["marked"] for c in short if c["judged"] == "wrong")


CASE = Case("router limit 4", "from outside", 0.1, 0.0, 1, "right", "limited at 4", False)
FOUND = [CASE, replace(CASE, judged="wrong", said="batching works"), replace(CASE, view="everything seen")]


def test_shares_are_told_for_each_observer() -> None:
    told = sentence(rows(document([*FOUND, replace(CASE, view="the curve alone")])))
    assert "everything seen: right 100%" in told and "from outside: right 50%, number off 0%" in told
    assert "wrong 50% of 2" in told


def test_the_table_counts_by_group_and_the_wrong_ones_are_named() -> None:
    cases = rows(document(FOUND))
    shown = table(cases, ("deployment",), lambda c: (c["truth"],))
    assert shown.splitlines()[0] == "| deployment | cases | right | number off | cannot tell | wrong |"
    assert shown.splitlines()[2] == "| router limit 4 | 3 | 2 | 0 | 0 | 1 |"
    told = wrong_sentence(cases)
    assert (
        "first: router limit 4 called *batching works* 1 times (from outside). Of these 1, 0 carried" in told
    )
    assert wrong_sentence(rows(document([CASE]))) == "No verdict was wrong."


def test_the_page_says_that_nothing_is_measured_and_how_to_count_anew() -> None:
    shown = page(retained())
    assert "simulated world" in shown and "`python -m nlqlib validate-diagnosis`" in shown


def test_a_deployment_is_due_the_same_everywhere_unless_it_says_otherwise() -> None:
    truth = Truth("x", TRUTHS[0].make, ("limited",))
    assert truth.due("everything seen") == truth.due("from outside") == ("limited",)
