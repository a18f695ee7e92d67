"""The twin under the suite's own load: Little's law, the drain of five waves, the same run twice."""

import pytest

from nlqlib.analysis.latency import (
    ended_in,
    latency_summary,
    mean_in_flight,
    spans,
    throughput_run,
    throughput_window,
)
from nlqlib.analysis.stats import Interval
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.records import ChatRequest
from nlqlib.serving.target import Target, open_target

QUESTIONS = [ChatRequest(str(i), ({"role": "user", "content": f"question {i} " * 200},)) for i in range(20)]


def twin(seed: int = 0) -> Target:
    return open_target("twin").engine(words="synthetic", seed=seed)


def offer(target: Target, concurrency: int, n: int, lead_in: int = 0) -> LoadRun:
    async def go() -> LoadRun:
        client = target.client()
        try:
            for request in QUESTIONS:
                await client.complete(request)
            return await closed_loop(client, cycled(QUESTIONS), concurrency, n, lead_in=lead_in)
        finally:
            await client.aclose()

    return target.run(go())


@pytest.mark.parametrize("concurrency", [4, 16, 32, 40])
@pytest.mark.parametrize("part", [(0.25, 0.75), (0.4, 0.95)])
def test_littles_law_holds_in_any_long_window_without_drain(
    concurrency: int, part: tuple[float, float]
) -> None:
    run = offer(twin(), concurrency, 200 * concurrency, lead_in=2 * concurrency)
    assert run.window is not None
    length = run.window.high - run.window.low
    inside = Interval(run.window.low + part[0] * length, run.window.low + part[1] * length)
    done = ended_in(run.completions, inside)
    rate, mean_s = len(done) / (inside.high - inside.low), latency_summary(done).mean_s or 0
    assert mean_in_flight(spans(run.completions), inside) == pytest.approx(concurrency, rel=1e-9)
    assert rate * mean_s == pytest.approx(concurrency, rel=0.005)


def test_five_waves_lose_to_the_steady_state_what_ramp_and_drain_cost() -> None:
    short, long = offer(twin(), 32, 150), offer(twin(), 32, 1600, lead_in=64)
    whole = throughput_run(short.completions)
    steady = throughput_window(long.completions, long.window)
    assert whole is not None and steady is not None
    latency = latency_summary(long.completions).mean_s or 0
    five_waves = 150 / (5 * latency)  # nobody waits for a place, but the last wave of 22 takes a whole turn
    assert whole == pytest.approx(five_waves, rel=0.03)
    assert whole < 0.96 * steady


def test_the_same_seed_gives_the_same_times_and_another_seed_others() -> None:
    first, again, other = (offer(twin(seed), 8, 80).completions for seed in (1, 1, 2))
    assert first == again
    assert [c.end_s for c in first] != [c.end_s for c in other]
