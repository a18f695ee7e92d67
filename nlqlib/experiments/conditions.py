"""The conditions an evaluation compares: which prompt, which output contract, which correction.

Knows how a question is asked and nothing of how an answer is corrected: what only sends questions does
not depend on the rules.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nlqlib.experiments.questions import Question
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.planner import kind_request
from nlqlib.nlq.prompt import build_messages
from nlqlib.records import ChatRequest, Json

MAX_TOKENS = 256


@dataclass(frozen=True)
class Condition:
    """How a question is asked, and what is made of the answer."""

    name: str
    prompt: str
    """`baseline`, `contrastive`, or `planner` for its two short prompts; empty where no model is asked."""
    contract: str
    correction: str = "none"

    @property
    def asks(self) -> bool:
        """Is a model asked at all?"""
        return bool(self.prompt)

    @property
    def planned(self) -> bool:
        """Is the question asked in the planner's steps?"""
        return self.prompt == "planner"

    def params(self) -> Json:
        """What decides a retained evaluation; without a correction the same as before there were any."""
        told = asdict(self)
        return told if self.correction != "none" else {k: v for k, v in told.items() if k != "correction"}


def _asking(name: str, prompt: str, correction: str) -> Condition:
    return Condition(name, prompt, "structured_outputs", correction)


CONDITIONS = {
    c.name: c
    for c in (
        _asking("baseline", "baseline", "none"),
        _asking("contrastive", "contrastive", "none"),
        _asking("guardrail", "baseline", "guardrail"),
        _asking("contrastive_guardrail", "contrastive", "guardrail"),
        _asking("cues", "baseline", "cues"),
        _asking("contrastive_cues", "contrastive", "cues"),
        _asking("planner", "planner", "planner"),
        _asking("clarifier", "planner", "clarifier"),
        Condition("rules_only", "", "none", "rules_only"),
        Condition("majority", "", "none", "majority"),
    )
}
ASKINGS = {
    "baseline": CONDITIONS["baseline"],
    "contrastive": CONDITIONS["contrastive"],
    "planner": CONDITIONS["planner"],
}
"""The different ways to ask: recordings of these serve every condition."""


def condition(name: str) -> Condition:
    """The condition called `name`. Raises `QuestionError`."""
    if name not in CONDITIONS:
        raise QuestionError(f"unknown condition {name!r}: there are {', '.join(CONDITIONS)}")
    return CONDITIONS[name]


def conditions(names: str) -> list[Condition]:
    """The conditions in a list such as `baseline,cues`, or all of them. Raises `QuestionError`."""
    asked = list(CONDITIONS) if names == "all" else [n.strip() for n in names.split(",") if n.strip()]
    if not asked:
        raise QuestionError(f"no condition was named: there are {', '.join(CONDITIONS)}")
    return [condition(name) for name in dict.fromkeys(asked)]


def requests(questions: Sequence[Question], how: Condition, catalog: Catalog) -> list[ChatRequest]:
    """The first request for each question, as `how` asks it; none where no model is asked."""
    if not how.asks:
        return []
    if how.planned:
        return [kind_request(q.question, catalog, how.contract, q.id) for q in questions]
    contract = contracts(catalog)[how.contract]
    return [
        ChatRequest(
            q.id, tuple(build_messages(q.question, catalog, how.prompt)), MAX_TOKENS, contract=contract
        )
        for q in questions
    ]


def requests_per_question(how: Condition) -> int:
    """How many requests one question takes."""
    return (2 if how.planned else 1) if how.asks else 0
