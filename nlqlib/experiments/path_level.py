"""One level of a closed loop, seen from every layer of the path: what a level of a sweep is, and more.

Kept besides: how long each request waited at the router and at the replica (from the gateway's headers), the
gateway's own page, the engine's gauges through the run, and one whole scrape in its second half.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace

from nlqlib.analysis.latency import mean_in_flight
from nlqlib.analysis.samples import Sample
from nlqlib.analysis.window import Scrape, Window, parse, snapshot, window
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Level, at, level_spec, offered, session, settled
from nlqlib.experiments.sweep_result import Tag, measured
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.load.sampling import Sampler
from nlqlib.progress import Progress
from nlqlib.records import Completion, Json, Metric
from nlqlib.serving.client import Client
from nlqlib.serving.gateway import METRICS
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import MetricsReader
from nlqlib.serving.target import Connection

MODULES = ("nlqlib.experiments.path_level",)
KEPT_SAMPLES = 240
"""Of the gauges, evenly over the run: a figure shows no more."""
PAUSE_S = 0.5
"""After half of the answers: the place of the last one is taken again when the middle is scraped."""
Intervals = list[tuple[float, float]]


@dataclass(frozen=True)
class PathLevel(Level):
    """A level, and where along the path it is measured."""

    cell: str = ""
    """Settings of the admission limits: `low/low` is router low, replica low; empty: as deployed."""
    warm: bool = True
    """Whether every prompt is sent once before, outside the measurement."""


@dataclass
class Middle:
    """Scrapes once while the level is at its fullest.

    That is at the first sample, after half of the answers, that shows all of `full` running. Where no sample
    does, the scrape taken soon after the `half`-th answer stands.
    """

    reader: MetricsReader | None
    half: int
    full: int
    done: int = 0
    task: "asyncio.Task[Scrape] | None" = None
    met: bool = False
    """Whether such a sample came."""

    def advance(self) -> None:
        """One answer more."""
        self.done += 1
        if self.done == self.half:
            self._take(PAUSE_S)

    async def sample(self) -> Sample:
        """The gauges now, for the sampler. Only for a level with a reader."""
        assert self.reader is not None
        found = await self.reader.sample()
        if not self.met and self.done >= self.half and (found.running or 0.0) >= self.full:
            self.met = True
            self._take(0.0)
        return found

    async def page(self) -> Scrape | None:
        """The scrape; `None` where there is nothing to read."""
        return await self.task if self.task else None

    def _take(self, pause_s: float) -> None:
        """Scrape in `pause_s` seconds, instead of what was scraped or is waited for."""
        if self.reader is None:
            return
        if self.task is not None:
            self.task.cancel()
        self.task = asyncio.get_running_loop().create_task(self._scrape(self.reader, pause_s))

    @staticmethod
    async def _scrape(reader: MetricsReader, pause_s: float) -> Scrape:
        await asyncio.sleep(pause_s)
        return await reader.scrape()


def path_level(level: Level, cell: str = "", warm: bool = True) -> PathLevel:
    """`level` at `cell` of the path."""
    return PathLevel(**asdict(level), cell=cell, warm=warm)


def spec(level: PathLevel) -> Spec:
    """The point that `level` becomes."""
    plain = level_spec(level)
    return replace(plain, modules=MODULES, requests=plain.requests if level.warm else level.requests)


def measure(study: Study, level: PathLevel) -> Record:
    """One level, retained already or measured now."""
    there = at(study, level)
    return there.point(spec(level), lambda: there.measured(_measure(there, level)))


def retained(study: Study, level: PathLevel) -> Record | None:
    """The level, if an earlier run has kept it: how cells of several deployments are merged."""
    there = at(study, level)
    found = there.store.find(there.key(spec(level)))
    return found if found is not None and found.current else None


def counted(study: Study, level: PathLevel, bar: Progress) -> Record:
    """`measure`, and one step more of `bar`."""
    found = measure(study, level)
    bar.advance(f"{level.concurrency} {level.cell}".rstrip())
    return found


async def _measure(study: Study, level: PathLevel) -> Measured:
    server = await identify(study.target)
    async with _session(study) as (client, reader, gateway):
        warming = level.requests if level.warm else 0
        asked = await accepted(study, client, offered(study, level), warming)
        before = await settled(reader)
        middle = Middle(reader, level.requests // 2, level.concurrency)
        sampler = Sampler(middle.sample) if reader else None
        offer = cycled(asked)
        run = await closed_loop(
            client, offer, level.concurrency, level.requests, sampler=sampler, report=middle
        )
        page, after = await middle.page(), await settled(reader)
        gate = await gateway.scrape() if gateway else None
    tag = study.target.time_tag
    found = _along(measured(run, before, after, tag), run, page, gate, tag)
    seen = window(before, after) if before and after else None
    found = replace(found, server=server, metrics=[*found.metrics, *_counts(seen, tag)])
    return noted(found, asked, study.contract)


@asynccontextmanager
async def _session(
    study: Study,
) -> AsyncIterator[tuple[Client, MetricsReader | None, MetricsReader | None]]:
    """The client, the reader of the engines' pages and that of the gateway's, each where there is one."""
    gateway = _gateway(study, study.target.connection)
    try:
        async with session(study.target, study.client) as (client, reader):
            yield client, reader, gateway
    finally:
        if gateway:
            await gateway.aclose()


def _gateway(study: Study, there: Connection) -> MetricsReader | None:
    """The reader of the page of the gateway that we put there ourselves."""
    if "admission" not in study.target.declared:
        return None
    root = there.endpoint.base_url.rstrip("/").removesuffix("/v1")
    return MetricsReader([root + METRICS], app=there.app, endpoint=there.endpoint)


def _along(found: Measured, run: LoadRun, page: Scrape | None, gate: Scrape | None, tag: Tag) -> Measured:
    """`found` with waits and depths by layer, gauges through the run, and the two further pages."""
    metrics = [m for layer in LAYERS for m in (_wait(run, layer, tag), _depth(run, layer, tag))]
    rows = [row | _headers(c) for row, c in zip(found.samples, run.completions, strict=True)]
    return replace(
        found,
        samples=rows,
        metrics=[*found.metrics, *metrics],
        results={
            "gauges": [[s.at_s, s.running, s.waiting] for s in thinned(run.samples)],
            "middle": _middle(run, page),
            "gateway": gate_peaks(gate.texts[0] if gate else None),
        },
        scrapes={
            **found.scrapes,
            **(page.raw("middle") if page else {}),
            **(gate.raw("gateway") if gate else {}),
        },
    )


LAYERS = ("router", "replica")
PEAK_DEPTH = "nlqlib_gateway_peak_queue_depth"


def waiting_at(layer: str, done: Iterable[Completion]) -> Intervals:
    """From when to when each request waited at `layer`, by its answer's headers; seconds as in `done`.

    A request reaches the router as it is sent, and the replica when the router lets it go. Answers without
    the header are left out.
    """
    found: Intervals = []
    for c in done:
        wait = c.router_queue_s if layer == "router" else c.replica_queue_s
        before = 0.0 if layer == "router" else c.router_queue_s
        if c.start_s is not None and wait is not None and before is not None:
            found.append((c.start_s + before, c.start_s + before + wait))
    return found


TOKENS = ("prompt_tokens", "computed_prompt_tokens", "generation_tokens")
"""Counted by the server over the level: presented, presented but not cached, and generated."""


def _counts(seen: Window | None, tag: Tag) -> list[Metric]:
    """`TOKENS` of the window; missing without one."""
    return [
        Metric(name, "tokens", "count", getattr(seen, name) if seen else None, None, tag) for name in TOKENS
    ]


def _headers(c: Completion) -> Json:
    """What the answer's headers say of its way."""
    return {
        "router_queue_s": c.router_queue_s,
        "replica_queue_s": c.replica_queue_s,
        "replica": c.replica,
    }


def _wait(run: LoadRun, layer: str, tag: Tag) -> Metric:
    """Mean wait of the good answers at a layer; missing where they do not say."""
    told = [getattr(c, f"{layer}_queue_s") for c in run.completions if c.ok]
    known = [s for s in told if s is not None]
    return Metric(f"{layer}_queue", "s", "mean", sum(known) / len(known) if known else None, len(known), tag)


def _depth(run: LoadRun, layer: str, tag: Tag) -> Metric:
    """How many waited at a layer at a time, on average over the steady window (without one, over the run)."""
    waits = waiting_at(layer, run.completions)
    mean = mean_in_flight(waits, run.window) if waits else None
    return Metric(f"{layer}_depth", "requests", "mean", mean, len(waits), tag)


def thinned(samples: Sequence[Sample], most: int = KEPT_SAMPLES) -> list[Sample]:
    """At most `most` of `samples`, at even steps from the first on."""
    return list(samples[:: max(1, -(-len(samples) // most))])


def _middle(run: LoadRun, page: Scrape | None) -> Json:
    """The gauges of the middle scrape, and how many were in flight at that time by the client's own clock."""
    if page is None:
        return {}
    at_s = page.at_s - run.origin_s
    spans = [(c.start_s, c.end_s) for c in run.completions if c.start_s is not None and c.end_s is not None]
    return {"at_s": at_s, "in_flight": sum(a <= at_s < b for a, b in spans), **snapshot(page)}


def gate_peaks(text: str | None) -> Json:
    """Deepest queue of each layer by the gateway's own page, since it was started; empty without one."""
    told = parse(text).values(PEAK_DEPTH) if text else {}
    found: dict[str, float] = {}
    for labels, value in told.items():
        layer = dict(labels)["layer"]
        found[layer] = max(value, found.get(layer, 0.0))
    return dict(found)
