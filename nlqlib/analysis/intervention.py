"""What a correction did to the answers of a model: when it fired, whom it helped, whom it harmed.

Pure functions on one small row per answered question. Questions whose request failed are no rows. A share of
nothing has no value (`n/a`): a correction that never fired has no precision, not a perfect one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nlqlib.analysis.evaluation import Share, share

FALSE_RANKING = "false ranking"
"""The article's main error: a ranking where a breakdown was asked for."""
CATEGORIES = (
    FALSE_RANKING,
    "kind",
    "metric",
    "dimension",
    "filter",
    "period",
    "grain",
    "sort",
    "limit",
    "unit",
    "invalid",
)
"""Error categories in the order of a report; an answer may fall into several."""


@dataclass(frozen=True)
class Change:
    """One answered question before and after a correction."""

    question_id: str
    raw_right: bool
    """The model's own answer is strictly right."""
    final_right: bool
    """What the system answered is strictly right; a refusal is not."""
    changed: bool
    """The correction made something else of the answer, or refused it."""
    raw_errors: tuple[str, ...] = ()
    """Categories of the model's answer, () where it is right."""
    final_errors: tuple[str, ...] = ()
    fixable: bool = False
    """The raw answer is wrong, and only in what this correction may change at all."""
    abstained: bool = False
    """The correction did not understand the whole question, and left the answer as it was."""
    refused: bool = False
    """The system gave a reason instead of rows."""
    asked: bool = False
    """The user was asked before the final answer."""
    forced_right: bool | None = None
    """What would have been answered without asking is right; `None`: the same as `final_right`."""
    executed: bool | None = None
    """The SQL of the final answer ran; `None` without a final answer."""


@dataclass(frozen=True)
class Interventions:
    """Everything that is reported of one correction on one set."""

    answered: int
    interventions: int
    precision: Share
    """Wrong → right, of all interventions."""
    harm: Share
    """Right → wrong, of the raw answers that were right."""
    recall: Share
    """Wrong → right, of the raw answers that were wrong."""
    fixable_recall: Share
    """Wrong → right, of the wrong answers that the correction could have put right."""
    wrong_to_wrong: int
    right_to_right: int
    """Changed from one accepted answer to another: no help, no harm."""
    abstained: Share
    refused: Share
    asked: Share
    categories: dict[str, Share]
    """By error category: wrong answers of which this error is gone in the end."""


def interventions(changes: Sequence[Change]) -> Interventions:
    """The report on `changes`."""
    n, fired = len(changes), [c for c in changes if c.changed]
    wrong = [c for c in changes if not c.raw_right]
    return Interventions(
        answered=n,
        interventions=len(fired),
        precision=_share("intervention precision", fired, helped),
        harm=_share("harm", [c for c in changes if c.raw_right], harmed),
        recall=_share("recall over wrong", wrong, helped),
        fixable_recall=_share("recall over fixable", [c for c in wrong if c.fixable], helped),
        wrong_to_wrong=sum(not c.raw_right and not c.final_right for c in fired),
        right_to_right=sum(c.raw_right and c.final_right for c in fired),
        abstained=_share("abstain rate", changes, lambda c: c.abstained),
        refused=_share("refusal rate", changes, lambda c: c.refused),
        asked=_share("asked", changes, lambda c: c.asked),
        categories=category_recall(changes),
    )


def helped(change: Change) -> bool:
    """Wrong → right."""
    return change.changed and not change.raw_right and change.final_right


def harmed(change: Change) -> bool:
    """Right → wrong."""
    return change.raw_right and not change.final_right


def _share(name: str, of: Sequence[Change], met: Callable[[Change], bool]) -> Share:
    return share(name, sum(map(met, of)), len(of))


def category_recall(changes: Sequence[Change]) -> dict[str, Share]:
    """For each error category that occurs, how many answers with it no longer have it in the end."""
    found = {c for change in changes for c in change.raw_errors}
    order = [*(c for c in CATEGORIES if c in found), *sorted(found - set(CATEGORIES))]
    return {c: _share(c, [x for x in changes if c in x.raw_errors], _gone(c)) for c in order}


def _gone(category: str) -> Callable[[Change], bool]:
    return lambda change: category not in change.final_errors and not change.refused


def forced(changes: Sequence[Change]) -> Share:
    """Strict accuracy of what would have been answered without asking anybody."""
    return _share("forced strict accuracy", changes, forced_right)


def forced_right(change: Change) -> bool:
    """Whether the answer given without asking is right."""
    return change.final_right if change.forced_right is None else change.forced_right


def transitions(changes: Iterable[Change]) -> dict[str, int]:
    """Counts of `wrong → right` and the other three, of all questions, changed or not."""
    words = {True: "right", False: "wrong"}
    return dict(Counter(f"{words[c.raw_right]} → {words[c.final_right]}" for c in changes))


def final_taxonomy(changes: Sequence[Change]) -> dict[str, int]:
    """Errors of the final answers, and what a correction has to do with them.

    Beside the categories: `guard harm` (right → wrong), `guard miss` (wrong, within reach, and still wrong)
    and `builder` (the right intent, whose SQL did not run).
    """
    counts = Counter(error for c in changes for error in c.final_errors)
    counts["guard harm"] = sum(map(harmed, changes))
    counts["guard miss"] = sum(c.fixable and not c.final_right for c in changes)
    counts["builder"] = sum(c.final_right and c.executed is False for c in changes)
    return {k: n for k, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n}
