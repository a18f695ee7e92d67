"""How the page on quality under load shows it: what stayed the same, where answers part, how near it was."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.analysis.stats import percentile, wilson
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import Table, captioned, kinds
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.quality_under_load_compare import Level, closest, seconds
from nlqlib.experiments.quiet import RULE
from nlqlib.experiments.study import Study
from nlqlib.records import Json

WHATS = {"same_text": "same text", "same_intent": "same intent", "same_rows": "same rows"}
CONSTRUCTED = "identical by construction: one recording is replayed at every concurrency"
PARTED = (
    "in flight",
    "question",
    "answers",
    "after",
    "alone",
    "now",
    "lead of the token (nats)",
    "same intent",
    "same rows",
)
NOISE_NATS = 0.05
"""bf16 keeps 8 bits of a logit near 20, so two sums in another order may differ by some hundredths."""


def constructed(study: Study) -> bool:
    """Can answers not differ, because they are replayed?"""
    return study.target.kind == "twin"


def _kind(study: Study) -> str:
    return CONSTRUCTED if constructed(study) else "measured"


def same_table(found: Sequence[Level], study: Study) -> Table:
    """Per level: share of questions all of whose answers are those given alone, and accuracy beside."""
    table = {_named(level): _same(level) for level in found if level.answers}
    frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("in flight")
    return captioned(
        frame, study, "Answers beside the one given alone", same_sentence(found, study), _kind(study)
    )


def _named(level: Level) -> str:
    return "1, asked again" if level.concurrency == 1 else str(level.concurrency)


def _same(level: Level) -> Json:
    told = {words: shown(vars(level.same(what))) for what, words in WHATS.items()}
    return {
        "answers": len(level.answers),
        **told,
        "strictly right": shown(vars(level.right)),
        "failed": level.failed,
        "most in flight": level.peak,
    }


def same_sentence(found: Sequence[Level], study: Study) -> str:
    """How many questions kept their intent at every level, and what that is worth on this target."""
    loaded = [level for level in found if level.concurrency > 1 and level.answers]
    if not loaded:
        return "No level with more than one request in flight was answered."
    told = "; ".join(
        f"at {level.concurrency}: text {_percent(level, 'same_text')}, "
        f"intent {_percent(level, 'same_intent')}, rows {_percent(level, 'same_rows')}"
        for level in loaded
    )
    if constructed(study):
        return f"By construction, and no confirmation: {told}."
    again = next((level for level in found if level.concurrency == 1 and level.answers), None)
    control = f" Asked alone twice: text {_percent(again, 'same_text')}." if again else ""
    return f"Same as alone, of all questions, {told}.{control}"


def _percent(level: Level, what: str) -> str:
    one = level.same(what)
    return "n/a" if one.value is None else f"{one.value:.0%}"


def bound_sentence(found: Sequence[Level]) -> str:
    """How many questions might turn although none of so few did: Wilson's bound for 0 of n."""
    asked = max((level.same("same_text").n for level in found), default=0)
    if not asked:
        return "No question was answered, so nothing bounds the share of questions that turn."
    return (
        f"{asked} questions bound the share of questions that turn only roughly: with none of them turned it "
        f"may still be {wilson(0, asked).high:.0%}."
    )


def same_figure(found: Sequence[Level], study: Study) -> Figure:
    """Share of questions with the same text, intent and rows as alone, a panel for each, a row per level."""
    rows = [
        {"in flight": _named(level), "what": words, "share": s.value, "low": s.low, "high": s.high, "n": s.n}
        for what, words in WHATS.items()
        for level in found
        if level.answers
        for s in [level.same(what)]
    ]
    frame = pd.DataFrame(rows)
    name, tag = study.target.name, study.target.tag
    return plots.share_bars(frame, by="in flight", panel="what", target=name, kind=tag)


def same_alt(found: Sequence[Level], study: Study) -> str:
    """Alternative text of `same_figure`."""
    return f"Bars with 95 % intervals, a panel for text, intent and rows. {same_sentence(found, study)}"


def partings_table(found: Sequence[Level], study: Study) -> Table:
    """Every different answer once: where it parts, the lead there, and whether the meaning changed."""
    table: dict[tuple[int, str, str], Json] = {}
    for level in found:
        for one in level.different:
            place = one.parted
            if place is None:
                continue
            key = (level.concurrency, one.question_id, place.now)
            row = table.setdefault(
                key,
                {
                    "in flight": level.concurrency,
                    "question": one.question_id,
                    "answers": 0,
                    "after": f"…{place.before}",
                    "alone": place.alone,
                    "now": place.now,
                    "lead of the token (nats)": "n/a" if place.lead is None else f"{place.lead:.3f}",
                    "same intent": "yes" if one.same_intent else "no",
                    "same rows": {True: "yes", False: "no", None: "n/a"}[one.same_rows],
                },
            )
            row["answers"] += 1
    frame = pd.DataFrame(list(table.values()), columns=list(PARTED))
    reading = partings_sentence(found, study)
    return captioned(frame, study, f"Answers that differ: {len(frame)}", reading, _kind(study))


def partings_sentence(found: Sequence[Level], study: Study) -> str:
    """How sure the model was, alone, of the tokens that turned."""
    parted = [one.parted for level in found for one in level.different if one.parted]
    if not parted:
        return "None can differ here: the answers are replayed." if constructed(study) else "None differs."
    leads = [p.lead for p in parted if p.lead is not None]
    if not leads:
        told = any(p.token is not None for p in parted)
        why = "no other token was told there" if told else "the endpoint gave no log-probabilities"
        return f"How near these were is not known: {why}."
    near = sum(lead <= NOISE_NATS for lead in leads)
    return (
        f"Where they part, the token alone led its runner-up by {min(leads):.3f} to {max(leads):.3f} nats "
        f"(median {percentile(leads, 50):.3f}); {near} of {len(leads)} by at most {NOISE_NATS} nats, which "
        "the order of a sum can turn."
    )


def leads_figure(records: Sequence[Record], found: Sequence[Level], study: Study) -> Figure | None:
    """The closest decision in each answer given alone, those that turned marked; `None`: not told."""
    near = {q: lead for q, lead in closest(records[0]).items() if lead is not None}
    if not near:
        return None
    turned = _turned(found)
    fig, ax = plots.figure(study.target.name, kinds(study), height_in=1.5 + 0.28 * len(near))
    ordered = sorted(near, key=near.__getitem__)
    for at, question in enumerate(ordered):
        changed = question in turned
        style = "D" if changed else "o"
        colour = plots.PALETTE[1] if changed else plots.PALETTE[0]
        ax.plot([near[question]], [at], style, color=colour, ms=8 if changed else 6)
    ax.set_yticks(range(len(ordered)), ordered)
    ax.axvline(NOISE_NATS, color=plots.GREY, ls=":", lw=1.2)
    ax.set_xlim(left=0)
    plots.name_axes(ax, "smallest lead of a token over its runner-up, alone", "question", x_unit="nats")
    ax.set_title("diamonds: the text differs under load", loc="left")
    return fig


def _turned(found: Sequence[Level]) -> set[str]:
    return {one.question_id for level in found if level.concurrency > 1 for one in level.different}


def leads_alt(records: Sequence[Record], found: Sequence[Level], study: Study) -> str:
    """Alternative text of `leads_figure`."""
    near = {q: lead for q, lead in closest(records[0]).items() if lead is not None}
    turned = _turned(found)
    note = plots.target_note(study.target.name, kinds(study))
    least = min(near.values(), default=None)
    return (
        f"A dot per question: the closest decision in its answer given alone, in nats; {note}. "
        f"{len(turned & set(near))} of {len(near)} questions get another text under load; the closest "
        f"decision of all is {'not told' if least is None else f'{least:.3f} nats'}."
    )


def leads_sentence(records: Sequence[Record], found: Sequence[Level]) -> str:
    """Whether it is the close decisions that turn; that nothing was told, where nothing was."""
    near = {q: lead for q, lead in closest(records[0]).items() if lead is not None}
    if not near:
        return "There are no log-probabilities of these answers: how near a change was is not known."
    below = {q for q, lead in near.items() if lead <= NOISE_NATS}
    turned = _turned(found)
    return (
        f"{len(below)} of {len(near)} questions hold a decision closer than {NOISE_NATS} nats; of these "
        f"{len(below & turned)} got another text under load, of the others {len(turned - below)}."
    )


def latency_table(records: Sequence[Record], study: Study) -> Table:
    """p50 and p95 of one answer at each level, output tokens, and whether the machine was idle besides."""
    table = {int(r.params["concurrency"]): _latency(r) for r in records}
    frame = pd.DataFrame.from_dict(table, orient="index").rename_axis("in flight")
    return captioned(
        frame, study, "What the same answers took", latency_sentence(records), kinds_of_times(study)
    )


def kinds_of_times(study: Study) -> Sequence[str]:
    """How times came about; on the twin for the recorded words of another model."""
    return [plots.KIND_WORDS[kind] for kind in kinds(study, "recordings")]


def _latency(record: Record) -> Json:
    rows = [row for row in record.samples() if row["outcome"] == "ok"]
    spent = [s for row in rows if (s := seconds(row)) is not None]
    tokens = [row["output_tokens"] for row in rows if row["output_tokens"] is not None]
    return {
        "answers": len(rows),
        "p50 (s)": _number(percentile(spent, 50)),
        "p95 (s)": _number(percentile(spent, 95)),
        "output tokens": _number(sum(tokens) / len(tokens) if tokens else None),
    }


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3g}"


def latency_sentence(records: Sequence[Record]) -> str:
    """That the machine was busy with other work, where it was."""
    busy = [rule for r in records for rule in r.validity if rule.rule == RULE and rule.ok is False]
    if not busy:
        return ""
    most = max(float(rule.value or 0.0) for rule in busy)
    return (
        f"Measured beside other work: the machine was up to {most:.0%} busy while its engine had nothing to "
        "do. These times are no measurement of the engine; what was said is."
    )


def against_article(found: Sequence[Level], study: Study) -> pd.DataFrame:
    """The article's claim beside the share of questions whose raw intent is the same at every level."""
    loaded = [level for level in found if level.concurrency > 1 and level.answers]
    told: Mapping[str, bool] = _everywhere(loaded)
    value = sum(told.values()) / len(told) if told else None
    tag = "by construction" if constructed(study) else study.target.tag
    return article.comparison_table([("load.identical", value)], target=study.target.name, tag=tag)


def _everywhere(loaded: Sequence[Level]) -> dict[str, bool]:
    """Is the text of every answer to a question, at every level, the one given alone? Bit-identical."""
    found: dict[str, bool] = {}
    for level in loaded:
        for one in level.answers:
            found[one.question_id] = found.get(one.question_id, True) and one.same_text
    return found


def rules_table(records: Sequence[Record]) -> pd.DataFrame:
    """Every validity rule of every level."""
    table = [
        {"in flight": int(r.params["concurrency"]), "rule": rule.rule, "value": rule.value}
        | {"threshold": rule.threshold, "ok": {True: "yes", False: "NO", None: "not checked"}[rule.ok]}
        for r in records
        for rule in r.validity
    ]
    return pd.DataFrame(table).set_index(["in flight", "rule"])
