"""What looks like a verdict and is not one: each rival deployment, in the same world of queues."""

from dataclasses import replace

import numpy as np
import pytest
from queue_world import Prefilled, Shared, Site, Slots, Twin, constant, from_outside, of_the_curve, sweep

from nlqlib.analysis.diagnosis import Diagnosis, SweepLevel, diagnose
from nlqlib.analysis.diagnosis_levels import level
from nlqlib.analysis.diagnosis_shape import shape
from nlqlib.analysis.staircase import ProcessTimes, staircase
from nlqlib.records import Completion

SERIAL = Site(lambda: Slots(constant(2.0)), router=1)

# ---- prompts in turn with short answers --------------------------------------------------------------------

SHORT_ANSWERS = Site(lambda: Prefilled(1.0, constant(0.1)), network_s=0.0)


def asks_for_shorter_prompts(found: Diagnosis) -> bool:
    return found.next_experiment.startswith("repeat with prompts of a tenth of the length")


def test_prompts_in_turn_before_short_answers_are_no_unmarked_limit_of_one() -> None:
    rows = [from_outside(row) for row in sweep(SHORT_ANSWERS)]
    assert [row.throughput for row in rows] == pytest.approx([0.909] + [1.0] * 5, rel=0.02)
    found = diagnose(rows)
    assert found.kind == "cannot tell" or found.marked
    assert "computes prompts one at a time" in found.sentence and asks_for_shorter_prompts(found)


def test_a_limit_of_one_from_outside_names_its_rival_and_how_to_tell() -> None:
    found = diagnose([from_outside(row) for row in sweep(SERIAL)])
    assert found.verdict == "serialised upstream" and found.marked and asks_for_shorter_prompts(found)
    assert diagnose(sweep(SERIAL)).reservations == ()  # where the router's queue is seen there is no rival


def test_processes_one_after_another_name_the_rival_too() -> None:
    ends = [ProcessTimes(0.0, 0.0, 2.0 * (i + 1)) for i in range(8)]
    rows = [of_the_curve(row) for row in sweep(SERIAL)]
    found = diagnose(rows, staircase=staircase(ends, 2.0))
    assert found.verdict == "serialised upstream" and asks_for_shorter_prompts(found)
    assert any("computes prompts one at a time" in why for why in found.reservations)


def test_a_limit_of_several_has_no_such_rival() -> None:
    assert not diagnose([from_outside(row) for row in sweep(Site(Twin, router=4))]).marked


# ---- a collapse --------------------------------------------------------------------------------------------

COLLAPSE = {1: 1.0, 2: 2.0, 4: 4.0, 8: 4.1, 16: 2.0, 32: 1.0}


def collapsing(m: int) -> float:
    """How much slower each of `m` is: together they are served at the rate of `COLLAPSE`."""
    return float(m / np.interp(m, list(COLLAPSE), list(COLLAPSE.values())))


OVERLOADED = Site(lambda: Shared(constant(1.0), collapsing), network_s=0.0)
VIEWS = {"everything": lambda row: row, "from outside": from_outside, "the curve": of_the_curve}


@pytest.mark.parametrize("view", VIEWS)
def test_a_collapse_is_told_as_one(view: str) -> None:
    rows = [VIEWS[view](row) for row in sweep(OVERLOADED)]
    found = diagnose(rows)
    assert found.verdict == "batching works" and found.marked
    assert "grows × 4.1 up to 8 in flight and falls beyond, by 76% at 32" in found.sentence
    assert "from 16 in flight on throughput falls, to 1 req/s at 32" in found.sentence
    assert "stays at" not in found.sentence and "up to 32 in flight" not in found.sentence
    assert found.knee is not None and found.knee <= 8 and "admit at most 8 at once" in found.next_experiment
    curve = next(e for e in found.evidence if e.name.startswith("throughput by"))
    assert "falls from 16 on, by 76% at 32" in curve.reading


def curve(*x: float) -> list[SweepLevel]:
    rows = [SweepLevel(2**i, n=100, ok=100, throughput_window=v, mean_s=2**i / v) for i, v in enumerate(x)]
    return [replace(row, p95_s=row.mean_s) for row in rows]


def test_the_plateau_ends_where_the_fall_begins() -> None:
    found = shape(curve(*COLLAPSE.values()))
    assert found is not None and (found.plateau_from, found.fallen_from, found.best_at) == (4, 16, 8)
    assert found.plateau == pytest.approx(4.05) and found.lost == pytest.approx(0.756, abs=0.001)
    assert found.corner == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(
    ("x", "spread", "fallen"),
    [
        ((1.0, 2.0, 4.0, 4.2, 4.1, 3.9), None, None),
        ((1.0, 2.0, 4.0, 4.2, 4.1, 3.3), None, None),  # a machine may drift so far between two levels
        ((1.0, 2.0, 4.0, 4.2, 4.1, 3.3), 0.02, 32),  # but where repeats agree it did not
        ((1.0, 2.0, 4.0, 4.2, 4.1, 3.3), 0.10, None),
        ((4.0, 2.0, 1.0), None, 2),
        ((1.0, 2.0, 4.0), None, None),
    ],
)
def test_a_fall_is_one_beyond_the_noise(
    x: tuple[float, ...], spread: float | None, fallen: int | None
) -> None:
    found = shape(curve(*x), spread)
    assert found is not None and found.fallen_from == fallen


def test_an_endpoint_that_only_gets_slower_has_no_growth_to_tell() -> None:
    found = diagnose(curve(4.0, 2.0, 1.0, 0.5))
    assert found.kind != "batching works" and "grows × 4" not in found.sentence


# ---- refusals: a number of requests, or a rate -------------------------------------------------------------


def limiter(service_s: float) -> Diagnosis:
    """Two requests a second are let in, the rest refused half a second after it was sent."""
    site = Site(lambda: Slots(constant(service_s)), network_s=0.5, rate=2.0)
    return diagnose([from_outside(row) for row in sweep(site, grid=(1, 2, 4, 16, 32))])


def test_a_rate_limiter_is_not_seen_as_a_limit_on_requests_at_once() -> None:
    for service_s in (1.5, 3.0):
        found = limiter(service_s)
        assert not found.seen and found.marked
        assert "requests a second, whatever their number at once, refuses the same" in found.sentence
        assert found.next_experiment.startswith("repeat with answers half as long")
        assert {"nginx", "Envoy", "Baseten"} <= set(found.remedy) and "vLLM" not in found.remedy


def test_the_wait_that_refusals_ask_for_is_evidence() -> None:
    told = {e.name: e.value for e in limiter(3.0).evidence}
    assert told["wait that refusals ask for (Retry-After), s"] == "1"
    assert not any("Retry-After" in e.name for e in diagnose(sweep(SERIAL)).evidence)


def test_refusals_that_use_up_a_level_in_an_instant_leave_the_number_of_those_let_in() -> None:
    served = [Completion(f"a{i}", "ok", start_s=0.0, end_s=1.0 + i) for i in range(4)]
    refused = [Completion(f"b{i}", "http_429", start_s=0.0, end_s=0.0) for i in range(52)]
    row = level([*served, *refused], 8)
    assert row.good_in_flight == 4.0 and (row.occupancy or 0.0) < 3


# ---- the scheduler's limits --------------------------------------------------------------------------------

BUDGET = Site(lambda: Slots(constant(2.0), 4))


def test_a_max_num_seqs_declared_higher_than_what_runs_is_not_the_remedy() -> None:
    found = diagnose(sweep(BUDGET), max_num_seqs=256)
    assert (found.verdict, found.limit) == ("scheduler-limited", 4)
    assert "fewer than the max_num_seqs of 256 that is declared" in found.sentence
    assert found.remedy["vLLM"].startswith("`--max-num-batched-tokens`")
    assert "set it to 32" not in found.remedy["vLLM"]
    assert found.next_experiment.startswith("raise max_num_batched_tokens")


def test_from_outside_a_declared_max_num_seqs_acquits_itself_as_well() -> None:
    found = diagnose([from_outside(row) for row in sweep(BUDGET)], max_num_seqs=256)
    assert found.verdict == "limited at 4" and "now 4 at once" not in found.remedy["vLLM"]


@pytest.mark.parametrize("declared", [None, 4, 5])
def test_else_it_stays_the_remedy(declared: int | None) -> None:
    found = diagnose(sweep(BUDGET), max_num_seqs=declared)
    assert found.remedy["vLLM"].startswith("`--max-num-seqs` (now 4 at once): set it to 32 or more")


# ---- gauges that are late ----------------------------------------------------------------------------------


def gauges(row: SweepLevel, shown: float, samples: int) -> SweepLevel:
    """The engine's gauges never show more than `shown`, read so often."""
    ran = min(shown, row.concurrency)
    return replace(row, running_mean=ran, running_max=ran, waiting_mean=0.0, running_samples=samples)


@pytest.mark.parametrize("samples", [3, 50])
def test_gauges_that_throughput_contradicts_make_no_limit(samples: int) -> None:
    rows = sweep(Site(lambda: Slots(constant(0.1)), network_s=0.0))
    assert [row.throughput for row in rows] == pytest.approx([10 * row.concurrency for row in rows])
    found = diagnose([gauges(replace(from_outside(row), replicas=None), 3.0, samples) for row in rows])
    assert found.verdict == "batching works"
    assert any("gauges are late: they show at most 3 running" in r for r in found.reservations) == (
        samples > 3
    )


def test_gauges_read_a_few_times_only_show_no_largest_number() -> None:
    rows = [from_outside(row) for row in sweep(Site(Twin, router=4))]
    often = diagnose([gauges(row, 4.0, 50) for row in rows])
    rarely = diagnose([gauges(row, 4.0, 3) for row in rows])
    assert often.verdict == rarely.verdict == "limited at 4"
    assert often.seen and not rarely.seen
