"""One run of the map: an arm with its engine's settings, the length of its prompts, and what it came after.

Besides what an arm keeps: how much of the prompts the server found cached, how long all answers were,
and, where a long prompt comes in between, the longest gap that it tears into the answers in progress.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nlqlib.analysis.latency import itl_s
from nlqlib.analysis.window import Window, window
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import warm
from nlqlib.experiments.arm import Arm
from nlqlib.experiments.arm_result import observed
from nlqlib.experiments.control_prompts import shorten
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import level_spec, offered, session, settled
from nlqlib.experiments.sweep_result import Tag, rules
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.load.open_loop import open_loop
from nlqlib.load.sampling import Sampler
from nlqlib.records import ChatRequest, Completion, Metric
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify

MODULES = ("nlqlib.experiments.control_run", "nlqlib.experiments.control_data")
LATER_S = 1.0
"""When the long prompt comes: the others have their first tokens by then, and are far from their last."""
BETWEEN = "between"
"""Names the request that comes in between."""


@dataclass(frozen=True)
class Trial(Arm):
    """An arm, what the engine and the prompts are like, and the predictions it was made after."""

    variant: str = "standard"
    """Settings of the engine, by a name of `control.VARIANTS`."""
    prompt: int = 0
    """Prompt tokens wanted; 0: the whole prompt."""
    interrupted: bool = False
    """All but the last request start at once; the last, a whole prompt that is not cached, comes later."""
    predictions: str = ""
    """Digest of the predictions that were written down before."""

    @property
    def warming(self) -> int:
        """Prompts sent beforehand; of short answers one, since only the ends of the prompts differ."""
        if self.unshared:
            return 0
        return 1 if self.output_tokens is not None else min(self.requests, 20)


def spec(trial: Trial) -> Spec:
    """The point that `trial` becomes."""
    plain = level_spec(trial)
    return replace(plain, modules=MODULES, requests=trial.requests + trial.warming)


def measure(study: Study, trial: Trial) -> Record:
    """The run on `study`, whose target has its settings already: retained, or measured now."""
    planned = spec(trial)
    return study.point(planned, lambda: study.measured(_measure(study, trial)))


async def _measure(study: Study, trial: Trial) -> Measured:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, reader):
        asked = [replace(r, stream=trial.stream) for r in offered(study, trial)]
        short = shorten(asked, trial.prompt)
        await warm(client, short[: trial.warming])
        before = await settled(reader)
        sampler = Sampler(reader.sample) if reader else None
        run = await _offer(study, trial, client, short, asked[-1], sampler)
        after = await settled(reader)
    tag = study.target.time_tag
    found = observed(run, before, after, (), tag, no_gateway=study.target.kind != "url")
    seen = window(before, after) if before and after else None
    return replace(
        found,
        server=server,
        metrics=[*found.metrics, *counted(run.completions, seen, tag), _gap(run, trial, tag)],
        validity=rules(run, seen),  # terms need not close here: outside the engine is much of a short answer
        results={**found.results, "clock": study.target.clock},
    )


async def _offer(
    study: Study,
    trial: Trial,
    client: Client,
    asked: Sequence[ChatRequest],
    whole: ChatRequest,
    sampler: Sampler | None,
) -> LoadRun:
    """The load itself: a closed loop, or answers in progress with a long prompt in between."""
    if trial.interrupted:
        last = next(salted(study, [replace(whole, request_id=BETWEEN)]))
        first = list(asked[: trial.requests - 1])
        return await open_loop(client, [*first, last], [0.0] * len(first) + [LATER_S], sampler=sampler)
    offer = salted(study, asked) if trial.unshared else cycled(asked)
    return await closed_loop(client, offer, trial.concurrency, trial.requests, sampler=sampler)


def salted(study: Study, asked: Sequence[ChatRequest]) -> Iterator[ChatRequest]:
    """`asked` without end, each under a salt that nobody used before; on the twin the same every time."""
    run = "twin" if study.target.kind == "twin" else uuid.uuid4().hex
    return (replace(r, extra={**r.extra, "cache_salt": f"{run}-{i}"}) for i, r in enumerate(cycled(asked)))


def counted(done: Iterable[Completion], seen: Window | None, tag: Tag) -> list[Metric]:
    """Share of the presented prompt tokens that the server found cached, and mean tokens of all answers."""
    hits, presented = (seen.hits, seen.prompt_tokens) if seen else (None, None)
    cached = hits / presented if hits is not None and presented else None
    given = [c.output_tokens for c in done if c.output_tokens is not None]
    mean = sum(given) / len(given) if given else None
    return [
        Metric("cached_share", "share", "mean", cached, None, tag),
        Metric("answer_tokens", "tokens", "mean", mean, len(given), tag),
    ]


def _gap(run: LoadRun, trial: Trial, tag: Tag) -> Metric:
    """The longest time between two tokens of any answer in progress; missing without a stream."""
    others = [c for c in run.completions if not c.request_id.startswith(BETWEEN)]
    gaps = [float(g.max()) for c in others if (g := itl_s(c)) is not None and len(g)] if trial.stream else []
    return Metric("longest_gap", "s", "max", max(gaps, default=None), len(gaps), tag)
