"""How the page on latency decomposition shows its two closures: by timers alone, and with the intake.

The intake is TTFT less queue and prefill, so that a sum which holds it cannot miss for queue or prefill: the
two closures test different things, and each says which. From records alone.
"""

from collections.abc import Sequence

import pandas as pd

from nlqlib.analysis.decomposition import CLOSES, CLOSURE, INTAKE, PREFILL, REPLICA, ROUTER, timed_closure
from nlqlib.artifacts import Record
from nlqlib.experiments.decomposition_page import RESIDUAL, ms, name, terms, total_s
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, told
from nlqlib.records import Rule

WORDS = {True: "yes", False: "NO", None: "cannot tell"}


def by_difference(record: Record) -> Rule:
    """The closure of an arm with the intake in its sum, as it was retained."""
    return next(r for r in record.validity if r.rule.startswith(f"{CLOSES} /"))


def by_timers(record: Record) -> Rule:
    """The closure of an arm by its timed terms alone."""
    return timed_closure(record.results["terms"]["parts"], total_s(record))


def outside_s(record: Record) -> float | None:
    """Client E2E less the engine's own and the admission queues that were seen; unseen ones are in it."""
    whole, engine, found = total_s(record), record.value("engine_e2e", "mean"), terms(record)
    if whole is None or engine is None:
        return None
    return whole - engine - sum(found.get(layer) or 0.0 for layer in (ROUTER, REPLICA))


def closure_table(records: Records) -> pd.DataFrame:
    """Both sums against client E2E, and where the time is that no timer holds, arm by arm."""
    return pd.DataFrame.from_dict({name(r): _row(r) for r in records}, orient="index").rename_axis("arm")


def _row(record: Record) -> dict[str, str]:
    found, whole = terms(record), total_s(record)
    timed, every, outside = by_timers(record), by_difference(record), outside_s(record)
    known = [v for t, v in found.items() if t not in (RESIDUAL, INTAKE) and v is not None]
    return {
        "client E2E (ms)": ms(whole),
        "timed terms (ms)": ms(sum(known) if known else None),
        "timed / E2E": _share(timed),
        "closes by timers": WORDS[timed.ok],
        "in no timer: intake, by difference (ms)": ms(found.get(INTAKE)),
        "with it / E2E": _share(every),
        "closes with it": WORDS[every.ok],
        "bounds": str(timed.threshold),
        "residual (ms)": ms(found[RESIDUAL]),
        "outside the engine (ms)": ms(outside),
    }


def _share(rule: Rule) -> str:
    return told(_value(rule), ".3f")


def _value(rule: Rule) -> float | None:
    return rule.value if isinstance(rule.value, float) else None


def closure_sentence(records: Records, study: Study) -> str:
    """Whether every arm closes either way, what each way tests, and what is in no timer where one misses."""
    timed, every = [by_timers(r) for r in records], [by_difference(r) for r in records]
    if all(_value(rule) is None for rule in timed):
        return "The engine shows no timers: nothing can be closed, and the whole latency is residual."
    text = (
        f"By timers alone {_counted(timed)}. {_missed(records)}With the intake by difference "
        f"{_counted(every)}; in that sum queue and prefill cancel, so it shows how little is lost outside "
        "the engine, and nothing of how its phases part."
    )
    if study.target.kind != "twin":
        return text
    return f"{text} The twin's residual is set by its document (network and frontend): given, not found."


def _counted(rules: Sequence[Rule]) -> str:
    """How many close, how many cannot be told, and the range of the sums."""
    verdicts, shares = [r.ok for r in rules], [v for r in rules if (v := _value(r)) is not None]
    text = f"{verdicts.count(True)} of {len(rules)} arms close within {CLOSURE:.0%}"
    if None in verdicts:
        text += f", {verdicts.count(None)} cannot be told, because a term that was not seen may hold the rest"
    return f"{text} ({min(shares):.1%} to {max(shares):.1%} of what the client waits)" if shares else text


def _missed(records: Records) -> str:
    """What is in no timer of the arms that do not close by timers; empty where all do."""
    open_arms = [r for r in records if by_timers(r).ok is False]
    known = [(r, s) for r in open_arms if (s := terms(r).get(INTAKE)) is not None]
    if not open_arms:
        return ""
    arms = ", ".join(f"{name(r)} {told(_value(by_timers(r)), '.1%')}" for r in open_arms)
    if not known:
        return f"Those that do not ({arms}) say nothing of where the rest is. "
    most, intake = max(known, key=lambda pair: pair[1])
    whole = total_s(most)
    share = f", {intake / whole:.0%} of its latency" if whole else ""
    return (
        f"What those that do not ({arms}) miss is in no timer: up to {ms(intake, ',.0f')} ms ({name(most)}"
        f"{share}) lie between arrival at the engine's frontend and the moment its scheduler hears of the "
        f"request, the rest of the step that ran then{_step(records)}. "
    )


def _step(records: Records) -> str:
    """How long a step with one prompt takes, for comparison; empty where it was not seen."""
    alone = next((r for r in records if int(r.params["concurrency"]) == 1), None)
    prefill = terms(alone).get(PREFILL) if alone else None
    return (
        "" if prefill is None else f" (one that computes a single prompt takes {ms(prefill, ',.0f')} ms here)"
    )
