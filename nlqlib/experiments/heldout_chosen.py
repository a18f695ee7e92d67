"""The condition that was chosen on development questions, read on every set, against the gates."""

from collections.abc import Mapping

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.heldout import Found, best, correctness, leading, report
from nlqlib.experiments.heldout_page import percent
from nlqlib.experiments.heldout_sets import CHOSEN_ON, GATES, PRECISION_GATE, counted, counts_as
from nlqlib.records import Json


def best_table(found: Found) -> pd.DataFrame:
    """Each set under the condition chosen on `dev`, and the highest of that set, against the gates."""
    chosen = best(found)
    table = {
        source: {"counts as": counts_as(source), **_gate(source, by_condition, chosen)}
        for source, by_condition in found.items()
    }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("set")


def _gate(source: str, by_condition: Mapping[str, Record], chosen: str | None) -> Json:
    highest = leading([by_condition])
    if chosen is None or chosen not in by_condition:
        return {"chosen on dev": "none was answered", "highest here": highest or "none"}
    told = report(by_condition[chosen])
    did, right = told["interventions"], correctness(by_condition[chosen])
    return {
        "chosen on dev": chosen,
        "final strict": shown(told["forced strict accuracy"]),
        "harm": shown(did["harm"]),
        "precision": shown(did["precision"]),
        "gate": _gate_text(source, right.value, did["precision"]["value"], did["harm"]["k"]),
        "highest here": f"{highest} {percent(correctness(by_condition[highest]))}" if highest else "none",
    }


def _gate_text(source: str, right: float | None, precision: float | None, harmed: int) -> str:
    """What is asked of a set, and what of it is missed."""
    wanted = GATES.get(source)
    if wanted is None or right is None:
        return "none: chosen on it" if source in CHOSEN_ON else "none" if wanted is None else "not measured"
    missed = [f"final below {wanted:.0%}"] if right < wanted else []
    missed += [f"precision below {PRECISION_GATE:.0%}"] if (precision or 0.0) < PRECISION_GATE else []
    missed += [f"{harmed} harmed"] if harmed and source == "holdout" else []
    return f"final ≥ {wanted:.0%}, precision ≥ {PRECISION_GATE:.0%}: {'; '.join(missed) or 'met'}"


def best_sentence(found: Found) -> str:
    """The forced best condition in one sentence."""
    chosen = best(found)
    if chosen is None:
        return "No question was answered of the sets to choose on, so no condition can be chosen."
    parts = [
        f"{percent(correctness(by[chosen]))} on {counted(source)}"
        for source, by in found.items()
        if chosen in by
    ]
    alone = [
        f"{percent(correctness(by['rules_only']))} on {source}"
        for source, by in found.items()
        if "rules_only" in by
    ]
    return (
        f"Chosen on {', '.join(sorted(CHOSEN_ON))}, of those that answer without asking back: **{chosen}**, "
        f"with {', '.join(parts)}. The rules alone, with no model at all: "
        f"{', '.join(alone) or 'not evaluated'}."
    )
