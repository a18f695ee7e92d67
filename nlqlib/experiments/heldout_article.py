"""The article's rows on held-out meaning beside ours: other questions, another model, the same quantities."""

from collections.abc import Mapping, Sequence

import pandas as pd

from nlqlib import article
from nlqlib.analysis.evaluation import share
from nlqlib.artifacts import Record
from nlqlib.experiments.heldout import Found, correctness, in_pairs, kinds, report
from nlqlib.experiments.study import Study
from nlqlib.records import Json

CLAIMED = ("baseline", "contrastive", "contrastive_guardrail", "guardrail")
"""Our names of the article's four conditions, in its order."""
ARTICLE = {"guardrail": "baseline_guardrail"}
"""The article's name of a condition, where it is not ours."""
GUARDED = ("contrastive_guardrail", "guardrail")

Pair = tuple[str, float | None]


def printed_final(source: str, name: str) -> float | None:
    """The article's final accuracy of the condition `name`, where the set `source` stands for its holdout."""
    if source != "holdout" or name not in CLAIMED:
        return None
    return article.claim(f"holdout.final.{ARTICLE.get(name, name)}").value


def article_sentence() -> str:
    """What the article says of its guardrail, in its own numbers."""
    raw, final = (article.claim(f"holdout.{when}.contrastive_guardrail") for when in ("raw", "final"))
    precise = article.claim("adversarial.precision")
    return (
        f"The article's guardrail takes its {raw.condition['n']} held-out questions from {raw.shown} to "
        f"{final.shown}; on adversarial phrasing {precise.shown} of its interventions are right."
    )


def share_named(shares: Sequence[Json], name: str) -> Json:
    """The share called `name` of a report's list."""
    return next(one for one in shares if one["name"] == name)


def against_article(found: Found, study: Study) -> pd.DataFrame:
    """Every claim of the article about its two sets, judged with ours."""
    holdout = found.get("holdout", {})
    pairs = [pair for name in CLAIMED for pair in _condition(holdout.get(name), name)]
    pairs += [*_derived(holdout), *_adversarial(found.get("adversarial", {})), *_set_counts(holdout)]
    return article.comparison_table(pairs, target=study.target.name, tag=study.target.tag)


def _condition(record: Record | None, name: str) -> list[Pair]:
    """The four columns of the article's table for one condition; no precision where it had none."""
    columns = ("raw", "final", "interventions", *(["precision"] if name in GUARDED else []))
    told = dict.fromkeys(columns) if record is None else _columns(record)
    return [(f"holdout.{column}.{ARTICLE.get(name, name)}", told[column]) for column in columns]


def _columns(record: Record) -> dict[str, float | None]:
    told = report(record)
    did = told["interventions"]
    return {
        "raw": share_named(told["raw"], "strict accuracy")["value"],
        "final": correctness(record).value,
        "interventions": did["interventions"] if did["answered"] else None,
        "precision": did["precision"]["value"],
    }


def _derived(holdout: Mapping[str, Record]) -> list[Pair]:

    names = ("contrastive", "baseline")
    taught, plain = (_columns(holdout[n])["raw"] if n in holdout else None for n in names)
    gain = None if taught is None or plain is None else taught - plain
    guarded = holdout.get("contrastive_guardrail")
    found = report(guarded)["interventions"]["categories"].get("false ranking") if guarded else None
    majority = report(holdout["baseline"])["majority class"]["value"] if "baseline" in holdout else None
    return [
        ("holdout.contrast_gain", gain),
        ("holdout.false_ranking.cases", found["n"] if found else None),
        ("holdout.false_ranking.corrected", found["k"] if found else None),
        ("holdout.false_ranking.recall", found["value"] if found else None),
        ("holdout.majority", majority),
    ]


def _adversarial(found: Mapping[str, Record]) -> list[Pair]:
    """Precision of the two guarded conditions together, as the article gives one number for both."""
    did = [report(found[name])["interventions"]["precision"] for name in GUARDED if name in found]
    both = share("both", sum(d["k"] for d in did), sum(d["n"] for d in did))
    return [("adversarial.precision", both.value)]


def _set_counts(holdout: Mapping[str, Record]) -> list[Pair]:
    if not holdout:
        return []
    asked, paired_up = kinds("holdout"), in_pairs("holdout")
    total = sum(asked.values())
    return [
        ("holdout.set.contrast_pair", paired_up),
        ("holdout.set.naturalistic", total - paired_up),
        ("holdout.set.breakdown", asked.get("breakdown", 0)),
        ("holdout.set.top_n", asked.get("top_n_by_metric", 0)),
        ("holdout.set.time_series", asked.get("time_series", 0)),
    ]
