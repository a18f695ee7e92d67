"""Where a request's time goes: client E2E = router queue + replica queue + engine intake + engine queue
+ prefill + decode + residual.

*Engine intake* is TTFT less queue and prefill. vLLM counts TTFT from arrival at its frontend and the queue
from the moment its scheduler hears of the request, which is between two steps: what lies between is
tokenising, and the rest of the step that ran. On an engine with steps of a second that is no small thing, and
no queue shows it. It is a *difference*, in no timer of its own, so there are two closures:

- by timers alone, without the intake: whether what is timed, each by a clock of its own, makes up what the
  client waits. What it misses is in no timer: intake, network, HTTP.
- with the intake by difference: queue and prefill cancel, so that the sum is the admission queues, TTFT and
  decode. It says how little is lost outside the engine, and nothing of how queue and prefill part.

All are means in seconds: E2E and the two admission queues from the client's own answers (the queues from the
gateway's headers), the rest from the engine's histograms. The residual is what no term explains, network and
frontend; it is always shown. A term that was not seen is missing and named, never 0: its time is then in the
residual, and whether the terms close cannot be decided unless they close without it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nlqlib.analysis.window import Window
from nlqlib.records import Completion, Rule

ROUTER, REPLICA = "router queue", "replica queue"
INTAKE = "engine intake"
ENGINE, PREFILL, DECODE = "engine queue", "prefill", "decode"
LAYERS = (ROUTER, REPLICA, INTAKE, ENGINE, PREFILL, DECODE)
"""In the order in which a request passes them."""
CLOSES, TIMED_CLOSE = "sum of the terms", "sum of the timed terms"
"""Names of the closure with the intake by difference, and of that by timers alone."""
CLOSURE = 0.05
"""Largest share of the total that the terms may miss or exceed."""
COVERAGE = 0.10
"""Largest share by which the engine's count may differ from ours: phases are observed when a request
finishes, so a few of either side lie beyond the window's edges."""


@dataclass(frozen=True)
class Term:
    """One part of the total."""

    name: str
    mean_s: float | None
    """`None`: not seen."""
    share: float | None
    """Of the total."""


@dataclass(frozen=True)
class Decomposition:
    """A mean latency and its parts."""

    total: str
    """`client E2E` or `engine E2E`."""
    total_s: float | None
    n: int | None
    """How many requests the total is the mean of."""
    terms: tuple[Term, ...]
    residual: Term
    """Total − sum of the terms that were seen; below 0 where they exceed it."""
    outside_engine_s: float | None
    """Client E2E − admission queues − engine E2E: network, gateway, client; `None` where one is missing."""
    rules: tuple[Rule, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Terms that were not seen; their time is in the residual."""
        return tuple(term.name for term in self.terms if term.mean_s is None)

    @property
    def closes(self) -> bool | None:
        """Whether the terms make up the total; `None` when a missing term may hold the rest."""
        return self.rules[0].ok


@dataclass(frozen=True)
class ClientMeans:
    """What the client knows of its good answers, in seconds."""

    n: int
    e2e_s: float | None
    router_queue_s: float | None
    """`None` also where only some answers carry the header: a mean of those alone is another mean."""
    replica_queue_s: float | None


def client_means(completions: Iterable[Completion]) -> ClientMeans:
    """Means over the good answers of a point."""
    good = [c for c in completions if c.ok and c.e2e_s is not None]
    return ClientMeans(
        len(good),
        _mean([c.e2e_s for c in good]),
        _mean([c.router_queue_s for c in good]),
        _mean([c.replica_queue_s for c in good]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def decompose(client: ClientMeans, window: Window, without: Collection[str] = ()) -> Decomposition:
    """Client E2E in its terms; `without` names layers that are known not to be there."""
    seen = {
        ROUTER: client.router_queue_s,
        REPLICA: client.replica_queue_s,
        INTAKE: intake_s(window),
        ENGINE: window.queue_s,
        PREFILL: window.prefill_s,
        DECODE: window.decode_s,
    }
    kept = {name: value for name, value in seen.items() if name not in without}
    admission = [kept[name] for name in (ROUTER, REPLICA) if name in kept]
    outside = _less(client.e2e_s, [*admission, window.e2e_s])
    return _decomposition("client E2E", client.e2e_s, client.n, kept, outside, (_coverage(client, window),))


def intake_s(window: Window) -> float | None:
    """From arrival at the engine's frontend until its scheduler knows of a request; `None` where not seen.

    TTFT is observed at the first token and the phases at the end, so at a window's edges the difference of
    their means may fall below 0 by a little: it stays so, for a 0 would be another sum.
    """
    return _less(window.ttft_s, [window.queue_s, window.prefill_s])


def decompose_engine(window: Window) -> Decomposition:
    """Engine E2E, from arrival at its frontend, in queue, prefill and decode: what one server alone tells."""
    phases = {ENGINE: window.queue_s, PREFILL: window.prefill_s, DECODE: window.decode_s}
    seen = {INTAKE: intake_s(window), **phases}
    count = window.count("e2e_s")
    return _decomposition("engine E2E", window.e2e_s, None if count is None else int(count), seen, None, ())


def _decomposition(
    total: str,
    total_s: float | None,
    n: int | None,
    seen: dict[str, float | None],
    outside_s: float | None,
    further: tuple[Rule, ...],
) -> Decomposition:
    terms = tuple(Term(name, value, _share(value, total_s)) for name, value in seen.items())
    known = [value for value in seen.values() if value is not None]
    rest = _less(total_s, known) if known else None
    rules = (_closure(CLOSES, total, seen, total_s), *further)
    return Decomposition(
        total, total_s, n, terms, Term("residual", rest, _share(rest, total_s)), outside_s, rules
    )


def timed_closure(
    parts: Mapping[str, float | None], total_s: float | None, total: str = "client E2E"
) -> Rule:
    """Whether the timed terms of `parts` (seconds by layer) alone make up `total_s`: without the intake."""
    timed = {name: value for name, value in parts.items() if name != INTAKE}
    return _closure(TIMED_CLOSE, total, timed, total_s)


def _closure(what: str, total: str, parts: Mapping[str, float | None], total_s: float | None) -> Rule:
    """No term is negative: a sum that closes without a missing term needs none, and one too large fails."""
    low, high = 1 - CLOSURE, 1 + CLOSURE
    known = [value for value in parts.values() if value is not None]
    share = _share(sum(known), total_s) if known else None
    incomplete = len(known) < len(parts)
    ok = None if share is None or (share < low and incomplete) else low <= share <= high
    return Rule(f"{what} / {total}", share, f"{low:g} … {high:g}", ok)


def _coverage(client: ClientMeans, window: Window) -> Rule:
    low, high = 1 - COVERAGE, 1 + COVERAGE
    count = window.count("decode_s")
    ratio = None if count is None or not client.n else count / client.n
    return Rule(
        "requests in the engine's phases / our good answers",
        ratio,
        f"{low:g} … {high:g}",
        None if ratio is None else low <= ratio <= high,
    )


def _share(value: float | None, total_s: float | None) -> float | None:
    return None if value is None or not total_s else value / total_s


def _less(total_s: float | None, parts: Sequence[float | None]) -> float | None:
    """`total_s` without its parts; `None` where one of them is missing."""
    known = [part for part in parts if part is not None]
    return None if total_s is None or len(known) < len(parts) else total_s - sum(known)
