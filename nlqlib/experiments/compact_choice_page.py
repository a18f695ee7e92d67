"""How the page on output tokens says which form to use: what is weighed, and what it may cost."""

from collections.abc import Sequence

import pandas as pd

from nlqlib.analysis.compact_choice import MARGIN, Candidate, Choice, choose
from nlqlib.analysis.compactness import MEANING, Pair, Shift, meaning, shifts
from nlqlib.analysis.evaluation import Judged, answered
from nlqlib.experiments.compact_effects_page import paired
from nlqlib.experiments.compact_meaning_page import Sets
from nlqlib.experiments.compact_page import told
from nlqlib.experiments.output_contracts import FORMS, PRETTY
from nlqlib.experiments.semantics import judged_rows
from nlqlib.experiments.study import Study


def recommendation(found: Sets) -> Choice:
    """The form to use, over all sets together."""
    everywhere = set.intersection(*(set(records) for records in found.values()))
    names = [name for name in next(iter(found.values())) if name in everywhere - {PRETTY.name}]
    rows = {name: _over(found, name) for name in (PRETTY.name, *names)}
    told_of = shifts(rows[PRETTY.name], {name: rows[name] for name in names})
    effects_of = [paired(records) for records in found.values()]
    others = [
        _candidate(name, rows[name], [p for both in effects_of for p in both[name]], told_of[name])
        for name in names
    ]
    return choose(_candidate(PRETTY.name, rows[PRETTY.name], [], []), others)


def _over(found: Sets, name: str) -> list[Judged]:
    """The judgements of one form, over all sets."""
    return [row for records in found.values() for row in judged_rows(records[name])]


def _candidate(
    name: str, rows: Sequence[Judged], both: Sequence[Pair], told_of: Sequence[Shift]
) -> Candidate:
    right = meaning(rows)[MEANING[0]].k
    counts = [row.output_tokens for row in answered(rows)]
    known = [n for n in counts if n is not None]
    return Candidate(name, both, told_of, right, len(rows), sum(known) if len(known) == len(counts) else None)


def rule_sentence(margin: float = MARGIN) -> str:
    """The rule of the choice, in words."""
    return (
        "Out is what cannot be relied on (not always compact, cut, failed), and what may cost too much: a "
        f"form whose 95 % interval does not exclude a loss of {MEANING[0]} of more than {margin:.0%} of the "
        "questions. Of the rest, the form with the fewest output tokens for each strictly right answer."
    )


def choice_table(choice: Choice) -> pd.DataFrame:
    """What was weighed for each form."""
    rows = {
        name: {
            "strictly right": f"{one.candidate.right} of {one.candidate.answers}",
            "tokens of an answer": told(one.candidate.tokens_each, ".1f"),
            "tokens for each right answer": told(one.candidate.tokens_per_right, ".0f"),
            "loss not excluded": told(one.risk, ".0%"),
            "against it": "—" if name == PRETTY.name else "; ".join(one.against) or "nothing",
            "chosen": "yes" if name == choice.chosen and choice.verdict == "use" else "",
        }
        for name, one in choice.weighed.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("form")


def choice_sentence(choice: Choice, study: Study) -> str:
    """The recommendation, with what it saves and what it may cost."""
    if choice.verdict == "cannot tell":
        return _untold(choice.weighed[PRETTY.name].candidate)
    if choice.verdict == "use":
        return _used(choice, study)
    lost = [name for name, one in choice.weighed.items() if one.lost]
    shown = f" Shown to lose {MEANING[0]}: {', '.join(lost)}." if lost else ""
    if choice.hopeful is not None:
        return f"{_not_proven(choice, choice.hopeful, study)}{shown}"
    return (
        "**Keep the pretty form**: no compact form that can be relied on and is not shown to lose meaning "
        f"takes fewer tokens for each strictly right answer.{shown}"
    )


def _untold(pretty: Candidate) -> str:
    if pretty.right:
        return "**Cannot tell**: the endpoint does not say how many tokens every answer took."
    return (
        "**Cannot tell**: no answer in the pretty form is strictly right here, so no form can be seen to "
        "lose anything, and no price can be set against the tokens saved."
    )


def _used(choice: Choice, study: Study) -> str:
    chosen = choice.weighed[choice.chosen]
    return (
        f"**Use {choice.chosen}** ({FORMS[choice.chosen].says}): {told(choice.saved, '.0%')} fewer output "
        f"tokens for each strictly right answer than the pretty form, on target {study.target.name}. Its "
        f"strict accuracy may be lower by {told(chosen.risk, '.0%')} of all questions at most (95 %), within "
        f"the margin of {choice.margin:.0%}: repeat this page on your own questions before you rely on it."
    )


def _not_proven(choice: Choice, name: str, study: Study) -> str:
    first, now = (choice.weighed[one].candidate for one in (PRETTY.name, name))
    return (
        f"**Keep the pretty form until more questions are asked**: {name} ({FORMS[name].says}) takes "
        f"{told(now.tokens_each, '.0f')} tokens for an answer where the pretty form takes "
        f"{told(first.tokens_each, '.0f')}, on target {study.target.name}; but by {now.answers} questions "
        f"its price may be up to {told(choice.weighed[name].risk, '.0%')} of them answered wrongly that were "
        f"right, and {choice.margin:.0%} is the margin."
    )
