"""The article's section on output tokens beside a target: lengths of the words, times of the timed pairs."""

import pandas as pd

from nlqlib import article
from nlqlib.analysis.compactness import Lengths, effects, lengths, pairs
from nlqlib.analysis.stats import percentile
from nlqlib.artifacts import Record
from nlqlib.experiments.compact import TIMED_SET, Plan, itl_s, said, timed_said
from nlqlib.experiments.compact_effects_page import paired
from nlqlib.experiments.compact_meaning_page import Sets
from nlqlib.experiments.compact_page import Records, mean_characters, mean_tokens, post_parse, told
from nlqlib.experiments.compact_saving_page import p50, savings
from nlqlib.experiments.output_contracts import ASKED, PRETTY
from nlqlib.experiments.study import Study


def against_article(found: Sets, timed: Record, plan: Plan, study: Study) -> pd.DataFrame:
    """The article's section beside this target: lengths of the words, times of the timed pairs."""
    dev, tag = _development(found), study.target.tag
    time_tag = study.target.time_tag
    first, asked = said(dev[PRETTY.name]), said(dev[ASKED[0]])
    obeyed = {p.question_id for p in pairs(first, asked) if p.effect == "honoured"}
    kept = [one for one in asked if one.question_id in obeyed]
    texts = post_parse(first)
    one = savings(timed, plan, ("honoured",)).get(ASKED[0])
    times = (p50(timed, PRETTY.name), p50_of(timed, ASKED[0], obeyed))
    by, share = _medians_apart(timed, obeyed)
    saved = one.tokens.value if one else None
    each = itl_s(timed)
    foretold = saved * each if saved is not None and each is not None else None
    pairs_of: list[tuple[str, float | None, None, str]] = [
        ("output.pretty.tokens", mean_tokens(first), None, tag),
        ("output.pretty.characters", mean_characters(first), None, tag),
        ("output.compact.tokens", mean_tokens(kept), None, tag),
        ("output.compact.characters", mean_characters(kept), None, tag),
        ("output.post_parse.characters", sum(map(len, texts)) / len(texts) if texts else None, None, tag),
        ("output.pretty.p50", times[0], None, time_tag),
        ("output.compact.p50", times[1], None, time_tag),
        ("output.saving.tokens", saved, None, tag),
        ("output.saving.expected", foretold, None, time_tag),
        ("output.saving.measured", by, None, time_tag),
        ("output.saving.share", share, None, time_tag),
    ]
    return article.comparison_table(pairs_of, target=study.target.name)


def _development(found: Sets) -> Records:
    """The set that is timed, or the first one."""
    return found[TIMED_SET] if TIMED_SET in found else next(iter(found.values()))


def _medians_apart(timed: Record, questions: set[str]) -> tuple[float | None, float | None]:
    """Seconds between the medians of both forms, and their share, over `questions` whole in both."""
    names = (PRETTY.name, ASKED[0])
    whole = [{one.question_id for one in timed_said(timed, name) if one.whole} for name in names]
    before, after = (p50_of(timed, name, questions & whole[0] & whole[1]) for name in names)
    if before is None or after is None:
        return None, None
    return before - after, (before - after) / before if before else None


def p50_of(timed: Record, form: str, questions: set[str]) -> float | None:
    """Median latency of the whole answers in `form` to `questions`."""
    answers = [one for one in timed_said(timed, form) if one.whole and one.question_id in questions]
    return percentile([one.e2e_s for one in answers if one.e2e_s is not None], 50)


def obedience_sentence(found: Sets) -> str:
    """The article's count of an instruction that was honoured, ignored or backfired, beside ours."""
    words = ("honoured", "ignored", "backfired")
    claims = {word: article.claim(f"output.instruction.{word}").low for word in words}
    counts = effects(paired(_development(found))[ASKED[0]])
    total = sum(counts.values())
    theirs = ", ".join(f"{word} {value:.0f}" for word, value in claims.items())
    ours = ", ".join(f"{word} {n}" for word, n in counts.items() if n)
    return (
        f"The article asked for minified JSON 12 times: {theirs}. Here, of {total} questions: {ours}. "
        "Counts of another model on other questions are set side by side, not judged."
    )


def foretold_table(found: Sets, timed: Record) -> pd.DataFrame:
    """Decode seconds foretold by token counts, each form beside the pretty answers to the same questions."""
    each = itl_s(timed)
    rows = {
        f"{name}, {source}": _foretold_row(lengths(said(records[PRETTY.name]), said(record)), each)
        for source, records in found.items()
        for name, record in records.items()
    }
    theirs = {name: article.claim(f"output.{name}.tokens").low for name in ("pretty", "compact")}
    for name, value in theirs.items():
        row = _foretold_row(Lengths(1, theirs["pretty"], value), each)
        rows[f"the article's {name}"] = row | {"questions": "—"}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("form, set")


def _foretold_row(both: Lengths, each: float | None) -> dict[str, str]:
    saved = both.pretty - both.other if both.pretty is not None and both.other is not None else None
    return {
        "questions": str(both.n),
        "tokens": told(both.other, ".1f"),
        "tokens × ITL (s)": _times(both.other, each),
        "pretty tokens": told(both.pretty, ".1f"),
        "saved (s)": _times(saved, each),
    }


def _times(tokens: float | None, each: float | None) -> str:
    return "—" if tokens is None or each is None else f"{tokens * each:.2f}"
