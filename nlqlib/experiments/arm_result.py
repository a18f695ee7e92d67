"""From one run of an arm to the numbers and rules of its point. Pure."""

from collections.abc import Iterable, Sequence

from nlqlib.analysis.decomposition import REPLICA, ROUTER, Decomposition, client_means, decompose
from nlqlib.analysis.latency import tpot_s
from nlqlib.analysis.samples import GpuSample, gpu_levels, levels
from nlqlib.analysis.window import Scrape, Window, window
from nlqlib.artifacts import Measured
from nlqlib.experiments.sweep_result import Tag, measured
from nlqlib.load.closed_loop import LoadRun
from nlqlib.records import Completion, Json, Metric

ESTIMATES = {
    "estimated_flops": ("FLOP", "vllm:estimated_flops_per_gpu_total"),
    "estimated_read": ("B", "vllm:estimated_read_bytes_per_gpu_total"),
}
"""The engine's own estimates of its work: unit and sample. A build that cannot estimate leaves them at 0."""
NO_SAMPLE = "the run ended before the first sample"


def observed(
    run: LoadRun,
    before: Scrape | None,
    after: Scrape | None,
    gpus: Sequence[GpuSample],
    tag: Tag,
    no_gateway: bool = False,
) -> Measured:
    """The point of an arm; what was not seen is missing. `no_gateway`: nothing queues outside the engine."""
    found = measured(run, before, after, tag)
    seen = window(before, after) if before and after else Window(0.0, ())
    terms = decompose(client_means(run.completions), seen, (ROUTER, REPLICA) if no_gateway else ())
    further = [*_client(run, tag), *_engine(run, seen, tag), *_estimates(before, after, tag), *_gpus(gpus)]
    return Measured(
        requests=found.requests,
        metrics=[*found.metrics, *further],
        samples=[
            row | {"first_token_s": c.first_token_s}
            for row, c in zip(found.samples, run.completions, strict=True)
        ],
        validity=[*found.validity, *terms.rules],
        results={
            "terms": _terms(terms),
            "blocks": seen.blocks,
            "block_size": seen.block_size,
            "gpu_problem": _problem(gpus),
        },
        scrapes=found.scrapes,
    )


def _terms(found: Decomposition) -> Json:
    return {
        "total_s": found.total_s,
        "n": found.n,
        "parts": {term.name: term.mean_s for term in found.terms},
        "residual_s": found.residual.mean_s,
        "outside_engine_s": found.outside_engine_s,
        "closes": found.closes,
    }


def _client(run: LoadRun, tag: Tag) -> list[Metric]:
    """Times only the client knows: to its first token and between tokens (streamed), in admission queues."""
    told = client_means(run.completions)
    done = run.completions
    return [
        _mean_of("client_ttft", [c.ttft_s for c in done], tag),
        _mean_of("client_tpot", [tpot_s(c) for c in done], tag),
        _mean_of("client_after_last_token", [_after(c) for c in done], tag),
        Metric("router_queue", "s", "mean", told.router_queue_s, told.n, tag),
        Metric("replica_queue", "s", "mean", told.replica_queue_s, told.n, tag),
    ]


def _after(c: Completion) -> float | None:
    return c.end_s - c.token_times_s[-1] if c.ok and c.end_s is not None and c.token_times_s else None


def _mean_of(name: str, values: Iterable[float | None], tag: Tag) -> Metric:
    known = [v for v in values if v is not None]
    return Metric(name, "s", "mean", sum(known) / len(known) if known else None, len(known), tag)


def _engine(run: LoadRun, seen: Window, tag: Tag) -> list[Metric]:
    """The engine's own E2E, and KV usage: its mean in the steady window, its maximum over the run."""
    steady, whole = levels(run.samples, run.window), levels(run.samples)
    count = seen.count("e2e_s")
    return [
        Metric("engine_e2e", "s", "mean", seen.e2e_s, None if count is None else int(count), tag),
        Metric("kv_usage", "share", "mean", steady.kv_usage_mean, steady.n, tag),
        Metric("kv_usage", "share", "max", whole.kv_usage_max, whole.n, tag),
    ]


def _estimates(before: Scrape | None, after: Scrape | None, tag: Tag) -> list[Metric]:
    """Estimated work in the window; an engine whose counters never left 0 does not estimate: missing."""
    return [
        Metric(name, unit, "sum", _increase(before, after, sample), None, tag)
        for name, (unit, sample) in ESTIMATES.items()
    ]


def _increase(before: Scrape | None, after: Scrape | None, sample: str) -> float | None:
    old, new = _sum(before, sample), _sum(after, sample)
    return new - old if old is not None and new is not None and new > old else None


def _sum(scrape: Scrape | None, sample: str) -> float | None:
    """Over every page and series; `None` where a page lacks it."""
    pages = scrape.expositions if scrape else None
    if pages is None or not all(page.values(sample) for page in pages):
        return None
    return sum(value for page in pages for value in page.values(sample).values())


def _gpus(samples: Sequence[GpuSample]) -> list[Metric]:
    found = gpu_levels(samples)
    return [
        Metric("gpu_utilisation", "share", "mean", found.utilisation_mean, found.n, "measured"),
        Metric("gpu_memory", "B", "max", found.memory_used_max_bytes, found.n, "measured"),
        Metric("gpu_power", "W", "mean", found.power_mean_w, found.n, "measured"),
    ]


def _problem(samples: Sequence[GpuSample]) -> str | None:
    """Why no GPU was seen; `None` where one was."""
    if any(s.gpus for s in samples):
        return None
    return next((s.problem for s in reversed(samples) if s.problem), NO_SAMPLE)
