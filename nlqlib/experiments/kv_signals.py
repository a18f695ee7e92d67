"""Which explanations the signals of a run reject, what the GPU says, and the article beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nlqlib.analysis.window import IN_FLIGHT
from nlqlib.article import Verdict, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.knee_article import tag
from nlqlib.experiments.kv_page import arm_name, foretold
from nlqlib.experiments.kv_pressure import ARTICLE_CONCURRENCY
from nlqlib.experiments.propagation_gauges import lags
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, told

FULL = 0.90
"""Share of the blocks in use from which the cache counts as nearly full; vLLM preempts at 100 %."""
LITTLE = 0.05
"""Share of the requests, of their time or of their prompts' tokens below which a signal says nothing."""


@dataclass(frozen=True)
class Explanation:
    """A reason why an endpoint might be slow, and the signal that would show it."""

    claim: str
    signal: str
    seen: Callable[[Record], str]
    """The signal of an arm, in words."""
    shows: Callable[[Record], bool | None]
    """Whether it speaks for the explanation; `None`: it is missing."""
    silent: str = ""
    """What is true of a run in which it does not."""


def share(record: Record, *metrics: str) -> float | None:
    """Mean of the sum of `metrics` over the requests in flight."""
    values = [record.value(m, "mean") for m in metrics]
    known = [v for v in values if v is not None]
    return sum(known) / float(record.params["concurrency"]) if len(known) == len(values) else None


def queue_share(record: Record) -> float | None:
    """The engine's queue over the engine's E2E."""
    queue, whole = record.value("queue", "mean"), record.value("engine_e2e", "mean")
    return queue / whole if queue is not None and whole else None


def computed_again(record: Record) -> float | None:
    """Share of the prompts' tokens that no cached block held."""
    rate = record.value("hit_rate", "mean")
    return None if rate is None else 1 - rate


def waits_for_room(record: Record) -> bool | None:
    """Waiting says that blocks are short only while there are none left."""
    waiting, used = share(record, "waiting"), record.value("kv_usage", "max")
    return None if waiting is None or used is None else waiting > LITTLE and used >= FULL


def together(record: Record) -> float | None:
    """The most requests that the engine was seen to know of at one time, running and waiting together."""
    told_at_once = [r.value for r in record.validity if r.rule == IN_FLIGHT]
    means = [record.value(name, "mean") for name in ("running", "waiting")]
    seen = [*told_at_once, record.value("running", "max"), record.value("waiting", "max"), _sum(means)]
    return max((v for v in seen if isinstance(v, int | float)), default=None)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def apart(record: Record) -> float | None:
    """Share of the requests in flight that the engine did not know of even at its fullest moment.

    A mean over time would not do: gauges lag behind long steps.
    """
    most = together(record)
    return None if most is None else max(0.0, 1 - most / float(record.params["concurrency"]))


def stay_apart(record: Record) -> bool | None:
    """Whether requests never were in the engine together; `None` too where gauges may hide that they were."""
    found = beyond(apart(record), LITTLE)
    return None if found and lags(record) else found


def _apart_in_words(record: Record) -> str:
    most = together(record)
    aside = "" if most is None else f" ({most:.0f} of {record.params['concurrency']} at once)"
    return f"{told(apart(record), '.1%')}{aside}"


def beyond(value: float | None, bound: float) -> bool | None:
    """Whether `value` exceeds `bound`; `None` where it is missing."""
    return None if value is None else value > bound


def full(record: Record) -> bool | None:
    """Whether usage ever came near the top."""
    used = record.value("kv_usage", "max")
    return None if used is None else used >= FULL


EXPLANATIONS = (
    Explanation(
        "KV blocks run out and requests are thrown out",
        "preemptions",
        lambda r: told(r.value("preemptions", "count"), ".0f"),
        lambda r: beyond(r.value("preemptions", "count"), 0),
        "nothing was preempted",
    ),
    Explanation(
        "the KV cache is nearly full",
        f"largest KV usage, from {FULL:.0%} on",
        lambda r: told(r.value("kv_usage", "max"), ".1%"),
        full,
        "the cache was never nearly full",
    ),
    Explanation(
        "requests wait for room in the KV cache",
        f"waiting, mean, above {LITTLE:.0%} of those in flight while the cache is nearly full",
        lambda r: told(r.value("waiting", "mean"), ".2f"),
        waits_for_room,
        "nothing waited for room",
    ),
    Explanation(
        "time is lost in the engine's queue, for whatever reason",
        f"queue / engine E2E, above {LITTLE:.0%}",
        lambda r: told(queue_share(r), ".1%"),
        lambda r: beyond(queue_share(r), LITTLE),
    ),
    Explanation(
        "prompts are computed again, because their blocks are evicted or never shared",
        f"1 − hit rate, above {LITTLE:.0%}",
        lambda r: told(computed_again(r), ".1%"),
        lambda r: beyond(computed_again(r), LITTLE),
    ),
    Explanation(
        "requests do not reach the engine together",
        f"in flight but neither running nor waiting at the fullest moment, above {LITTLE:.0%}",
        _apart_in_words,
        stay_apart,
    ),
)
PRESSURE = EXPLANATIONS[:3]
"""What KV pressure itself would show."""
UNSEEN = "cannot tell: signal missing or late"


def signals_table(record: Record, control: Record | None = None) -> pd.DataFrame:
    """Each explanation, its signal, what was seen and whether that rejects it; `control`: under pressure."""
    rows = {
        e.claim: {
            "signal that would show it": e.signal,
            arm_name(record): e.seen(record),
            "explanation": judged(e, record),
            **(
                {
                    f"control: {arm_name(control)}": e.seen(control),
                    "explanation of the control": judged(e, control),
                }
                if control
                else {}
            ),
        }
        for e in EXPLANATIONS
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("explanation of a slow endpoint")


def judged(e: Explanation, record: Record) -> str:
    """`rejected`, `NOT rejected`, or that it cannot be told."""
    return {True: "NOT rejected", False: "rejected", None: UNSEEN}[e.shows(record)]


def signals_sentence(record: Record, control: Record | None = None) -> str:
    """Whether KV pressure is ruled out, and whether the same signals see it where it is."""
    text = _pressure(record)
    if control is None:
        return text
    found = sum(judged(e, control) == "NOT rejected" for e in PRESSURE)
    return f"{text} The control with too few blocks shows {found} of the {len(PRESSURE)} signals of pressure."


def _pressure(record: Record) -> str:
    """What the signals of pressure say, each of them: one that is unseen rejects nothing."""
    shown = {e: e.shows(record) for e in PRESSURE}
    speaking = [e.claim for e, speaks in shown.items() if speaks]
    silent = [e.silent for e, speaks in shown.items() if speaks is False]
    unseen = [f"whether {e.claim}" for e, speaks in shown.items() if speaks is None]
    if speaking:
        return f"KV pressure is not ruled out: signals say that {' and that '.join(speaking)}."
    if not silent:
        return "Whether the KV cache is under pressure cannot be told: none of its signals is visible here."
    if not unseen:
        return f"KV pressure is ruled out: {_listed(silent)}."
    return (
        f"KV pressure does not show, but is partly unseen: {_listed(silent)}; not told is {_listed(unseen)}."
    )


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def gpu_table(records: Records) -> pd.DataFrame:
    """Utilisation, memory and power of the GPUs through each run, or why there is none."""
    rows = {}
    for r in records:
        memory, problem = r.value("gpu_memory", "max"), r.results["gpu_problem"]
        rows[arm_name(r)] = {
            "GPU utilisation": told(r.value("gpu_utilisation", "mean"), ".1%"),
            "GPU memory in use (GB)": told(None if memory is None else memory / 1e9, ".1f"),
            "power (W)": told(r.value("gpu_power", "mean"), ".0f"),
            "engine's estimate: FLOPs": told(r.value("estimated_flops", "sum"), ".3g"),
            "engine's estimate: bytes read": told(r.value("estimated_read", "sum"), ".3g"),
            "missing, because": problem or "",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def headline(records: Records) -> Record:
    """The arm of the article's concurrency, or the largest there is."""
    by_n: Mapping[int, Record] = {int(r.params["concurrency"]): r for r in records}
    return by_n.get(ARTICLE_CONCURRENCY) or by_n[max(by_n)]


def against_article(records: Records, study: Study) -> pd.DataFrame:
    """The article's scrape under 28 in flight: usage by arithmetic and as sampled, hit rate, GPU."""
    at = next((r for r in records if r.params["concurrency"] == ARTICLE_CONCURRENCY), None)
    found, how = foretold(), tag(study, ARTICLE_CONCURRENCY, "kv_usage")
    rows: list[Verdict] = [
        verdict("kv.usage", found.usage, (found.low, found.high), "predicted"),
        _row("kv.usage", at, "kv_usage", "mean", how, study),
        _row("kv.hit_rate", at, "hit_rate", "mean", how, study),
        _row("kv.gpu_utilization", at, "gpu_utilisation", "mean", "measured", study),
        _row("kv.gpu_memory", at, "gpu_memory", "max", "measured", study, 1e-9),
    ]
    table = comparison_table(rows)
    table.insert(1, "of", ["arithmetic, unfitted", *["sampled through the run"] * 4])
    return table


def _row(
    claim: str, record: Record | None, metric: str, stat: str, how: str, study: Study, scale: float = 1.0
) -> Verdict:
    value = record.value(metric, stat) if record else None
    return verdict(claim, None if value is None else scale * value, None, how, study.target.name)
