"""The article's guardrail: one way, lexical. A ranking without a ranking cue in the question is a breakdown.

Kept as it is known to behave: it looks for words and not for their meaning, so `top-line revenue` holds it
back and `regions leading in revenue` does not. The refined one is `cues`.
"""

import re

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.decision import GuardDecision
from nlqlib.nlq.intent import Intent

CUE = re.compile(
    r"\b(top|bottom|best|worst|most|least|fewest|highest|lowest|biggest|largest|greatest|smallest|strongest"
    r"|weakest|rank(?:s|ed|ing|ings)?|first|last)\b(?!\s+(?:day|week|month|quarter|year|\d+\s+\w+)s?\b)",
    re.IGNORECASE,
)
"""Words of ranking; `last` and `first` of a period are none."""
RULE = "no ranking cue"


def correct(
    question: str, raw: Intent | None, catalog: Catalog
) -> tuple[Intent | None, tuple[GuardDecision, ...]]:
    """`raw`, as a breakdown without order and limit where it ranks and `question` has no word of ranking."""
    if raw is None or raw.query_type != "top_n_by_metric":
        return raw, ()
    cue = CUE.search(question)
    if cue:
        return raw, (GuardDecision(RULE, (cue.span(),), raw.query_type, raw.query_type, "kept"),)
    final = raw.model_copy(update={"query_type": "breakdown", "sort": None, "limit": None})
    return final, (GuardDecision(RULE, (), raw.query_type, final.query_type, "changed"),)
