"""A window: two scrapes of `/metrics`, and what happened between them on the server.

A value is a difference. Over several engines and URLs counters and gauges add up (of `kv_usage`, a share,
the mean is taken), and a mean is ΣΔsum / ΣΔcount, never a mean of means. Missing is `None`, never 0. Where a
rule fails, the window is invalid and says why, and every value is withheld: none of them would be right.

vLLM observes queue, prefill and decode times when a request *finishes* and the time to first token when that
token comes, so their counts differ at the window's edges.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nlqlib.analysis.change import counter, gauges, histogram
from nlqlib.analysis.continuity import Pairs, continuity_rules
from nlqlib.analysis.exposition import Exposition, Page, Scrape, parse, scrape_of
from nlqlib.analysis.histogram import Between, Histogram
from nlqlib.analysis.samples import Levels, Sample, levels
from nlqlib.metric_names import COUNTERS, HISTOGRAMS
from nlqlib.records import Rule

__all__ = [
    "Between", "Exposition", "Histogram", "Levels", "Page", "Sample", "Scrape", "Window",
    "foreign_traffic_rules", "levels", "parse", "replica_windows", "scrape_of", "snapshot", "window",
]  # fmt: skip

PAGES_READ = "every metrics page was read"
LENGTH = "the window has a length, in s"
MEANS_FIT = "no mean is longer than the window"
FINISHED = "requests finished on the server, at most ours"
IN_FLIGHT = "running + waiting on the server, at most ours in flight"


@dataclass(frozen=True)
class Window:
    """What the server did between two scrapes; times in seconds, tokens and requests as counts."""

    elapsed_s: float
    rules: tuple[Rule, ...]
    queries: float | None = None
    """Prompt tokens looked up in the prefix cache."""
    hits: float | None = None
    prompt_tokens: float | None = None
    """Presented, cached ones included."""
    generation_tokens: float | None = None
    requests_finished: float | None = None
    preemptions: float | None = None
    running: float | None = None
    """Gauge after."""
    waiting: float | None = None
    """Gauge after."""
    kv_usage: float | None = None
    """Share of KV blocks in use, 0 to 1: gauge after, mean over engines."""
    blocks: int | None = None
    """KV blocks of all engines together."""
    block_size: int | None = None
    """Tokens in one KV block; `None` also where engines differ."""
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    """By key of `metric_names.HISTOGRAMS`, those that the server has."""
    engines: int | None = None
    models: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether no rule failed; a window that could not be observed is not thereby invalid."""
        return all(rule.ok is not False for rule in self.rules)

    @property
    def observed(self) -> bool:
        """Whether there was anything to read."""
        return self.engines is not None

    @property
    def hit_rate(self) -> float | None:
        """Prefix-cache hits / queries, by tokens; `None` when nothing was looked up."""
        return None if self.hits is None or not self.queries else self.hits / self.queries

    @property
    def computed_prompt_tokens(self) -> float | None:
        """Prompt tokens that had to be computed: presented − hit."""
        return None if self.prompt_tokens is None or self.hits is None else self.prompt_tokens - self.hits

    @property
    def ttft_s(self) -> float | None:
        """Mean time to first token, from arrival at the frontend."""
        return self.mean("ttft_s")

    @property
    def itl_s(self) -> float | None:
        """Mean gap between outputs; of tokens, where each output carries one."""
        return self.mean("itl_s")

    @property
    def tpot_s(self) -> float | None:
        """Mean over requests of the time per output token."""
        return self.mean("tpot_s")

    @property
    def e2e_s(self) -> float | None:
        """Mean end-to-end latency, from arrival at the frontend to the last token."""
        return self.mean("e2e_s")

    @property
    def queue_s(self) -> float | None:
        """Mean time in the engine's own queue."""
        return self.mean("queue_s")

    @property
    def prefill_s(self) -> float | None:
        """Mean time from being scheduled to the first token."""
        return self.mean("prefill_s")

    @property
    def decode_s(self) -> float | None:
        """Mean time from the first token to the last."""
        return self.mean("decode_s")

    @property
    def inference_s(self) -> float | None:
        """Mean time from being scheduled to the last token."""
        return self.mean("inference_s")

    def mean(self, key: str) -> float | None:
        """ΔΣ / Δn of a histogram; `None` where it is missing or nothing was observed."""
        found = self.histograms.get(key)
        return None if found is None else found.mean

    def count(self, key: str) -> float | None:
        """How many values a histogram observed; `None` where it is missing."""
        found = self.histograms.get(key)
        return None if found is None else found.count

    def percentile(self, key: str, q: float) -> Between | None:
        """The bounds between which a percentile lies, as far as the buckets tell."""
        found = self.histograms.get(key)
        return None if found is None else found.percentile(q)


def window(before: Scrape, after: Scrape) -> Window:
    """What happened between two scrapes of the same URLs, all engines together."""
    elapsed = after.at_s - before.at_s
    pairs = _pairs(before, after)
    if pairs is None:
        why = "; ".join(dict.fromkeys((*before.reasons, *after.reasons))) or "the URLs differ"
        return Window(elapsed, (Rule(PAGES_READ, why, None, None),))
    return _window(pairs, elapsed)


def _window(pairs: Pairs, elapsed: float) -> Window:
    histograms = {key: found for key in HISTOGRAMS if (found := histogram(pairs, key)) is not None}
    rules = (
        Rule(PAGES_READ, len(pairs), len(pairs), True),
        Rule(LENGTH, elapsed, 0, math.isfinite(elapsed) and elapsed > 0),
        *continuity_rules(pairs),
        _means_rule(histograms, elapsed),
    )
    if any(rule.ok is False for rule in rules):
        return Window(elapsed, rules, **_who(pairs))
    values: dict[str, Any] = {key: counter(pairs, key) for key in COUNTERS} | gauges(pairs)
    return Window(elapsed, rules, **values, **_who(pairs), histograms=histograms)


def snapshot(scrape: Scrape) -> dict[str, float | int | None]:
    """The gauges of one scrape by `Window`'s names: running, waiting, kv_usage, blocks, block_size.

    Every value is `None` where a page cannot be read, and one that is not finite is.
    """
    pages = scrape.expositions
    if pages is None:
        return dict.fromkeys(("running", "waiting", "kv_usage", "blocks", "block_size"))
    told = gauges(tuple((page, page) for page in pages))
    return {name: v if v is not None and math.isfinite(v) else None for name, v in told.items()}


def replica_windows(before: Scrape, after: Scrape) -> dict[str, Window]:
    """One window for each engine of each page, under `page/engine`; empty where a page cannot be read.

    Where a page does not label its engines, it is one replica.
    """
    elapsed = after.at_s - before.at_s
    return {
        f"{n}/{engine}": _window(((old.only(engine), new.only(engine)),), elapsed)
        for n, (old, new) in enumerate(_pairs(before, after) or ())
        for engine in dict.fromkeys((*old.engines, *new.engines))
    }


def _pairs(before: Scrape, after: Scrape) -> Pairs | None:
    old, new = before.expositions, after.expositions
    if old is None or new is None or len(old) != len(new):
        return None
    return tuple(zip(old, new, strict=True))


def _who(pairs: Pairs) -> dict[str, Any]:
    """Engines and models, as the later scrape names them."""
    pages = [after for _, after in pairs]
    models = tuple(sorted({m for page in pages for m in page.models}))
    return {"engines": sum(max(1, len(page.engines)) for page in pages), "models": models}


def _means_rule(histograms: Mapping[str, Histogram], elapsed: float) -> Rule:
    means = {key: found.mean for key, found in histograms.items()}
    known = {key: mean for key, mean in means.items() if mean is not None and not math.isnan(mean)}
    longest = max(known, key=lambda key: known[key], default=None)
    if longest is None:
        return Rule(MEANS_FIT, None, elapsed, None)
    fits = not any(mean > elapsed for mean in known.values())
    return Rule(MEANS_FIT, known[longest] if fits else f"{longest} {known[longest]:g}", elapsed, fits)


def foreign_traffic_rules(
    window: Window, ours: int, concurrency: int | None, samples: Iterable[Sample]
) -> tuple[Rule, ...]:
    """Whether anybody else used the endpoint while we measured it.

    `ours` counts every request of ours that can have finished inside the window, warm-up and failures
    included; `concurrency` is how many of ours could be in flight (`None`: no such limit, in an open loop).
    """
    finished, top = window.requests_finished, levels(samples).total_max
    unknown = top is None or concurrency is None
    return (
        Rule(FINISHED, finished, ours, None if finished is None else finished <= ours),
        Rule(IN_FLIGHT, top, concurrency, None if unknown else top <= concurrency),  # type: ignore[operator]
    )
