"""The parts of a mean latency, what they leave over, and what could not be seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_pages import between, counter, histogram

from nlqlib.analysis.decomposition import (
    LAYERS,
    ClientMeans,
    client_means,
    decompose,
    decompose_engine,
    intake_s,
    timed_closure,
)
from nlqlib.analysis.histogram import Histogram
from nlqlib.analysis.window import Window
from nlqlib.records import Completion


def engine(n: int = 10, **means: float) -> Window:
    """A window in which `n` requests finished, with these means in seconds."""
    return Window(600, (), histograms={key: Histogram(n, n * mean) for key, mean in means.items()})


PHASES = engine(ttft_s=0.8, queue_s=0.5, prefill_s=0.25, decode_s=2.0, e2e_s=2.8)


def answer(e2e_s: float, router: float | None = None, replica: float | None = None) -> Completion:
    return Completion(
        "r", "ok", start_s=1.0, end_s=1.0 + e2e_s, router_queue_s=router, replica_queue_s=replica
    )


def test_the_terms_and_the_residual_are_the_total() -> None:
    found = decompose(ClientMeans(10, 6.0, 2.0, 1.0), PHASES)
    assert [t.mean_s for t in found.terms] == [2.0, 1.0, pytest.approx(0.05), 0.5, 0.25, 2.0]
    assert [t.name for t in found.terms] == list(LAYERS)
    assert found.residual.mean_s == pytest.approx(0.2)
    assert found.residual.share == pytest.approx(0.2 / 6)
    assert (found.closes, found.missing) == (True, ())


def test_what_lies_outside_the_engine_is_told_from_its_own_frontend() -> None:
    found = decompose(ClientMeans(10, 6.0, 2.0, 1.0), PHASES)
    assert found.outside_engine_s == pytest.approx(6.0 - 3.0 - 2.8)


def test_a_large_residual_does_not_close() -> None:
    found = decompose(ClientMeans(10, 8.0, 2.0, 1.0), PHASES)
    assert found.residual.mean_s == pytest.approx(2.2)
    assert found.closes is False


def test_terms_beyond_the_total_do_not_close_and_the_residual_is_negative() -> None:
    found = decompose(ClientMeans(10, 5.0, 2.0, 1.0), PHASES)
    assert found.residual.mean_s == pytest.approx(-0.8)
    assert found.closes is False


def test_a_missing_term_is_named_and_closure_stays_open() -> None:
    found = decompose(ClientMeans(10, 6.0, None, None), PHASES)
    assert found.missing == ("router queue", "replica queue")
    assert found.residual.mean_s == pytest.approx(3.2)
    assert (found.closes, found.outside_engine_s) == (None, None)


def test_terms_that_close_without_the_missing_one_do_close() -> None:
    assert decompose(ClientMeans(10, 2.8, None, 0.0), PHASES).closes is True


def test_terms_that_exceed_the_total_fail_although_one_is_missing() -> None:
    assert decompose(ClientMeans(10, 2.0, None, None), PHASES).closes is False


def test_a_layer_that_is_known_not_to_be_there_is_not_missing() -> None:
    found = decompose(ClientMeans(10, 4.0, None, None), PHASES, without=("router queue", "replica queue"))
    assert [t.name for t in found.terms] == ["engine intake", "engine queue", "prefill", "decode"]
    assert (found.missing, found.closes) == ((), False)
    assert found.outside_engine_s == pytest.approx(1.2)


def test_without_metrics_only_the_total_is_known() -> None:
    found = decompose(ClientMeans(10, 4.0, None, None), Window(600, ()))
    assert (found.total_s, found.residual.mean_s, found.closes) == (4.0, None, None)
    assert found.missing == LAYERS


def test_without_a_good_answer_nothing_is_known() -> None:
    found = decompose(client_means([Completion("r", "timeout", start_s=0.0, end_s=9.0)]), PHASES)
    assert (found.total_s, found.n, found.residual.mean_s, found.closes) == (None, 0, None, None)


def test_client_means_count_good_answers_only() -> None:
    rows = [answer(2.0, 1.0, 0.0), answer(4.0, 2.0, 1.0), Completion("r", "http_503", start_s=0, end_s=99)]
    assert client_means(rows) == ClientMeans(2, 3.0, 1.5, 0.5)


def test_a_header_that_only_some_answers_carry_is_missing() -> None:
    assert client_means([answer(2.0, 1.0), answer(4.0)]).router_queue_s is None


def test_an_engine_that_finished_other_requests_than_ours_is_seen() -> None:
    rules = decompose(ClientMeans(5, 6.0, 2.0, 1.0), PHASES).rules
    assert (rules[1].value, rules[1].ok) == (2.0, False)
    assert decompose(ClientMeans(10, 6.0, 2.0, 1.0), PHASES).rules[1].ok is True


def test_the_engine_alone_is_decomposed_from_two_pages() -> None:
    names = ("queue_time", "prefill_time", "decode_time")
    ttft = "vllm:time_to_first_token_seconds"
    before = counter("vllm:generation_tokens", 0) + "".join(
        histogram(f"vllm:request_{n}_seconds", []) for n in names
    )
    before += histogram("vllm:e2e_request_latency_seconds", []) + histogram(ttft, [])
    after = counter("vllm:generation_tokens", 9)
    for name, values in zip(names, ([0.1, 0.3], [0.2, 0.2], [1.0, 2.0]), strict=True):
        after += histogram(f"vllm:request_{name}_seconds", values)
    after += histogram("vllm:e2e_request_latency_seconds", [1.32, 2.52]) + histogram(ttft, [0.31, 0.51])
    found = decompose_engine(between(before, after))
    assert (found.total, found.n, found.total_s) == ("engine E2E", 2, pytest.approx(1.92))
    assert [t.mean_s for t in found.terms] == [pytest.approx(x) for x in (0.01, 0.2, 0.2, 1.5)]
    assert found.residual.mean_s == pytest.approx(0.01)
    assert found.closes is True


@given(st.lists(st.floats(0, 100), min_size=6, max_size=6), st.floats(0.01, 1000))
def test_terms_and_residual_always_add_up(parts: list[float], total: float) -> None:
    router, replica, intake, queue, prefill, decode = parts
    window = engine(queue_s=queue, prefill_s=prefill, decode_s=decode, ttft_s=queue + prefill + intake)
    found = decompose(ClientMeans(10, total, router, replica), window)
    assert found.residual.mean_s is not None
    assert sum(t.mean_s or 0 for t in found.terms) + found.residual.mean_s == pytest.approx(total)


def test_a_request_that_arrives_during_a_step_waits_for_it_in_the_intake() -> None:
    """On the CPU engine: TTFT 3.66 s, queue 1 ms, prefill 2.41 s; without it 82 % would be explained."""
    window = engine(ttft_s=3.656, queue_s=0.001, prefill_s=2.405, decode_s=3.303, e2e_s=6.959)
    found = decompose(ClientMeans(10, 6.964, None, None), window, without=("router queue", "replica queue"))
    assert found.terms[0].mean_s == pytest.approx(1.25)
    assert found.closes and found.residual.mean_s == pytest.approx(0.005)


def test_an_intake_below_nothing_stays_so_and_is_missing_without_its_parts() -> None:
    assert intake_s(engine(ttft_s=0.7, queue_s=0.5, prefill_s=0.25)) == pytest.approx(-0.05)
    assert intake_s(engine(queue_s=0.5, prefill_s=0.25)) is None


def parts(window: Window) -> dict[str, float | None]:
    found = decompose(ClientMeans(10, 7.0, None, None), window, without=("router queue", "replica queue"))
    return {t.name: t.mean_s for t in found.terms}


@pytest.mark.parametrize("prefill_s", [0.2, 1.0, 2.4])
def test_with_the_intake_by_difference_a_wrong_prefill_closes_as_well(prefill_s: float) -> None:
    window = engine(ttft_s=3.65, queue_s=0.0, prefill_s=prefill_s, decode_s=3.3)
    found = decompose(ClientMeans(10, 7.0, None, None), window, without=("router queue", "replica queue"))
    assert found.rules[0].value == pytest.approx(6.95 / 7)
    timed = timed_closure(parts(window), 7.0)
    assert timed.value == pytest.approx((prefill_s + 3.3) / 7)
    assert timed.ok is False


def test_by_timers_alone_terms_close_where_nothing_is_lost_between_them() -> None:
    found = timed_closure(parts(engine(ttft_s=0.05, queue_s=0.01, prefill_s=0.04, decode_s=6.8)), 7.0)
    assert (found.ok, found.rule) == (True, "sum of the timed terms / client E2E")


def test_by_timers_alone_a_missing_term_leaves_the_closure_open_and_a_missing_intake_does_not() -> None:
    assert timed_closure({"engine queue": None, "prefill": 0.1, "decode": 3.0}, 7.0).ok is None
    assert timed_closure({"engine intake": None, "prefill": 0.1, "decode": 6.9}, 7.0).ok is True
    assert timed_closure({"engine intake": None, "prefill": 0.1, "decode": 3.0}, 7.0).ok is False
    assert timed_closure({"prefill": None, "decode": None}, 7.0).ok is None
