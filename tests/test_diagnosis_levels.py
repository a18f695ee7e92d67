"""Rows of a sweep: what is missing where a level has no steady state, and whom that accuses."""

import pytest
from queue_world import Site, Slots, Twin, constant, offer
from retained_points import points

from nlqlib.analysis.diagnosis import SweepLevel, diagnose
from nlqlib.analysis.diagnosis_levels import level
from nlqlib.experiments.diagnose import of_records

SERIAL = Site(lambda: Slots(constant(3.2)), router=1)


def row(site: Site, concurrency: int, n: int) -> SweepLevel:
    found = offer(site, concurrency, n)
    return level(found.completions, concurrency, running=found.running, waiting=found.waiting)


def test_without_a_steady_state_nothing_is_said_of_the_requests_in_flight_on_average() -> None:
    once = row(SERIAL, 16, 16)
    assert once.in_flight_mean is None  # half of them were gone half-way: the drain
    assert once.in_flight_peak == 16
    assert row(SERIAL, 16, 112).in_flight_mean == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize("view", ["once", "once and repeated"])
def test_as_many_requests_as_places_behind_a_limit_of_one_do_not_accuse_the_client(view: str) -> None:
    more = [row(SERIAL, 16, 32)] if view == "once and repeated" else []
    rows = [row(SERIAL, 1, 8), row(SERIAL, 4, 8), row(SERIAL, 16, 16), row(SERIAL, 16, 16), *more]
    found = diagnose(rows)
    assert (found.verdict, found.layer) == ("serialised upstream", "router")
    assert "client was a suspect" not in found.sentence
    assert next(x for x in found.layers if x.name == "Client").state == "passes"


def test_a_client_that_never_offers_the_load_is_still_accused() -> None:
    lame = [row(Site(Twin), n, 24) for n in (1, 2)] + [level(offer(Site(Twin), 4, 60).completions, 32)]
    assert any("ever in flight" in why for why in diagnose(lame).reservations) or (
        diagnose(lame).kind == "client-limited"
    )


def test_the_published_diagnosis_of_the_real_engine_does_not_accuse_the_client() -> None:
    found = of_records(points("local", "03_admission", "before-n"))
    assert (found.verdict, found.layer) == ("serialised upstream", "router")
    assert "client" not in " ".join(found.reservations)
