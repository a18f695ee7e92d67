"""From one run of a closed loop to the numbers and rules of its point. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal

from nlqlib.analysis.latency import (
    LatencySummary,
    ended_in,
    latency_summary,
    mean_in_flight,
    outcome_counts,
    peak_in_flight,
    spans,
    throughput_run,
    throughput_window,
)
from nlqlib.analysis.scaling import little
from nlqlib.analysis.stats import Interval
from nlqlib.analysis.window import Scrape, Window, foreign_traffic_rules, levels, window
from nlqlib.artifacts import Measured
from nlqlib.load.closed_loop import LoadRun
from nlqlib.records import Completion, Json, Metric, Rule

Tag = Literal["measured", "modelled"]
SERVER_MEANS = ("ttft", "itl", "queue", "prefill", "decode")
"""Means of the engine's own timers, in seconds, by the names of `Window` without `_s`."""

MIN_LATENCIES_FOR_LITTLE = 10
"""All N start in step, so the window misses half a latency at its edges: that is 5 % of ten."""


HEADERS = ("router_queue_s", "replica_queue_s", "replica", "retry_after_s")
"""Fields of a completion that come from a gateway's headers."""


def measured(run: LoadRun, before: Scrape | None, after: Scrape | None, tag: Tag) -> Measured:
    """The point of a closed loop, with what two scrapes and the samples between them say of the server.

    Without scrapes every server-side number is missing. `tag`: how its times came about.
    """
    seen = window(before, after) if before and after else None
    done = run.completions
    scrapes = (before.raw("before") | after.raw("after")) if before and after else {}
    return Measured(
        requests={"total": len(done), **({"ok": 0} | outcome_counts(done))},
        metrics=[*client_metrics(done, run.window, tag), *server_metrics(run, seen, tag)],
        samples=[sample_row(i, c) for i, c in enumerate(done)],
        validity=rules(run, seen),
        scrapes=scrapes,
    )


def client_metrics(done: Sequence[Completion], inside: Interval | None, tag: Tag) -> list[Metric]:
    """Throughputs, latencies, requests in flight and tokens, as the client saw them."""
    every, steady = latency_summary(done), latency_summary(done, window=inside) if inside else None
    times = spans(done)
    return [
        Metric("throughput_run", "req/s", "mean", throughput_run(done), every.n, tag),
        Metric("throughput_window", "req/s", "mean", throughput_window(done, inside), every.n, tag),
        *_latency("e2e_latency", every, ("mean", "p50", "p95", "p99"), tag),
        *_latency("e2e_latency_window", steady, ("mean", "p50", "p95"), tag),
        Metric("in_flight", "requests", "mean", mean_in_flight(times, inside), len(times), tag),
        Metric("in_flight", "requests", "peak", float(peak_in_flight(times)), len(times), tag),
        *(_tokens(name, done, tag) for name in ("output_tokens", "prompt_tokens")),
    ]


def _latency(name: str, found: LatencySummary | None, stats: Iterable[str], tag: Tag) -> list[Metric]:
    n = found.n if found else 0
    return [Metric(name, "s", s, getattr(found, f"{s}_s") if found else None, n, tag) for s in stats]


def _tokens(name: str, done: Sequence[Completion], tag: Tag) -> Metric:
    counts = [n for c in done if c.ok and (n := getattr(c, name)) is not None]
    return Metric(name, "tokens", "mean", sum(counts) / len(counts) if counts else None, len(counts), tag)


def server_metrics(run: LoadRun, seen: Window | None, tag: Tag) -> list[Metric]:
    """What the server says of the same time; missing without `/metrics`.

    Means of the gauges are over the steady window where there is one, maxima over the whole run.
    """
    steady, whole = levels(run.samples, run.window), levels(run.samples)
    metrics = [
        Metric("running", "requests", "mean", steady.running_mean, steady.n, tag),
        Metric("running", "requests", "max", whole.running_max, whole.n, tag),
        Metric("waiting", "requests", "mean", steady.waiting_mean, steady.n, tag),
        Metric("waiting", "requests", "max", whole.waiting_max, whole.n, tag),
    ]
    for name in SERVER_MEANS:
        metrics.append(Metric(name, "s", "mean", getattr(seen, f"{name}_s") if seen else None, None, tag))
    return [
        *metrics,
        Metric("residual", "s", "mean", residual_s(run.completions, seen), None, tag),
        Metric("hit_rate", "share", "mean", seen.hit_rate if seen else None, None, tag),
        Metric("kv_usage", "share", "last", seen.kv_usage if seen else None, None, tag),
        Metric("preemptions", "requests", "count", seen.preemptions if seen else None, None, tag),
    ]


def residual_s(done: Iterable[Completion], seen: Window | None) -> float | None:
    """Mean seconds of a request outside the engine: the client's E2E latency less the engine's own."""
    mean = latency_summary(done).mean_s
    if mean is None or seen is None or seen.e2e_s is None:
        return None
    return mean - seen.e2e_s


def rules(run: LoadRun, seen: Window | None) -> list[Rule]:
    """Every validity rule of a level; `window` is judged for the client and the server alike."""
    n = len(run.completions)
    foreign = foreign_traffic_rules(seen, n, run.concurrency, run.samples) if seen else ()
    return [*run.rules(), little_rule(run), *(seen.rules if seen else ()), *foreign]


def little_rule(run: LoadRun) -> Rule:
    """Little's law in the steady window, over every request that left in it, whatever its outcome.

    Unchecked in a window shorter than `MIN_LATENCIES_FOR_LITTLE`.
    """
    n, inside = run.concurrency or 1, run.window
    times = spans(ended_in(run.completions, inside)) if inside else spans(())
    length = inside.high - inside.low if inside else 0.0
    mean = float((times[:, 1] - times[:, 0]).mean()) if len(times) else None
    if mean is None or length < MIN_LATENCIES_FOR_LITTLE * mean:
        return little(n, None, None)
    return little(n, len(times) / length, mean)


def sample_row(i: int, c: Completion) -> Json:
    """What is kept of one request, and what a gateway said of it; seconds since the first start."""
    said = {name: value for name in HEADERS if (value := getattr(c, name)) is not None}
    return {
        "i": i,
        "id": c.request_id,
        "outcome": c.outcome,
        "start_s": c.start_s,
        "end_s": c.end_s,
        "output_tokens": c.output_tokens,
        "prompt_tokens": c.prompt_tokens,
        **said,
    }
