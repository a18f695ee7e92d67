"""The plan for the real engine, held to what is retained of it: nothing is left to send, and its times."""

from datetime import datetime
from functools import cache

import pytest

from nlqlib import paths
from nlqlib.artifacts import Record
from nlqlib.experiments.plans import PLANS, of_point, points
from nlqlib.experiments.study import Study
from nlqlib.notebook_params import declared
from nlqlib.plan import Asked, Plan

FACTOR = 2.0
NOTEBOOKS = sorted(PLANS)
LOCAL = "local"


def asked(notebook: str) -> Asked:
    params = declared(paths.NOTEBOOKS / f"{notebook}.ipynb")
    return Asked(notebook, LOCAL, "quick", None, params, remeasure=False)


def took_s(record: Record) -> float:
    """Seconds from the start of a point to its end, by the clock of the machine that measured it."""
    began, ended = (datetime.fromisoformat(str(record.run[f"{end}_at"])) for end in ("started", "completed"))
    return (ended - began).total_seconds()


@cache
def planned_and_taken(notebook: str) -> tuple[float, float]:
    """Seconds that the plan gives the retained points of a notebook, and those they took."""
    told = asked(notebook)
    study = Study.open(notebook, LOCAL, told.profile, "wire")
    there = [(spec, where.store.find(where.key(spec))) for where, spec in points(study, told)]
    kept = [(spec, record) for spec, record in there if record is not None and record.run.get("completed_at")]
    planned = sum(of_point(spec, LOCAL).seconds for spec, _ in kept)
    return planned, sum(took_s(record) for _, record in kept)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_point_of_the_real_engine_is_retained_so_that_its_pages_are_made_without_it(
    notebook: str,
) -> None:
    assert PLANS[notebook](asked(notebook)) == Plan()


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_plan_of_a_notebook_is_right_within_a_factor_of_two(notebook: str) -> None:
    planned, taken = planned_and_taken(notebook)
    assert taken / FACTOR <= planned <= taken * FACTOR


def test_so_is_the_plan_of_them_all() -> None:
    both = [planned_and_taken(notebook) for notebook in NOTEBOOKS]
    planned, taken = (sum(side) for side in zip(*both, strict=True))
    assert taken > 3600 and taken / FACTOR <= planned <= taken * FACTOR
