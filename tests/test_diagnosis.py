"""The diagnosis on queues that are really run: right from inside, and right or silent from outside."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_world import (
    GRID,
    Prefilled,
    Shared,
    Site,
    Slots,
    Twin,
    constant,
    from_outside,
    of_the_curve,
    sweep,
    varied,
    without_headers,
)

from nlqlib.analysis.diagnosis import Diagnosis, SweepLevel, diagnose
from nlqlib.analysis.staircase import ProcessTimes, controlled, staircase
from nlqlib.records import Rule

VIEWS: dict[str, Callable[[SweepLevel], SweepLevel]] = {
    "everything": lambda row: row,
    "no headers": without_headers,
    "from outside": from_outside,
}


def seen_by(site: Site, view: str = "everything", grid: tuple[int, ...] = GRID) -> Diagnosis:
    return diagnose([VIEWS[view](row) for row in sweep(site, grid)])


UPSTREAM = [
    ("router 1", Site(Twin, router=1), "serialised upstream", "router"),
    ("replica 1", Site(Twin, replica=1), "serialised upstream", "replica"),
    ("router 4", Site(Twin, router=4), "limited at 4", "router"),
    ("replica 4", Site(Twin, replica=4), "limited at 4", "replica"),
    ("router 1, replica 4", Site(Twin, router=1, replica=4), "serialised upstream", "router"),
    ("router 4, replica 1", Site(Twin, router=4, replica=1), "serialised upstream", "replica"),
    ("router 4, replica 4", Site(Twin, router=4, replica=4), "limited at 4", "router"),
    ("router 8, replica 4", Site(Twin, router=8, replica=4), "limited at 4", "replica"),
    ("router 6", Site(Twin, router=6), "limited at 6", "router"),
    ("2 replicas, 4 each", Site(Twin, replica=4, replicas=2), "limited at 8", "replica"),
    ("2 replicas, 1 each", Site(Twin, replica=1, replicas=2), "limited at 2", "replica"),
    ("pool 8, router 4", Site(Twin, pool=8, router=4), "limited at 4", "router"),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("name", "site", "verdict", "layer"), UPSTREAM, ids=[row[0] for row in UPSTREAM])
def test_a_limit_upstream_is_found_and_its_layer_named_where_it_is_visible(
    name: str, site: Site, verdict: str, layer: str, view: str
) -> None:
    found = seen_by(site, view)
    assert found.verdict == verdict
    assert found.layer == (layer if view == "everything" else None)
    assert found.seen == (view != "from outside")
    assert ("which layer limits" in found.not_observable) == (found.layer is None)


@pytest.mark.parametrize("view", VIEWS)
def test_a_pool_of_eight_is_the_client_whatever_the_server_hides(view: str) -> None:
    found = seen_by(Site(Twin, pool=8), view)
    assert (found.verdict, found.limit, found.layer) == ("client-limited", 8, "client")
    assert {row.name: row.state for row in found.layers}["Transport"] == "limits"


def test_max_num_seqs_is_the_scheduler_where_it_is_seen_and_a_limit_where_not() -> None:
    site = Site(lambda: Twin(max_num_seqs=4))
    for view in ("everything", "no headers"):
        found = seen_by(site, view)
        assert (found.verdict, found.limit, found.layer) == ("scheduler-limited", 4, "engine")
        assert "--max-num-seqs" in found.remedy["vLLM"]
    outside = seen_by(site, "from outside")
    assert (outside.verdict, outside.layer) == ("limited at 4", None)
    assert {"Baseten", "Ray Serve", "KServe", "Knative", "Envoy", "nginx", "vLLM"} == set(outside.remedy)


def test_a_declared_max_num_seqs_is_recognised() -> None:
    rows = sweep(Site(lambda: Twin(max_num_seqs=4)))
    assert "its max_num_seqs" in diagnose(rows, max_num_seqs=4).sentence
    assert "its max_num_seqs" not in diagnose(rows, max_num_seqs=32).sentence


def test_a_full_kv_cache_is_told_from_max_num_seqs() -> None:
    rows = [replace(row, kv_usage=0.99) for row in sweep(Site(lambda: Twin(max_num_seqs=4)))]
    found = diagnose(rows)
    assert found.verdict == "scheduler-limited" and "memory decides" in found.sentence
    assert "gpu-memory-utilization" in found.remedy["vLLM"]


BATCHING = [
    ("the twin", Site(lambda: Twin(max_num_seqs=64))),
    ("two replicas", Site(Twin, replicas=2)),
    ("lengths that differ", Site(lambda: Slots(varied(2.0, 0.6)))),
    ("a graceful saturation", Site(lambda: Shared(constant(2.0), lambda m: 0.7 + 0.3 * m))),
    ("a roofline", Site(lambda: Shared(constant(2.0), lambda m: max(1.0, m / 6)))),
    ("a roofline, lengths that differ", Site(lambda: Shared(varied(2.0, 0.4), lambda m: max(1.0, m / 6)))),
    ("failures", Site(lambda: Twin(max_num_seqs=64), failing=0.2)),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("name", "site"), BATCHING, ids=[row[0] for row in BATCHING])
def test_batching_works_however_it_fades(name: str, site: Site, view: str) -> None:
    found = seen_by(site, view)
    assert found.verdict == "batching works" and found.limit is None and not found.remedy


@pytest.mark.parametrize(("slowing", "low", "high"), [(0.1, 8, 14), (0.3, 4, 8)])
def test_the_knee_of_a_graceful_saturation_is_stated(slowing: float, low: float, high: float) -> None:
    found = seen_by(Site(lambda: Shared(constant(2.0), lambda m: 1 - slowing + slowing * m)))
    assert found.knee is not None and low <= found.knee <= high
    assert f"knee at about {found.knee:.0f}" in found.sentence


def test_a_knee_near_k_and_a_limit_of_k_are_told_apart_by_the_burst_alone() -> None:
    fades = Site(lambda: Shared(constant(2.0), lambda m: max(1.0, m / 6)))
    stops = Site(lambda: Slots(constant(2.0)), router=6)
    curves = [[row.throughput for row in sweep(site)] for site in (fades, stops)]
    assert curves[0] == pytest.approx(curves[1], rel=0.03)
    assert seen_by(fades, "from outside").verdict == "batching works"
    assert seen_by(stops, "from outside").verdict == "limited at 6"


def test_an_engine_as_busy_with_one_as_with_many_is_not_called_serialised() -> None:
    site = Site(lambda: Shared(constant(2.0), lambda m: m))
    for view in VIEWS:
        found = seen_by(site, view)
        assert found.kind == "cannot tell" and found.next_experiment.startswith("measure short prompts")


def test_prompts_taken_in_turn_are_no_limit_of_the_batch() -> None:
    found = seen_by(Site(lambda: Prefilled(1.0, constant(3.0))), "from outside")
    assert found.kind == "cannot tell" and "in turn" in found.sentence
    assert "tenth of the length" in found.next_experiment


def test_case_twelve_a_serial_endpoint_of_3_2_seconds() -> None:
    site = Site(lambda: Slots(constant(3.2)), router=1, network_s=0.0)
    rows = [of_the_curve(row) for row in sweep(site)]
    assert [row.throughput for row in rows] == pytest.approx([0.3125] * 6)
    assert rows[-1].p95_s == pytest.approx(102.4)
    found = diagnose(rows)
    assert found.verdict == "serialised upstream"
    assert found.marked and "curve alone" in found.reservations[0]


def test_case_twelve_an_endpoint_that_admits_four() -> None:
    site = Site(lambda: Slots(constant(3.2)), router=4, network_s=0.0)
    found = diagnose([of_the_curve(row) for row in sweep(site)])
    assert found.verdict == "limited at 4" and found.marked


def test_the_articles_own_table_is_a_serialised_endpoint() -> None:
    p95 = {1: 3.6, 2: 6.3, 4: 12.8, 8: 25.6, 16: 50.9, 32: 102.0}
    rows = [SweepLevel(n, n=150, ok=150, throughput_run=0.31, p95_s=s) for n, s in p95.items()]
    found = diagnose(rows)
    assert found.verdict == "serialised upstream" and found.limit == 1
    told = {e.name: e for e in found.evidence}
    assert told["p95 for each further request, s"].value.startswith("3.18")


def test_random_failures_mark_the_verdict_and_do_not_change_it() -> None:
    for limit, verdict in ((1, "serialised upstream"), (4, "limited at 4")):
        for view in VIEWS:
            found = seen_by(Site(Twin, router=limit, failing=0.2), view)
            assert found.verdict == verdict and found.marked
            assert "only what succeeded is judged" in found.sentence and "http_503" in found.sentence


def test_refusing_instead_of_queueing_is_a_limit_too() -> None:
    for view in VIEWS:
        found = seen_by(Site(Twin, rejecting=4), view)
        assert found.verdict == "limited at 4" and "refuses the rest" in found.sentence


def test_an_endpoint_that_hardly_answers_gets_no_verdict() -> None:
    found = seen_by(Site(Twin, router=4, failing=0.9))
    assert found.verdict.startswith("cannot tell, because most requests failed")
    assert "http_503" in found.sentence and found.limit is None


def test_levels_that_mostly_failed_are_left_out_by_name() -> None:
    rows = sweep(Site(Twin, router=4))
    lost = replace(rows[-1], ok=30, failures={"timeout": rows[-1].n - 30})
    found = diagnose([*rows[:-1], lost])
    assert found.verdict == "limited at 4"
    assert any(r.startswith("the level at 32 is left out") for r in found.reservations)


def test_an_invalid_level_is_left_out_with_its_reason() -> None:
    rows = sweep(Site(Twin, router=4))
    found = diagnose([*rows[:-1], replace(rows[-1], invalid="others used the endpoint")])
    assert found.verdict == "limited at 4" and "others used the endpoint" in found.sentence
    nothing = diagnose([replace(row, invalid="the server restarted") for row in rows])
    assert nothing.verdict == "cannot tell, because the server restarted"


def test_replicas_that_come_while_it_is_measured_leave_it_open() -> None:
    rows = sweep(Site(Twin, router=4))
    grown = [replace(row, replica_count=1 if row.concurrency < 8 else 2, replicas=None) for row in rows]
    found = diagnose(grown)
    assert found.verdict.startswith("cannot tell, because the number of replicas changed")
    assert {row.name: row.state for row in found.layers}["Autoscaler"] == "suspect"
    assert "pin the replicas" in found.next_experiment


def test_two_replicas_are_told_with_the_limit_of_each() -> None:
    found = seen_by(Site(Twin, replica=4, replicas=2))
    assert found.limit == 8 and found.limit_per_replica == 4
    assert "2 replicas answered, 4 each" in found.sentence


def test_a_client_that_cannot_offer_the_load_is_the_limit() -> None:
    busy = Rule("client: share of a core", 0.99, 0.9, False)
    rows = [replace(row, client_rules=(busy,) if row.concurrency > 8 else ()) for row in sweep(Site(Twin))]
    found = diagnose([from_outside(row) for row in rows])
    assert found.verdict == "client-limited" and "share of a core 0.99 at 16" in found.sentence
    few = [replace(from_outside(row), in_flight_peak=min(row.concurrency, 5.0)) for row in rows[:4]]
    assert "only 5 of 8 were ever in flight" in diagnose(few).sentence


def test_a_client_that_hiccuped_once_is_a_reservation_and_no_verdict() -> None:
    late = Rule("client: event-loop lag p99 (s)", 0.04, 0.01, False)
    rows = sweep(Site(lambda: Slots(constant(0.2)), network_s=0.0))
    found = diagnose(
        [replace(from_outside(r), client_rules=(late,) if r.concurrency == 2 else ()) for r in rows]
    )
    assert found.verdict == "batching works"
    assert any("the client was a suspect" in r for r in found.reservations)
    every = diagnose([replace(from_outside(row), client_rules=(late,)) for row in rows])
    assert every.verdict == "batching works" and every.marked  # it scaled as one alone promised


def test_a_busy_client_does_not_hide_a_limit_that_was_reached_before() -> None:
    busy = Rule("client: share of a core", 0.99, 0.9, False)
    rows = sweep(Site(Twin, router=4))
    found = diagnose([replace(row, client_rules=(busy,) if row.concurrency > 16 else ()) for row in rows])
    assert found.verdict == "limited at 4" and found.layer == "router"
    assert (
        diagnose(
            [replace(from_outside(row), client_rules=(busy,) if row.concurrency > 16 else ()) for row in rows]
        ).verdict
        == "limited at 4"
    )


def processes(k: int, limit: int | None) -> list[ProcessTimes]:
    return [ProcessTimes(0.0, 0.0, 2.0 * (1 + (i // limit if limit else 0))) for i in range(k)]


def test_processes_that_run_side_by_side_convict_the_client() -> None:
    rows = [of_the_curve(row) for row in sweep(Site(lambda: Slots(constant(2.0)), router=1))]
    found = diagnose(rows, staircase=staircase(processes(8, None), 2.0))
    assert found.verdict == "client-limited" and "8 independent processes" in found.sentence


def test_processes_that_queue_acquit_the_client() -> None:
    rows = [of_the_curve(row) for row in sweep(Site(lambda: Slots(constant(2.0)), router=1))]
    blind = [replace(row, pool_waits=None, in_flight_peak=None, in_flight_mean=None) for row in rows]
    found = diagnose(blind, staircase=staircase(processes(8, 1), 2.0))
    assert found.verdict == "serialised upstream" and "client was a suspect" not in found.sentence
    assert found.layers[0].state == "passes" and "8 independent processes queue" in found.layers[0].finding


def test_processes_that_queue_outweigh_a_busy_client() -> None:
    busy = Rule("client: share of a core", 0.99, 0.9, False)
    rows = [of_the_curve(row) for row in sweep(Site(lambda: Slots(constant(2.0)), router=1))]
    suspected = [replace(row, client_rules=(busy,)) for row in rows]
    assert diagnose(suspected).verdict == "client-limited"
    found = diagnose(suspected, staircase=staircase(processes(8, 1), 2.0))
    assert found.verdict == "serialised upstream" and "the client was a suspect" in found.sentence


def test_a_staircase_whose_control_failed_counts_for_nothing() -> None:
    rows = [of_the_curve(row) for row in sweep(Site(lambda: Slots(constant(2.0)), router=1))]
    together, serial = staircase(processes(8, None), 2.0), staircase(processes(8, 1), 2.0)
    found = diagnose(rows, staircase=controlled(together, serial, serial))
    assert found.verdict == "serialised upstream"
    assert any("the parallel control was called serial" in r for r in found.reservations)


def test_too_short_a_sweep_says_so() -> None:
    found = seen_by(Site(lambda: Slots(constant(2.0)), router=1), "from outside", grid=(1, 2))
    assert found.verdict == "cannot tell, because 1 to 2 in flight with good answers draw no curve"


def test_a_flat_curve_that_does_not_begin_at_one_is_left_open() -> None:
    rows = sweep(Site(lambda: Slots(constant(2.0)), router=1), grid=(4, 8, 16, 32))
    found = diagnose([of_the_curve(row) for row in rows])
    assert found.kind == "cannot tell" and "one request at a time" in found.next_experiment


def test_no_levels_at_all_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="run a sweep first"):
        diagnose([])


def test_behind_the_limit_found_nothing_is_claimed() -> None:
    found = seen_by(Site(Twin, router=1))
    states = {row.name: row.state for row in found.layers}
    assert states == {
        "Client": "passes",
        "Transport": "passes",
        "Router": "limits",
        "Replica admission": "not reached",
        "Engine scheduler": "not reached",
        "Autoscaler": "passes",
    }
    assert any("any limit of 1 or more behind the one found" in gap for gap in found.not_observable)
    assert "raise the limit of the router alone" in found.next_experiment
    assert "concurrency_target" in found.remedy["Baseten"]
    assert "predict_concurrency" not in found.remedy["Baseten"]


def test_the_limit_that_would_bind_next_is_named() -> None:
    found = seen_by(Site(Twin, router=4, replica=1))
    assert "others wait at the router, which lets 4 through: it would bind next" in found.sentence
    assert "predict_concurrency" in found.remedy["Baseten"]


def test_repeats_are_pooled_and_their_spread_is_heeded() -> None:
    rows = [row for seed in (1, 2, 3) for row in sweep(Site(lambda s=seed: Twin(seed=s), router=4))]
    assert diagnose(rows).verdict == "limited at 4"


def test_a_diagnosis_is_plain_data() -> None:
    told = seen_by(Site(Twin, router=4)).as_json()
    assert told["verdict"] == "limited at 4" and told["layers"][2]["state"] == "limits"


@settings(max_examples=15, deadline=None)
@given(
    limit=st.integers(1, 12),
    service=st.floats(0.3, 20),
    spread=st.floats(0, 0.5),
    at=st.sampled_from(["router", "replica"]),
    seed=st.integers(0, 10_000),
)
def test_any_limit_is_found_exactly_from_inside(
    limit: int, service: float, spread: float, at: str, seed: int
) -> None:
    site = Site(lambda: Slots(varied(service, spread, seed)), network_s=0.01 * service, **{at: limit})
    found = seen_by(site)
    assert (found.limit, found.layer) == (limit, at)


@settings(max_examples=15, deadline=None)
@given(
    limit=st.integers(1, 12),
    service=st.floats(0.3, 20),
    spread=st.floats(0, 0.06),
    seed=st.integers(0, 10_000),
)
def test_any_limit_is_found_exactly_from_outside_when_answers_are_alike(
    limit: int, service: float, spread: float, seed: int
) -> None:
    site = Site(lambda: Slots(varied(service, spread, seed)), router=limit, network_s=0.01 * service)
    assert seen_by(site, "from outside").limit == limit


@settings(max_examples=15, deadline=None)
@given(limit=st.integers(1, 8), spread=st.floats(0.1, 0.5), seed=st.integers(0, 10_000))
def test_from_outside_a_limit_is_never_called_batching_and_never_far_off(
    limit: int, spread: float, seed: int
) -> None:
    found = seen_by(Site(lambda: Slots(varied(2.0, spread, seed)), router=limit), "from outside")
    assert found.kind != "batching works"
    if found.limit is not None and found.limit_interval is None:
        assert abs(found.limit - limit) <= 1 + 0.3 * limit
    elif found.limit_interval is not None:
        assert found.limit_interval.low * 0.75 <= limit <= found.limit_interval.high * 1.25


@settings(max_examples=15, deadline=None)
@given(slowing=st.floats(0.0, 0.5), spread=st.floats(0, 0.5), seed=st.integers(0, 10_000))
def test_from_outside_an_engine_that_shares_itself_is_never_called_limited(
    slowing: float, spread: float, seed: int
) -> None:
    site = Site(lambda: Shared(varied(2.0, spread, seed), lambda m: 1 - slowing + slowing * m))
    assert seen_by(site, "from outside").kind in ("batching works", "cannot tell")
