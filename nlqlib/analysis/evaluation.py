"""From judged questions to shares with intervals. Knows nothing of prompts, models or HTTP.

An answer that cannot be parsed is wrong; a request that failed is no answer, and is counted apart.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nlqlib.analysis.stats import Interval, cluster_bootstrap, holm, mcnemar, wilson
from nlqlib.records import ANSWERED


@dataclass(frozen=True)
class Judged:
    """One question and what became of it."""

    question_id: str
    outcome: str
    compliant: bool
    """The answer is JSON that keeps to the wire schema."""
    strict: bool
    """Equal to a gold in every field that counts."""
    kind: bool
    """Same `query_type` as a gold; an answer that cannot be parsed is wrong."""
    execution: bool | None
    """Same rows as a gold; `None` where the comparison could not be made."""
    executed: bool | None
    """The SQL built from the answer ran; `None` where there was no valid intent to build from."""
    gold_kind: str
    raw_kind: str | None
    """The `query_type` that the answer names, whatever its form; `None` where it names none."""
    errors: tuple[str, ...] = ()
    """Error taxonomy: kind, metric, dimension, filter, period, grain, sort, limit, invalid."""
    output_tokens: int | None = None
    e2e_s: float | None = None
    cluster: str = ""
    """Questions of one cluster belong together: the two of a contrast pair, or variants of one wording."""


@dataclass(frozen=True)
class Share:
    """`k` of `n`, with a Wilson 95 % interval; no value where `n` is 0."""

    name: str
    k: int
    n: int
    value: float | None
    low: float | None
    high: float | None


def share(name: str, k: int, n: int) -> Share:
    """`k` of `n` as a `Share`."""
    if n == 0:
        return Share(name, k, n, None, None, None)
    low, high = wilson(k, n)
    return Share(name, k, n, k / n, low, high)


def answered(rows: Sequence[Judged]) -> list[Judged]:
    """The rows in which the model spoke."""
    return [r for r in rows if r.outcome in ANSWERED]


CRITERIA: dict[str, Callable[[Judged], bool]] = {
    "schema compliance": lambda r: r.compliant,
    "kind named right": lambda r: r.raw_kind == r.gold_kind,
    "kind accuracy": lambda r: r.kind,
    "strict accuracy": lambda r: r.strict,
    "execution accuracy": lambda r: bool(r.execution),
}


def scores(rows: Sequence[Judged]) -> list[Share]:
    """Each criterion over all answered questions, then SQL execution over the valid intents alone."""
    spoken = answered(rows)
    out = [share(name, sum(map(met, spoken)), len(spoken)) for name, met in CRITERIA.items()]
    built = [r for r in spoken if r.executed is not None]
    return [*out, share("SQL executes", sum(bool(r.executed) for r in built), len(built))]


def taxonomy(rows: Sequence[Judged]) -> dict[str, int]:
    """How many answers are wrong in each field; one answer may be wrong in several."""
    counts = Counter(error for row in answered(rows) for error in row.errors)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def confusion(rows: Sequence[Judged]) -> dict[tuple[str, str], int]:
    """Counts of (gold kind, raw kind); an answer without a kind is `none`."""
    return dict(Counter((row.gold_kind, row.raw_kind or "none") for row in answered(rows)))


def majority_baseline(rows: Sequence[Judged]) -> Share:
    """Kind accuracy of always answering with the commonest gold kind."""
    spoken = answered(rows)
    commonest = Counter(r.gold_kind for r in spoken).most_common(1)
    return share("majority class", commonest[0][1] if commonest else 0, len(spoken))


def pair_consistency(rows: Sequence[Judged]) -> Share:
    """Clusters of two questions or more in which every answer is strictly right."""
    clusters: dict[str, list[bool]] = {}
    for row in answered(rows):
        clusters.setdefault(row.cluster or row.question_id, []).append(row.strict)
    pairs = [right for right in clusters.values() if len(right) > 1]
    return share("pair consistency", sum(map(all, pairs)), len(pairs))


def clustered_interval(rows: Sequence[Judged], seed: int = 0) -> Interval | None:
    """95 % interval of strict accuracy when whole clusters are drawn; `None` below two clusters.

    Wilson's interval takes questions for independent, which the two of a pair are not.
    """
    spoken = answered(rows)
    names = [row.cluster or row.question_id for row in spoken]
    return cluster_bootstrap([float(row.strict) for row in spoken], names, seed=seed)


@dataclass(frozen=True)
class Paired:
    """One condition against another on the questions that both answered."""

    name: str
    n: int
    only_first: int
    """Strictly right only under the reference."""
    only_second: int
    """Strictly right only under the condition."""
    p: float
    """Exact two-sided McNemar test."""
    p_holm: float
    """Adjusted by Holm over all conditions of the comparison."""


def against(reference: Sequence[Judged], conditions: Mapping[str, Sequence[Judged]]) -> list[Paired]:
    """Every one of `conditions`, by name, against `reference`, with Holm's adjustment over all of them."""
    found = [_paired(name, reference, rows) for name, rows in conditions.items()]
    adjusted = holm([one.p for one in found]) if found else ()
    return [replace(one, p_holm=p) for one, p in zip(found, adjusted, strict=True)]


def _paired(name: str, reference: Sequence[Judged], rows: Sequence[Judged]) -> Paired:
    first = {row.question_id: row.strict for row in answered(reference)}
    both = [(first[row.question_id], row.strict) for row in answered(rows) if row.question_id in first]
    lost, won = both.count((True, False)), both.count((False, True))
    p = mcnemar(lost, won)
    return Paired(name, len(both), lost, won, p, p)
