"""One measured open-loop load, as a retained point: requests come when the plan says, answered or not.

Latency is kept from the planned start as well as from the actual one: a queue that the client itself caused
by coming late would be missing from the second (coordinated omission).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from nlqlib.analysis.latency import latency_summary
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.questions import question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import QUICK_TOKENS, SET, Level, Words, at, offered, session, settled
from nlqlib.experiments.sweep_result import Tag, measured
from nlqlib.load import arrivals
from nlqlib.load.closed_loop import cycled
from nlqlib.load.load_run import LoadRun
from nlqlib.load.open_loop import open_loop
from nlqlib.load.sampling import Sampler
from nlqlib.records import Json, Metric
from nlqlib.serving.identity import identify

MODULES = ("nlqlib.experiments.sweep_open",)
FULL_REQUESTS, QUICK_REQUESTS = 150, 12
"""Of one load, where none are asked for: the article's 150."""
Arrivals = Literal["poisson", "constant", "gamma", "trace"]


@dataclass(frozen=True)
class OpenLoad:
    """A plan of arrivals to be offered once."""

    sweep: str
    """Names the points."""
    arrivals: Arrivals
    times_s: tuple[float, ...]
    """Planned starts, in seconds from the beginning, ascending."""
    rate: float | None = None
    """Requests per second that were asked for; `None`: a trace has its own."""
    cv: float | None = None
    """Coefficient of variation of the gaps of gamma arrivals."""
    repeat: int = 0
    seed: int = 0
    words: Words = "served"
    output_tokens: int | None = None
    """Every answer is exactly that long (`ignore_eos`); `None`: it ends where the model ends it."""

    @property
    def offered_rate(self) -> float | None:
        """Requests per second between the first and the last planned start; `None` for fewer than two."""
        long_s = self.times_s[-1] - self.times_s[0]
        return (len(self.times_s) - 1) / long_s if long_s > 0 else None

    @property
    def point(self) -> str:
        """`sweep-poisson-2.5`, `sweep-trace-r1`."""
        rate = "" if self.rate is None else f"-{self.rate:g}"
        return f"{self.sweep}-{self.arrivals}{rate}" + (f"-r{self.repeat}" if self.repeat else "")


def planned(kind: Arrivals, rate: float, n: int, cv: float, seed: int) -> tuple[float, ...]:
    """`n` arrivals of a `kind` with a rate, drawn from `seed`. Raises `ValueError` for no such plan."""
    rng = np.random.default_rng(seed)
    if kind == "constant":
        found = arrivals.constant(rate, n)
    elif kind == "gamma":
        found = arrivals.gamma(rate, n, cv, rng)
    else:
        found = arrivals.poisson(rate, n, rng)
    return tuple(map(float, found))


def loads(
    study: Study,
    sweep: str,
    kind: Arrivals,
    rates: Iterable[float],
    *,
    n: int = 0,
    cv: float = 2.0,
    repeats: int = 1,
    seed: int = 0,
    words: Words = "synthetic",
) -> list[OpenLoad]:
    """One load for each rate and repeat, each drawn anew. Raises `ValueError` as `planned` does."""
    n = n or (QUICK_REQUESTS if study.quick else FULL_REQUESTS)
    return [
        as_offered(
            study,
            OpenLoad(
                sweep,
                kind,
                planned(kind, rate, n, cv, seed + r),
                rate,
                cv if kind == "gamma" else None,
                r,
                seed + r,
                words,
            ),
        )
        for r in (range(1, repeats + 1) if repeats > 1 else (0,))
        for rate in rates
    ]


def as_offered(study: Study, load: OpenLoad) -> OpenLoad:
    """`load` with the words of the study's target: the twin's own, or what is served there."""
    if study.target.kind == "twin":
        return load
    return replace(load, words="served", output_tokens=QUICK_TOKENS if study.quick else None)


def measure_open(study: Study, load: OpenLoad) -> Record:
    """One load, retained already or measured now. Raises `LoadError` as the open loop does."""
    there = at(study, as_level(load))
    return there.point(open_spec(load), lambda: there.measured(_measure(there, load)))


def as_level(load: OpenLoad) -> Level:
    """A level that asks for the same answers."""
    n = len(load.times_s)
    return Level(load.sweep, 1, n, load.repeat, load.seed, load.words, load.output_tokens)


def open_spec(load: OpenLoad) -> Spec:
    """The point that `load` becomes; the plan itself is told by its hash."""
    told: Json = {k: v for k, v in asdict(load).items() if k != "times_s"}
    text = ",".join(f"{at_s:.9g}" for at_s in load.times_s)
    told |= {"requests": len(load.times_s), "arrivals_sha256": hashlib.sha256(text.encode()).hexdigest()}
    workload = replace(question_workload(SET), seed=load.seed)
    sent = len(load.times_s) + min(len(load.times_s), workload.n)
    return Spec(load.point, told, MODULES, workload, requests=sent, about_s=load.times_s[-1])


async def _measure(study: Study, load: OpenLoad) -> Measured:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, reader):
        asked = await accepted(study, client, offered(study, as_level(load)), len(load.times_s))
        before = await settled(reader)
        sampler = Sampler(reader.sample) if reader else None
        run = await open_loop(client, cycled(asked), load.times_s, sampler=sampler)
        after = await settled(reader)
    tag = study.target.time_tag
    found = measured(run, before, after, tag)
    rows = [{**row, "planned_s": c.planned_s} for row, c in zip(found.samples, run.completions, strict=True)]
    metrics = [*found.metrics, *_from_the_plan(run, tag), _rate(load)]
    results = {"clock": study.target.clock}
    found = replace(found, server=server, samples=rows, metrics=metrics, results=results)
    return noted(found, asked, study.contract)


def _from_the_plan(run: LoadRun, tag: Tag) -> Sequence[Metric]:
    """Latencies counted from the planned start."""
    found = latency_summary(run.completions, since="planned")
    stats = {"mean": found.mean_s, "p50": found.p50_s, "p95": found.p95_s, "p99": found.p99_s}
    return [Metric("e2e_latency_planned", "s", stat, value, found.n, tag) for stat, value in stats.items()]


def _rate(load: OpenLoad) -> Metric:
    """What the plan asks of the endpoint: ours to choose, and measured nowhere."""
    return Metric("offered_rate", "req/s", "mean", load.offered_rate, len(load.times_s), "by construction")
