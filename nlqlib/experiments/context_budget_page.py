"""How the page on the context budget shows lengths, the headroom rule, and what is left for the prompt."""

from collections.abc import Iterable, Sequence

import pandas as pd

from nlqlib import article
from nlqlib.analysis.headroom import MARGIN, Budget, Cut, Tail, recommended
from nlqlib.analysis.stats import percentile
from nlqlib.experiments import context_lengths as lengths
from nlqlib.experiments.context_caps import SHOWN
from nlqlib.experiments.context_lengths import Length, Piece
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import span, told


def whose(study: Study) -> str:
    """How the answers whose lengths are shown must be named."""
    if study.target.kind == "twin":
        return f"replayed answers of {lengths.speaker()}"
    if lengths.own_words(study):
        return f"answers recorded earlier from {lengths.speaker()}, the model served here"
    return "answers measured here: those on file are another model's"


# ---- lengths ---------------------------------------------------------------------------------------------


def lengths_table(study: Study, asked: Sequence[Length]) -> pd.DataFrame:
    """ISL and OSL; percentiles of valid answers alone. Every set on file, if its answers are this model's."""
    rows = {"baseline, dev, measured here": _lengths_row(asked)}
    if lengths.own_words(study):
        rows = {
            f"{prompt}, {source or 'all sets'}": _lengths_row(lengths.of(prompt, source))
            for prompt in lengths.PROMPTS
            for source in (*lengths.SETS, "")
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt, question set")


def _lengths_row(found: Sequence[Length]) -> dict[str, object]:
    isl, osl = [x.isl for x in found], lengths.whole(found)
    return {
        "questions": len(found),
        "ISL: least, median, most": _three(isl),
        "valid answers": len(osl),
        "cut when recorded": lengths.cut(found),
        "OSL of valid ones: least, median, most": _three(osl),
        "OSL p95": told(percentile(osl, 95), ".0f"),
        "OSL p99": told(percentile(osl, 99), ".0f"),
    }


def _three(values: Sequence[int]) -> str:
    if not values:
        return "—"
    return f"{min(values):,} / {percentile(values, 50):,.0f} / {max(values):,}"


def lengths_sentence(found: Sequence[Length]) -> str:
    """Why prompts hardly differ and answers do."""
    isl, osl = [x.isl for x in found], lengths.whole(found)
    if not osl:
        return f"Prompts have {min(isl):,} to {max(isl):,} tokens; there is no valid answer."
    return (
        f"Prompts have {min(isl):,} to {max(isl):,} tokens, {max(isl) - min(isl)} apart: only the question "
        f"differs. Valid answers have {min(osl)} to {max(osl)}, and {lengths.cut(found)} of "
        f"{len(found)} were cut at their limit and are longer than that."
    )


# ---- the headroom rule -----------------------------------------------------------------------------------


def tail_table(found: Sequence[Length], margin: float = MARGIN) -> pd.DataFrame:
    """The rule step by step."""
    t = lengths.answers_tail(found)
    limit = recommended(t, margin)
    steps = [
        ("valid answers", f"{t.n}"),
        ("cut where they were recorded, so longer than their limit", f"{t.cut}"),
        (f"p{100 * t.quantile:g} of the valid ones, interpolated", f"{told(t.value, '.0f')} tokens"),
        ("its 95 % interval by order statistics", _interval(t)),
        ("valid answers it needs for an upper end", f"{t.needed:,}"),
        ("what so many answers do bound: their longest", _bound(t)),
        (f"growth margin of {margin:.0%} on top, up to the next 16", _limit(limit)),
    ]
    return pd.DataFrame(steps, columns=["step", "value"]).set_index("step")


def _interval(t: Tail) -> str:
    if t.low is None:
        return "—"
    return f"{t.low:.0f} to {'no upper end' if t.high is None else format(t.high, '.0f')}"


def _bound(t: Tail) -> str:
    if t.longest is None or t.supported is None:
        return "—"
    return f"{t.longest:.0f} tokens, an upper end of p{100 * t.supported:.1f}"


def _limit(limit: int | None) -> str:
    return "no recommendation: there is no valid answer" if limit is None else f"max_tokens = {limit}"


def tail_sentence(found: Sequence[Length], margin: float = MARGIN) -> str:
    """The recommendation with what it rests on."""
    t, limit = lengths.answers_tail(found), recommended(lengths.answers_tail(found), margin)
    if limit is None or t.supported is None:
        return "Without a valid answer no limit can be recommended."
    base = (
        f"{t.n} valid answers are too few for p{100 * t.quantile:g}, which needs {t.needed:,}: with 97.5 % "
        f"confidence their longest, {t.longest:.0f} tokens, bounds p{100 * t.supported:.1f} and no more."
        if t.high is None
        else f"p{100 * t.quantile:g} of {t.n} valid answers is at most {t.high:.0f} tokens (97.5 %)."
    )
    rest = (
        f" {t.cut} further answers were cut, so this is a limit for answers such as the valid ones: whether "
        "the cut ones would ever have ended is not known."
        if t.cut
        else ""
    )
    return f"{base} With a margin of {margin:.0%} that makes max_tokens = {limit}.{rest}"


def limits_table(found: Sequence[Length]) -> pd.DataFrame:
    """For each limit: the share of all recorded answers it would cut, with an interval, and its margin."""
    longest = lengths.answers_tail(found).longest
    rows = {
        limit: {
            "answers": cut.n,
            **cut_columns(cut, ".1%"),
            "room above the longest valid answer": told(limit / longest - 1 if longest else None, "+.0%"),
        }
        for limit in SHOWN
        for cut in [cut_by(found, limit)]
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("max_tokens")


def limits_sentence(found: Sequence[Length]) -> str:
    """Under which limits nothing is known of answers that were cut below them."""
    if all(x.osl is None for x in found):
        return "No answer is known, so what a limit would cut is not observable here."
    open_ = {limit: cut for limit in SHOWN if (cut := cut_by(found, limit)).unknown}
    if not open_:
        return "What each limit would cut is known of every answer."
    least = min(open_)
    cut = open_[least]
    return (
        f"Of {cut.n} answers {cut.unknown} were cut below {least} when they were recorded: whether they "
        f"would have ended within it nobody knows, so that it cuts anything between {cut.least} and "
        f"{cut.most} of them, and the interval spans both ends."
    )


def cut_by(found: Sequence[Length], limit: int) -> Cut:
    """How many of the recorded answers `limit` cuts."""
    fates = [_cut_by(x, limit) for x in found if x.osl is not None]
    return Cut(len(fates), fates.count(True), fates.count(None))


def cut_columns(cut: Cut, form: str) -> dict[str, str]:
    """Count, share and interval of what a limit cuts; from the least to the most where not all is known."""
    ends = dict.fromkeys((cut.least, cut.most))
    return {
        "cut": " to ".join(str(k) for k in ends),
        "share cut": " to ".join(format(k / cut.n, form) for k in ends) if cut.n else "—",
        "95 % interval": span(cut.interval, form),
    }


def _cut_by(x: Length, limit: int) -> bool | None:
    """Would `limit` cut this answer? `None`: it was cut below it, so nobody knows."""
    if x.osl is None or (x.outcome == "length" and x.osl < limit):
        return None
    return x.osl > limit or x.outcome == "length"


# ---- what is left for the prompt -------------------------------------------------------------------------


def growth_table(windows: Iterable[int], limits: Iterable[int], prompt: int) -> pd.DataFrame:
    """Tokens left for the prompt, and how many more pieces of the catalog they hold."""
    limits = list(limits)
    rows = {}
    for window in windows:
        for limit in limits:
            budget = Budget(window, prompt, limit)
            rows[f"{window:,} − {prompt:,} − {limit}"] = {
                "left for the prompt": f"{budget.left:,}" + ("" if budget.fits else ": DOES NOT FIT"),
                **{f"more {p.name}s": budget.room_for(p.tokens_each) for p in lengths.pieces()},
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("window − longest prompt − max_tokens")


def pieces_table() -> pd.DataFrame:
    """What the prompt lists, and what one more of it adds."""
    rows = {
        p.name: {"in the prompt": p.count, "tokens each, mean": f"{p.tokens_each:.1f}"}
        for p in lengths.pieces()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("piece")


def growth_sentence(window: int, limit: int, prompt: int) -> str:
    """What is left under one limit, in pieces of the catalog."""
    budget = Budget(window, prompt, limit)
    if not budget.fits:
        over = f"exceed a window of {window:,} by {-budget.left:,}"
        return f"A prompt of {prompt:,} and max_tokens {limit} {over}."
    each: dict[str, Piece] = {p.name: p for p in lengths.pieces()}
    room = " or ".join(f"{budget.room_for(p.tokens_each)} more {name}s" for name, p in each.items())
    left = f"A window of {window:,} leaves {budget.left:,} tokens beside max_tokens {limit}"
    return f"{left}: {room}, not all at once."


# ---- the article's own ------------------------------------------------------------------------------------


def article_limits() -> pd.DataFrame:
    """The article's own lengths through the headroom rule: why 128 is tight and 256 is not."""
    most = float(article.claim("output.pretty.range").high)
    worst = float(article.claim("output.backfire.tokens.after").value or 0.0)
    prompt = int(article.claim("prompt.tokens").value or 0)
    rows = {
        limit: {
            f"room above {most:.0f} tokens, its largest mean": f"{limit / most - 1:+.0%}",
            f"holds a margin of {MARGIN:.0%} on it": "yes" if limit >= most * (1 + MARGIN) else "NO",
            f"holds its longest printed answer, {worst:.0f} tokens": "yes" if limit >= worst else "NO",
            f"left of 4,096 beside {prompt:,}": f"{Budget(4096, prompt, limit).left:,}",
        }
        for limit in SHOWN
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("max_tokens")
