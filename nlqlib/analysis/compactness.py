"""What compact output saves, and what it costs in meaning: pairs of answers to one question, and shares.

An answer that was cut (`finish_reason=length`) is no answer: it is counted as cut, saves nothing, and is
wrong wherever accuracy is counted, whatever its text looks like.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nlqlib.analysis.evaluation import CRITERIA, Judged, Share, answered, share
from nlqlib.analysis.stats import Estimate, Interval, mcnemar, t_interval, wilson
from nlqlib.records import ANSWERED, Json

Layout = Literal["compact", "spaced", "pretty", "no JSON"]
Effect = Literal["honoured", "partly", "ignored", "backfired", "cut", "failed", "unpaired"]
EFFECTS: tuple[Effect, ...] = ("honoured", "partly", "ignored", "backfired", "cut", "failed", "unpaired")
SPACES, BREAKS = " \t\r\n", "\r\n"
MEANING = ("strict accuracy", "kind accuracy", "execution accuracy")
"""The first one decides; the others are shown beside it."""


@dataclass(frozen=True)
class Said:
    """What came back for one question."""

    question_id: str
    outcome: str
    text: str | None
    output_tokens: int | None
    e2e_s: float | None = None

    @property
    def whole(self) -> bool:
        """Did an answer arrive that ended by itself?"""
        return ended(self.outcome)


def ended(outcome: str) -> bool:
    """Is this the outcome of an answer that has words and ended by itself, whatever its form?"""
    return outcome in ANSWERED and outcome not in ("length", "empty")


def layout(text: str | None) -> Layout:
    """How the JSON in `text` is laid out: `compact` has no space that could go, `pretty` has line breaks."""
    try:
        document = json.loads(text or "")
    except ValueError:
        return "no JSON"
    if text is None or not isinstance(document, dict | list):
        return "no JSON"
    if text == _without(text, SPACES):
        return "compact"
    return "spaced" if text == _without(text, BREAKS) else "pretty"


def _without(text: str, unwanted: str) -> str:
    """`text` without the characters `unwanted` that stand outside of JSON strings."""
    kept, inside, escaped = [], False, False
    for char in text:
        if inside or char not in unwanted:
            kept.append(char)
        if inside and escaped:
            escaped = False
        elif inside and char == "\\":
            escaped = True
        elif char == '"':
            inside = not inside
    return "".join(kept)


def minified(text: str | None) -> str | None:
    """The JSON in `text` without the whitespace outside of its strings; `None` where there is no JSON."""
    return None if layout(text) == "no JSON" else _without(text or "", SPACES)


def effect(pretty: Said, other: Said) -> Effect:
    """What asking for compact output did to one question, told from the answer without it.

    `backfired`: more tokens than the pretty answer, in whatever layout. `partly`: one line with spaces.
    """
    if other.outcome == "length":
        return "cut"
    if not other.whole:
        return "failed"
    if not pretty.whole or pretty.output_tokens is None or other.output_tokens is None:
        return "unpaired"
    if other.output_tokens > pretty.output_tokens:
        return "backfired"
    named: Mapping[Layout, Effect] = {"compact": "honoured", "spaced": "partly"}
    return named.get(layout(other.text), "ignored")


@dataclass(frozen=True)
class Pair:
    """One question under both forms; what is saved is `None` where one side is no whole answer."""

    question_id: str
    effect: Effect
    tokens_saved: int | None
    saved_s: float | None


def pairs(pretty: Iterable[Said], others: Iterable[Said]) -> list[Pair]:
    """`others` beside the pretty answers to the same questions, in the order of `others`."""
    first = {said.question_id: said for said in pretty}
    return [_pair(first[said.question_id], said) for said in others if said.question_id in first]


def _pair(pretty: Said, other: Said) -> Pair:
    found = effect(pretty, other)
    if found in ("cut", "failed", "unpaired") or pretty.output_tokens is None or other.output_tokens is None:
        return Pair(other.question_id, found, None, None)
    timed = None if pretty.e2e_s is None or other.e2e_s is None else pretty.e2e_s - other.e2e_s
    return Pair(other.question_id, found, pretty.output_tokens - other.output_tokens, timed)


def effects(found: Sequence[Pair]) -> dict[Effect, int]:
    """How many questions met each effect; all effects are named, in their order."""
    counts = Counter(pair.effect for pair in found)
    return {name: counts[name] for name in EFFECTS}


@dataclass(frozen=True)
class Lengths:
    """Mean output tokens of both forms over the questions to which both gave a whole answer."""

    n: int
    pretty: float | None
    other: float | None

    @property
    def change(self) -> float | None:
        """Share of the pretty tokens by which the other form is longer."""
        return self.other / self.pretty - 1 if self.pretty and self.other is not None else None


def lengths(pretty: Iterable[Said], others: Iterable[Said]) -> Lengths:
    """How long both forms are on the same questions."""
    first = {said.question_id: said.output_tokens for said in pretty if said.whole}
    both = [(first.get(said.question_id), said.output_tokens) for said in others if said.whole]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    if not known:
        return Lengths(0, None, None)
    return Lengths(len(known), statistics.fmean(a for a, _ in known), statistics.fmean(b for _, b in known))


@dataclass(frozen=True)
class Saving:
    """Means over the pairs that are whole on both sides; seconds are of one answer."""

    n: int
    tokens: Estimate
    predicted_s: float | None
    """Tokens saved × inter-token latency."""
    measured: Estimate
    """Difference of the two end-to-end latencies."""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        if self.measured.value is None or not self.predicted_s:
            return None
        return self.measured.value / self.predicted_s


def saving(found: Sequence[Pair], itl_s: float | None, only: Iterable[Effect] = EFFECTS) -> Saving:
    """What the pairs with an effect of `only` save at `itl_s` seconds a token, with 95 % t intervals."""
    chosen = [p for p in found if p.effect in set(only)]
    tokens = [float(p.tokens_saved) for p in chosen if p.tokens_saved is not None]
    seconds = [p.saved_s for p in chosen if p.saved_s is not None]
    timed = [float(p.tokens_saved) for p in chosen if p.tokens_saved is not None and p.saved_s is not None]
    over = timed or tokens
    predicted = statistics.fmean(over) * itl_s if over and itl_s is not None else None
    return Saving(len(tokens), _estimate(tokens), predicted, _estimate(seconds))


def _estimate(values: Sequence[float]) -> Estimate:
    mean = statistics.fmean(values) if values else None
    return Estimate(mean, t_interval(values), len(values), "mean of pairs, t")


def pooled_itl(gaps: Iterable[tuple[float, int]]) -> float | None:
    """Seconds a token over answers of (seconds from the first token to the last, number of tokens)."""
    known = [(seconds, tokens - 1) for seconds, tokens in gaps if tokens > 1]
    total = sum(tokens for _, tokens in known)
    return sum(seconds for seconds, _ in known) / total if total else None


# ---- meaning ---------------------------------------------------------------------------------------------


def judged_whole(rows: Iterable[Judged]) -> list[Judged]:
    """`rows`, in which a cut answer is wrong in everything, whatever could be read from it."""
    wrong: Json = {"compliant": False, "strict": False, "kind": False, "execution": False, "raw_kind": None}
    return [replace(row, **wrong) if row.outcome == "length" else row for row in rows]


def meaning(rows: Iterable[Judged]) -> dict[str, Share]:
    """Strict, kind and execution accuracy over all questions in which the model spoke."""
    spoken = answered(judged_whole(rows))
    return {name: share(name, sum(map(CRITERIA[name], spoken)), len(spoken)) for name in MEANING}


@dataclass(frozen=True)
class Shift:
    """One criterion under another form, on the questions that both answered."""

    criterion: str
    n: int
    kept: int
    """Right in both forms."""
    lost: int
    """Right only in the pretty form."""
    won: int
    """Right only in the other."""
    p: float
    """Exact two-sided McNemar test, unadjusted: looking at more forms must not hide the harm of one."""

    @property
    def change(self) -> float | None:
        """Difference of the two shares."""
        return (self.won - self.lost) / self.n if self.n else None

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the change; `None` where nothing is paired."""
        return paired_interval(self.kept, self.lost, self.won, self.n) if self.n else None

    @property
    def shown(self) -> bool:
        """Does the interval exclude that nothing changed?"""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    @property
    def risk(self) -> float | None:
        """The largest loss, as a share of the questions, that the interval does not exclude."""
        return None if self.interval is None else max(0.0, -self.interval.low)


def paired_interval(kept: int, lost: int, won: int, n: int) -> Interval:
    """95 % interval of a difference of paired shares, after minus before (Newcombe 1998, method 10).

    `kept` of `n` have it in both, `lost` only before, `won` only after.
    """
    neither = n - kept - lost - won
    before, after = (kept + lost) / n, (kept + won) / n
    (low1, high1), (low2, high2) = wilson(kept + lost, n), wilson(kept + won, n)
    margins = (kept + lost) * (won + neither) * (kept + won) * (lost + neither)
    agreement: float = kept * neither - lost * won
    agreement = max(agreement - n / 2, 0) if agreement > 0 else agreement
    phi = agreement / math.sqrt(margins) if margins else 0.0
    down = _together(before - low1, high2 - after, phi)
    up = _together(high1 - before, after - low2, phi)
    return Interval(after - before - up, after - before + down)


def _together(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * phi * first * second + second**2))


def shifts(pretty: Iterable[Judged], others: Mapping[str, Sequence[Judged]]) -> dict[str, list[Shift]]:
    """Every criterion of each of `others` against the pretty answers, the primary one first."""
    first = {row.question_id: row for row in answered(judged_whole(pretty))}
    return {name: [_shift(c, first, rows) for c in MEANING] for name, rows in others.items()}


def _shift(criterion: str, first: Mapping[str, Judged], rows: Sequence[Judged]) -> Shift:
    right = CRITERIA[criterion]
    both = [(right(first[r.question_id]), right(r)) for r in _both(first, rows)]
    lost, won = both.count((True, False)), both.count((False, True))
    return Shift(criterion, len(both), both.count((True, True)), lost, won, mcnemar(lost, won))


def _both(first: Mapping[str, Judged], rows: Sequence[Judged]) -> list[Judged]:
    return [row for row in answered(judged_whole(rows)) if row.question_id in first]
