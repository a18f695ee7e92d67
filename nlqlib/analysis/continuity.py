"""Whether two scrapes tell of one and the same engine: only then does a difference mean anything.

A restart sets counters back, and a second replica behind the same URL answers with its own.
"""

from collections.abc import Iterator, Mapping

from nlqlib.analysis.exposition import Exposition, Labels, finite
from nlqlib.metric_names import COUNTERS, HISTOGRAMS, QUANTITIES, START_TIME
from nlqlib.records import Rule

Pairs = tuple[tuple[Exposition, Exposition], ...]
"""The same page before and after, for each URL."""

ENDINGS = {"counter": ("_total",), "histogram": ("_count", "_sum", "_bucket")}
SAME_ENGINE = "the same engine throughout"
COUNTERS_GREW = "counters only grew"
FINITE = "every value is finite"
SET_BACK = ": the engine was restarted, or the two scrapes are swapped"
SHOWN = 3
"""Names of offending series that a rule shows; more would hide the reason."""


def continuity_rules(pairs: Pairs) -> tuple[Rule, ...]:
    """One engine throughout, counters that only grew, and only finite values."""
    other, checked = restarted(pairs)
    fell, odd = list(fallen(pairs)), list(not_finite(pairs))
    same = False if other else (True if checked else None)
    return (
        Rule(SAME_ENGINE, other if other else ("unchanged" if checked else None), None, same),
        Rule(COUNTERS_GREW, _shown(fell, SET_BACK), 0, not fell),
        Rule(FINITE, _shown(odd), 0, not odd),
    )


def _shown(names: list[str], meaning: str = "") -> float | str:
    """0 where there is nothing to show."""
    if not names:
        return 0
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more + meaning


def restarted(pairs: Pairs) -> tuple[str | None, bool]:
    """Why the engine is another one, if it is; and whether the pages hold anything to tell it by."""
    for before, after in pairs:
        if before.models != after.models:
            return f"the model changed from {_list(before.models)} to {_list(after.models)}", True
        if before.engines != after.engines:
            return f"the engines changed from {_list(before.engines)} to {_list(after.engines)}", True
        if _moved(before.values(START_TIME), after.values(START_TIME)):
            return (
                "another process answers: the engine was restarted, or several replicas hide behind one "
                "URL (then name each in METRICS_URLS)",
                True,
            )
        if name := next((n for n in _created(before) if _moved(before.values(n), after.values(n))), None):
            return f"{name} changed: the engine was restarted", True
    signs = (START_TIME in p.samples or any(_created(p)) for pair in pairs for p in pair)
    return None, all(signs)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(name or "(unnamed)" for name in names) or "none"


def _moved(before: Mapping[Labels, float], after: Mapping[Labels, float]) -> bool:
    return any(after[labels] != was for labels, was in before.items() if labels in after)


def _created(page: Exposition) -> Iterator[str]:
    """Names of the times at which the page's own counters were created."""
    for key in (*COUNTERS, *HISTOGRAMS):
        base = page.base(QUANTITIES[key])
        if base is not None and f"{base}_created" in page.samples:
            yield f"{base}_created"


def fallen(pairs: Pairs) -> Iterator[str]:
    """Counters that are lower after than before, or gone: `name 1000 → 40`."""
    for before, after in pairs:
        for name in cumulative_names(before):
            here = after.values(name)
            for labels, was in before.values(name).items():
                now = here.get(labels)
                if now is None:
                    yield f"{name} {was:g} → missing"
                elif now < was:
                    yield f"{name} {was:g} → {now:g}"


def cumulative_names(page: Exposition) -> Iterator[str]:
    """Names of every sample on `page` that can only grow, of the quantities the suite reads."""
    for key in (*COUNTERS, *HISTOGRAMS):
        quantity = QUANTITIES[key]
        base = page.base(quantity)
        if base is not None:
            yield from (base + e for e in ENDINGS[quantity.kind] if base + e in page.samples)


def not_finite(pairs: Pairs) -> Iterator[str]:
    """Samples of the quantities the suite reads that are NaN or infinite: `name NaN`."""
    for page in (page for pair in pairs for page in pair):
        gauges = (page.base(QUANTITIES[key]) for key in ("running", "waiting", "kv_usage"))
        for name in (*cumulative_names(page), *filter(None, gauges)):
            for value in page.values(name).values():
                if not finite(value):
                    yield f"{name} {value:g}"
