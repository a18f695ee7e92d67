"""What a correction did to an intent, and why: one frozen record a person can read."""

from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["changed", "kept", "abstained"]


@dataclass(frozen=True)
class GuardDecision:
    """One decision of a correction. `before` and `after` are wire values of what `rule` looked at."""

    rule: str
    """The rule that decided; for a slot of an intent, the name of the slot."""
    spans: tuple[tuple[int, int], ...]
    """Stretches of the question (start, end in characters) that the rule rests on."""
    before: Any
    after: Any
    action: Action

    def words(self, question: str) -> tuple[str, ...]:
        """The words of `question` that the rule rests on."""
        return tuple(question[start:end] for start, end in self.spans)
