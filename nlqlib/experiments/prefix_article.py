"""The article's two prefix tables beside ours, and which of the twin's values it was given."""

import pandas as pd

from nlqlib.article import Claim, claims, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.knee_article import tag
from nlqlib.experiments.prefix_page import counted_rate, of
from nlqlib.experiments.prompt_variants import DIVERSE, LEADING, PARTIAL, WARM, article_rate
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records
from nlqlib.twin.calibrate import Observation
from nlqlib.twin.limits import EngineError
from nlqlib.twin.model import document, load

NOTEBOOK = "08_prefix_cache"
SECTION = "A Long Prompt Is Cheap Only When Reusable"
ROWS = {
    "shared": WARM,
    "warm": WARM,
    "partial": PARTIAL,
    "diverse": DIVERSE,
    "leading_unique": LEADING,
}
"""The article's rows by the second word of a claim's id."""
READ_OFF = ("ttft", "client_p50")
"""Of the warm row: the twin's terms outside the engine were read off these."""
SAME_SHARE = 0.001
"""Between the share of an observation's shared tokens and a printed hit rate."""


def ours(record: Record, quantity: str) -> float | None:
    """Our value of a claim's `quantity`, the last word of its id."""
    if quantity == "hit_rate":
        return counted_rate(record)
    if quantity == "client_p50":
        return record.value("e2e_latency", "p50")
    return record.value(quantity, "mean")


def fitted(study: Study, scenario: str, quantity: str) -> bool:
    """Whether the twin's document used the article's row of that `scenario` for its fit."""
    if study.target.kind != "twin":
        return False
    try:
        seen = load(study.target.declared.get("twin", "")).observations
    except EngineError:
        return False
    return any(o.fit and o.quantity == f"{quantity}_s" and _is_of(o, scenario) for o in seen)


def _is_of(seen: Observation, scenario: str) -> bool:
    if seen.load.concurrency != 1:
        return False
    if seen.load.distinct:  # its prompts come again, so they are warm
        return scenario == WARM
    rate = article_rate(scenario)
    share = seen.load.shared_tokens / seen.load.prompt_tokens
    return rate is not None and abs(share - rate) < SAME_SHARE


def how(study: Study, scenario: str, quantity: str) -> str:
    """How our value came about, as a tag of the comparison."""
    if quantity == "hit_rate":
        return "by construction"
    if study.target.kind != "twin":
        return "measured"
    if fitted(study, scenario, quantity) or (scenario == WARM and quantity in READ_OFF):
        return "fitted"
    return tag(study, 1, "decode_s") if (scenario, quantity) == (WARM, "decode") else "predicted"


def printed() -> list[tuple[Claim, str, str]]:
    """Every number of the article's two tables with its scenario and quantity."""
    found = [c for c in claims(SECTION) if c.notebook == NOTEBOOK]
    parts = [(c, c.id.split(".")) for c in found]
    return [(c, ROWS[p[1]], p[2]) for c, p in parts]


def against_article(records: Records, study: Study) -> pd.DataFrame:
    """Every number of the article's two tables beside ours."""
    judged = []
    for about, scenario, quantity in printed():
        record = of(records, scenario)
        value = ours(record, quantity) if record else None
        judged.append(verdict(about, value, None, how(study, scenario, quantity), study.target.name))
    return comparison_table(judged, target=study.target.name)


def article_sentence(records: Records, study: Study) -> str:
    """How many rows that were not fitted agree, and what a verdict on the twin means."""
    table = against_article(records, study)
    free = table[
        table["tag"].isin(["predicted", "measured"]) & table["verdict"].isin(["reproduced", "differs"])
    ]
    if free.empty:
        return "No number of the article's tables can be compared with this target."
    off = ", ".join(free.loc[free["verdict"] == "differs", "claim"])
    text = f"{(free['verdict'] == 'reproduced').sum()} of {len(free)} comparable numbers are reproduced" + (
        f"; {off} differ." if off else "."
    )
    if study.target.kind != "twin":
        return text
    return f"{text} {_given(study)} {_otherwise(study)}".rstrip()


def _given(study: Study) -> str:
    """What of the tables the twin was given, and so confirms nothing."""
    given = [name for name in (WARM, PARTIAL, DIVERSE, LEADING) if fitted(study, name, "prefill")]
    return (
        f"They are predictions: of these tables the twin's fit used prefill of {' and '.join(given)}, "
        "its terms outside the engine were read off the warm row, and hit rates are made to be the article's."
        " A partially shared prompt differs from a warm one by a question: that row could hardly come out "
        "otherwise."
    )


OTHER_MIX = "prefill, leading-unique"
"""The twin's own prediction of that row, from prompts that all share the same part."""


def _otherwise(study: Study) -> str:
    """The same hit rate with every prompt partly shared, as the twin's document predicts it."""
    try:
        seen = document(study.target.declared.get("twin", ""))["observations"]
    except EngineError:
        return ""
    row = next((o for o in seen if o["name"] == OTHER_MIX), None)
    if row is None or row["value"] is None:
        return ""
    return (
        "How a rate comes about matters: if all leading-unique prompts shared one and the same part, "
        f"prefill would be {1e3 * row['value']:.0f} ms, {row['error']:+.1%} from the article's "
        f"{1e3 * row['low']:.0f} ms."
    )
