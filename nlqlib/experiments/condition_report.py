"""Everything that is reported of one condition on one set, computed from its rows; a table of several."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nlqlib.analysis.cost import Counts, TokenPrices, loop_cost, per_1000, token_cost
from nlqlib.analysis.evaluation import (
    Judged,
    Paired,
    Share,
    against,
    answered,
    clustered_interval,
    confusion,
    majority_baseline,
    pair_consistency,
    scores,
    share,
    taxonomy,
)
from nlqlib.analysis.intervention import Change, final_taxonomy, forced, interventions, transitions
from nlqlib.analysis.stats import percentile
from nlqlib.experiments.judging import change_of, final_of, raw_of
from nlqlib.records import Json

Rows = Sequence[Json]


@dataclass(frozen=True)
class Prices:
    """What is paid: by the token, by the hour of a machine, or neither (`None`: no cost is reported)."""

    tokens: TokenPrices | None = None
    per_hour: float | None = None


FREE = Prices()


def report(rows: Rows, prices: Prices = FREE, in_flight: int | None = None) -> Json:
    """Raw and final scores, what the correction did, errors, times, tokens and cost of one condition.

    `in_flight`: requests in flight while it was asked, for a price per hour.
    """
    raw, final = raw_rows(rows), [final_of(row) for row in rows]
    changes = changes_of(rows)
    return {
        "questions": len(rows),
        "failed": len(rows) - len(answered(final)),
        "raw": _shares(scores(raw)),
        "final": _shares(scores(final)),
        "majority class": asdict(majority_baseline(final)),
        "pair consistency": {
            "raw": asdict(pair_consistency(raw)),
            "final": asdict(pair_consistency(final)),
        },
        "clustered interval of strict accuracy": clustered_interval(final),
        "interventions": asdict(interventions(changes)),
        "transitions": transitions(changes),
        "unanswered": asdict(_unanswered(rows)),
        "forced strict accuracy": asdict(_forced(rows, changes, final)),
        "errors": {"raw": taxonomy(raw), "final": _final_errors(changes, final)},
        "confusion": {"raw": _confusion(raw), "final": _confusion(_as_answered(rows))},
        "slices": _shares(_slices(rows)),
        "serving": _serving(rows, prices, in_flight),
    }


def raw_rows(rows: Rows) -> list[Judged]:
    """The model's own answers; none where no model was asked."""
    return [raw_of(row) for row in rows if row["requests"]]


def changes_of(rows: Rows) -> list[Change]:
    """What the correction did to each answered question."""
    return [change for row in rows if (change := change_of(row)) is not None]


def _shares(found: Sequence[Share]) -> list[Json]:
    return [asdict(one) for one in found]


def _forced(rows: Rows, changes: Sequence[Change], final: Sequence[Judged]) -> Share:
    """Without a model nobody is asked either: then it is the final accuracy."""
    if any(row["requests"] for row in rows):
        return forced(changes)
    spoken = answered(final)
    return share("forced strict accuracy", sum(row.strict for row in spoken), len(spoken))


def _unanswered(rows: Rows) -> Share:
    """Questions that ended without any intent to execute: refused, or understood by nobody."""
    spoken = [row for row in rows if answered([final_of(row)])]
    return share("unanswered", sum(row["final"] is None for row in spoken), len(spoken))


def _final_errors(changes: Sequence[Change], final: Sequence[Judged]) -> dict[str, int]:
    return final_taxonomy(changes) if changes else taxonomy(final)


def _confusion(rows: Sequence[Judged]) -> Json:
    return {f"{gold} → {given}": n for (gold, given), n in sorted(confusion(rows).items())}


def _as_answered(rows: Rows) -> list[Judged]:
    """The final answers under the kind they have, not the one the model named."""
    told = [(row, final_of(row)) for row in rows]
    return [Judged(**(asdict(j) | {"raw_kind": (row["final"] or {}).get("query_type")})) for row, j in told]


def _slices(rows: Rows) -> list[Share]:
    """Final strict accuracy by slice of the set."""
    spoken = [(row["slice"], j) for row in rows if answered([j := final_of(row)])]
    names = sorted({name for name, _ in spoken if name})
    return [
        share(name, sum(j.strict for s, j in spoken if s == name), sum(s == name for s, _ in spoken))
        for name in names
    ]


def _serving(rows: Rows, prices: Prices, in_flight: int | None) -> Json:
    """Latency (seconds of all requests of a question), output tokens, cut answers, cost."""
    final = [final_of(row) for row in rows]
    times = [j.e2e_s for j in final if j.e2e_s is not None]
    tokens = [j.output_tokens for j in final if j.output_tokens is not None]
    sent = [request for row in rows for request in row["requests"]]
    return {
        "requests": len(sent),
        "e2e_s": {"p50": percentile(times, 50), "p95": percentile(times, 95), "n": len(times)},
        "output_tokens": {"mean": sum(tokens) / len(tokens) if tokens else None, "n": len(tokens)},
        "finish_reason length": sum(request["finish_reason"] == "length" for request in sent),
        "cost per 1,000 questions": cost_per_1000_questions(rows, prices, in_flight),
    }


def question_seconds(row: Json) -> float | None:
    """Seconds of all requests of a question, cut answers included; `None` where one lacks a time."""
    spans = [(r["start_s"], r["end_s"]) for r in row["requests"]]
    known = spans and not any(None in span for span in spans)
    return sum(end - start for start, end in spans) if known else None


def question_cost(row: Json, prices: Prices, in_flight: int | None) -> float | None:
    """Dollars for all requests of a question; `None` without a price, or where counts or times are missing.

    What was not worth sending costs nothing. An hourly price needs the number of requests `in_flight`, that
    of the closed loop it was asked in.
    """
    if not row["requests"]:
        return 0.0
    if prices.per_hour is not None:
        spent_s = question_seconds(row)
        return None if spent_s is None or not in_flight else loop_cost(spent_s, in_flight, prices.per_hour)
    if prices.tokens is None:
        return None
    each = [token_cost(_counts(request), prices.tokens) for request in row["requests"]]
    known = [dollars for dollars in each if dollars is not None]
    return sum(known) if len(known) == len(each) else None


def _counts(request: Json) -> Counts:
    return Counts(**{name: request[name] for name in Counts.__dataclass_fields__})


def cost_per_1000_questions(rows: Rows, prices: Prices, in_flight: int | None) -> float | None:
    """Dollars for a thousand answered questions; `None` where `question_cost` of an answered one is.

    `None` too where no model was asked: that is no price of 0.
    """
    if not any(row["requests"] for row in rows):
        return None
    return per_1000((bool(answered([final_of(row)])), question_cost(row, prices, in_flight)) for row in rows)


def paired(by_condition: Mapping[str, Rows]) -> list[Paired]:
    """Every condition after the first against the first, question by question, with Holm's adjustment.

    Compared is what is answered without asking anybody: a clarifier's gain is never mixed with the others.
    """
    judged = {name: [_forced_of(row) for row in rows] for name, rows in by_condition.items()}
    first = next(iter(judged), None)
    return against(judged[first], {k: v for k, v in judged.items() if k != first}) if first else []


def _forced_of(row: Json) -> Judged:
    """A row as it would have been answered without asking."""
    return Judged(**(asdict(final_of(row)) | {"strict": row["forced_strict"]}))


def summary_line(name: str, told: Json) -> Json:
    """The report of one condition as one line of a table, `n/a` for a share of nothing."""
    acted: Any = told["interventions"]
    return {
        "condition": name,
        "n": told["questions"] - told["failed"],
        "raw kind": shown(_named(told["raw"], "kind accuracy")),
        "raw strict": shown(_named(told["raw"], "strict accuracy")),
        "final strict": shown(_named(told["final"], "strict accuracy")),
        "forced strict": shown(told["forced strict accuracy"]),
        "final kind": shown(_named(told["final"], "kind accuracy")),
        "final execution": shown(_named(told["final"], "execution accuracy")),
        "interventions": acted["interventions"],
        "precision": shown(acted["precision"]),
        "harm": shown(acted["harm"]),
        "recall": shown(acted["recall"]),
        "wrong→wrong": acted["wrong_to_wrong"],
        "abstained": shown(acted["abstained"]),
        "unanswered": shown(told["unanswered"]),
        "pairs": shown(told["pair consistency"]["final"]),
    }


def _named(found: Sequence[Json], name: str) -> Json:
    return next(one for one in found if one["name"] == name)


def shown(one: Json) -> str:
    """`63% (41–81), 12 of 19`; `n/a` for 0 of 0."""
    if one["value"] is None:
        return "n/a"
    return f"{one['value']:.0%} ({one['low']:.0%}–{one['high']:.0%}), {one['k']} of {one['n']}"
