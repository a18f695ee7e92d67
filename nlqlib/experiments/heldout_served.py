"""What each condition took and cost, beside what it got right: raw kinds and rows, times, tokens, dollars."""

from collections.abc import Mapping

import pandas as pd

from nlqlib.analysis.stats import percentile
from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Service, load, seconds, service_cost
from nlqlib.experiments.candidates_notes import times_sentence
from nlqlib.experiments.candidates_page import told_kinds
from nlqlib.experiments.captions import captioned
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.conditions import CONDITIONS
from nlqlib.experiments.heldout import Found, forced, report, rows
from nlqlib.experiments.heldout_article import share_named
from nlqlib.experiments.heldout_detail import Folded
from nlqlib.experiments.heldout_page import indexed, with_standing
from nlqlib.experiments.study import Study
from nlqlib.records import Json


def served_table(found: Found, study: Study) -> pd.DataFrame:
    """Every forced condition that asks a model, on each set, by what its answers took and cost.

    Times are seconds of all requests of a question, tokens those of all its answers, cost is in dollars.
    """
    here = service_here()
    table = {
        (source, name): _served(record, here, study)
        for source, by_condition in found.items()
        for name, record in _asking(by_condition).items()
    }
    return indexed(table, "set", "condition")


def service_here() -> Service:
    """The notebook's own target as it is priced among the candidates."""
    return next(c.service for c in load() if c.service.here)


def _asking(by_condition: Mapping[str, Record]) -> dict[str, Record]:
    return {name: record for name, record in forced(by_condition).items() if CONDITIONS[name].asks}


def _served(record: Record, here: Service, study: Study) -> Json:
    told = report(record)
    spent, cost = seconds(rows(record)), service_cost(here, record, study.target.name)
    return {
        "raw kind": shown(share_named(told["raw"], "kind accuracy")),
        "raw execution": shown(share_named(told["raw"], "execution accuracy")),
        "recall over fixable": shown(told["interventions"]["fixable_recall"]),
        "p50 (s)": _number(percentile(spent, 50)),
        "p95 (s)": _number(percentile(spent, 95)),
        "output tokens": _number(told["serving"]["output_tokens"]["mean"], ".0f"),
        "cut answers": told["serving"]["finish_reason length"],
        "USD per 1,000": _number(cost.value),
    }


def _number(value: float | None, form: str = ".3g") -> str:
    return "n/a" if value is None else f"{value:{form}}"


def served_sentence(found: Found, study: Study) -> str:
    """At which operating point times and cost hold, and what they are not."""
    here = service_here()
    bases = dict.fromkeys(
        service_cost(here, record, study.target.name).basis
        for by_condition in found.values()
        for record in _asking(by_condition).values()
    )
    return (
        f"Cost: {'; '.join(bases) or 'no condition asked a model'}. Conditions with one prompt were asked "
        "once and share its answers, so they share times, tokens and cost. Fixable are raw answers with no "
        f"error out of the correction's reach. {times_sentence(found)}"
    ).rstrip()


def served(found: Found, study: Study) -> Folded:
    """`served_table` under its caption, folded where it is long."""
    frame = served_table(found, study)
    reading = with_standing(frame, served_sentence(found, study))
    return Folded(captioned(frame, study, "What each condition took and cost", reading, told_kinds(study)))
