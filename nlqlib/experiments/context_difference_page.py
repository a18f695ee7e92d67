"""How the page on window sizing compares two windows run by run: is the headroom free?"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import pandas as pd

from nlqlib.analysis.comparison import READ, TIMED, Change, Common, changes, common
from nlqlib.analysis.stats import Interval
from nlqlib.artifacts import Record
from nlqlib.experiments.context import Deployment, Design, ours
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, span
from nlqlib.records import OUTCOMES, Completion, Json

Deployments = Mapping[int, Deployment]
Runs = dict[int, dict[int, list[Completion]]]
"""Completions by concurrency and number of the run."""
BY_CONSTRUCTION = (
    "By construction: no step of the twin knows the window, so equal times are no evidence. "
    "They show that nothing else in the model depends on it."
)
MOVED = ("higher", "lower")


def changed(study: Study, found: Deployments, wanted: Design) -> tuple[Change, ...]:
    """Every quantity from the smaller window to the larger one; nothing where one was not measured.

    Where the windows took turns their runs are pairs, and one without its pair is left out.
    """
    small, large = (_runs(found[w].sweep) if w in found else {} for w in wanted.windows)
    paired = ours(study)
    if paired:
        small, large = _shared(small, large), _shared(large, small)
    sides = [{n: list(runs.values()) for n, runs in side.items() if runs} for side in (small, large)]
    return changes(*sides, paired=paired, seed=wanted.seed)


def _runs(records: Records) -> Runs:
    """A cut answer stays a failure."""
    runs: Runs = {}
    for record in sorted(records, key=lambda r: int(r.params["repeat"])):
        done = [_completion(r) for r in record.samples() if r["outcome"] in OUTCOMES]
        runs.setdefault(int(record.params["concurrency"]), {})[int(record.params["repeat"])] = done
    return runs


def _completion(row: Json) -> Completion:
    return Completion(str(row["id"]), row["outcome"], start_s=row["start_s"], end_s=row["end_s"])


def _shared(runs: Runs, other: Runs) -> Runs:
    """The runs that the other side has as well."""
    return {n: {r: c for r, c in by.items() if r in other.get(n, {})} for n, by in runs.items()}


# ---- as a table ------------------------------------------------------------------------------------------


def changes_table(found: Sequence[Change], wanted: Design) -> pd.DataFrame:
    """Differences with intervals, and how each is read; what all concurrencies share comes last."""
    small, large = wanted.windows
    columns = ["concurrency", "quantity", f"{small:,}", f"{large:,}"]
    columns += ["difference", "95 % interval", "pair by pair", "reading", "method"]
    shown = [_row(c) for c in found] + [_common_row(c) for c in shared(found)]
    return pd.DataFrame(shown, columns=columns).set_index("concurrency")


def shared(found: Sequence[Change]) -> list[Common]:
    """What all concurrencies share, of each quantity that has runs to compare."""
    return [c for c in (common(found, quantity) for quantity in TIMED) if c is not None]


def _row(c: Change) -> list[object]:
    inside = c.interval if c.reading in READ else None
    return [
        f"{c.concurrency}",
        c.quantity,
        _value(c.before, c.unit),
        _value(c.after, c.unit),
        _value(c.difference, c.unit, "+"),
        _inside(inside, c.unit),
        _shares(r - 1 for r in c.by_pair),
        c.reading,
        c.method if c.reading in READ else "—",
    ]


def _common_row(c: Common) -> list[object]:
    told, inside = f"{c.share:+.1%}", span(c.interval, "+.1%")
    method = f"mean of ln ratios, t over {c.levels} concurrencies"
    return ["all", c.quantity, "—", "—", told, inside, _shares(c.by_pair), c.reading, method]


def _value(value: float | None, unit: str, sign: str = "") -> str:
    if value is None:
        return "—"
    return f"{value:{sign}.1%}" if unit == "share" else f"{round(value, 3) + 0.0:{sign}.3f} {unit}"


def _inside(interval: Interval | None, unit: str) -> str:
    return "—" if interval is None else " to ".join(_value(end, unit, "+") for end in interval)


def _shares(found: Iterable[float]) -> str:
    return ", ".join(f"{share:+.1%}" for share in found) or "—"


# ---- as a sentence ---------------------------------------------------------------------------------------


def free_sentence(study: Study, found: Deployments, wanted: Design) -> str:
    """Is the headroom free? With how much of a difference could have been seen, and in which order."""
    seen = changed(study, found, wanted)
    if not seen:
        return missing_sentence(study, found, wanted)
    read = [c for c in seen if c.reading in READ]
    timed = any(c.quantity in TIMED for c in read)
    order = order_sentence(found, wanted) if timed else ""
    parts = [
        _common_sentence(common(seen, "throughput")),
        _single_sentence(read, "comparisons" if timed else "shares of failed requests"),
        _once_sentence([c.concurrency for c in seen if c.reading == "one run, cannot tell"]),
        BY_CONSTRUCTION if study.target.kind == "twin" else order,
    ]
    return " ".join(p for p in parts if p)


def _common_sentence(c: Common | None) -> str:
    if c is None:
        return ""
    at = f"over all {c.levels} concurrencies"
    heads = {
        "no difference shown": f"No difference of throughput is shown {at}",
        "the pairs disagree": f"Whether throughput differs {at} cannot be told, the pairs disagree",
    }
    head = heads.get(c.reading, f"With the larger window throughput is {c.reading} {at}")
    pairs = f"; pair by pair {_shares(c.by_pair)}" if c.by_pair else ""
    return f"{head}: {c.share:+.1%} (95 % interval {span(c.interval, '+.1%')}{pairs})."


def _single_sentence(read: Sequence[Change], what: str) -> str:
    """The comparisons one by one, and how many of them chance would single out."""
    moved = [c for c in read if c.reading in MOVED]
    if not read:
        return ""
    if not moved:
        return f"None of {len(read)} {what} at a single concurrency shows a difference."
    named = ", ".join(f"{c.quantity} at {c.concurrency} is {c.reading}" for c in moved)
    chance = f"where chance alone shows one in 20: {named}."
    return f"{len(moved)} of {len(read)} {what} at a single concurrency show a difference, {chance}"


def _once_sentence(at: Sequence[int]) -> str:
    if not at:
        return ""
    where = ", ".join(str(n) for n in dict.fromkeys(at))
    return (
        f"At {where} in flight there is one run of each window: whether its times differ cannot be told, "
        "since any two runs of one machine differ by its drift."
    )


def order_sentence(found: Deployments, wanted: Design) -> str:
    """Whether a drift of the machine can pass for an effect of the window; nothing where no time is known."""
    began = [_began(found[w].sweep) if w in found else {} for w in wanted.windows]
    both = [(began[0][run], began[1][run]) for run in began[0] if run in began[1]]
    first = sum(one < other for one, other in both)
    if not both:
        return ""
    if 0 < first < len(both):
        return (
            f"In {first} of {len(both)} pairs of runs the smaller window was measured first, in the others "
            "the larger one: a steady drift favours neither."
        )
    earlier = wanted.windows[0] if first else wanted.windows[1]
    return (
        f"In every pair of runs the window of {earlier:,} was measured first: a drift of the endpoint looks "
        "like an effect of the window."
    )


def _began(records: Iterable[Record]) -> dict[tuple[int, int], datetime]:
    """When each run began, by concurrency and number."""
    return {
        (int(r.params["concurrency"]), int(r.params["repeat"])): datetime.fromisoformat(r.run["started_at"])
        for r in records
        if r.run.get("started_at")
    }


def missing_sentence(study: Study, found: Deployments, wanted: Design) -> str:
    """Which window has no points, and how to get them."""
    gone = [w for w in wanted.windows if not (found[w].sweep if w in found else ())]
    if not gone:
        return "Both windows were measured, at no common concurrency: nothing can be compared."
    names = " and ".join(f"{w:,}" for w in gone)
    how = (
        "measure it with this page"
        if ours(study)
        else "not observable here: the window of this endpoint is not ours to set. Deploy it so "
        "and run the page with `deployed` set to it"
    )
    return f"No point of a window of {names}: {how}."
