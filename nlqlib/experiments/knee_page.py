"""How the page on the knee shows its sweeps: repeats, ramp and drain, words, a calibrated twin beside it."""

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from nlqlib.analysis.stats import cv, summary
from nlqlib.experiments.operating_page import efficiency
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import ANSWER_SD, ANSWER_TOKENS, QUICK_TOKENS
from nlqlib.experiments.sweep_rows import Place, Records, places, rows, span, told


def workload_sentence(study: Study) -> str:
    """What is sent, and how long the answers are."""
    asked = "The 20 development questions in turn, `baseline` prompt, structured output, no streaming"
    if study.target.kind == "twin":
        return f"{asked}; answers are drawn, {ANSWER_TOKENS} ± {ANSWER_SD} tokens long (modelled)."
    if study.quick:
        return f"{asked}; every answer is cut to exactly {QUICK_TOKENS} tokens by `ignore_eos`."
    return f"{asked}; an answer ends where the model ends it, at 256 tokens at the latest."


def repeats_table(records: Records) -> pd.DataFrame:
    """Each repeated concurrency: mean, coefficient of variation and t interval of throughput, and p95."""
    table = rows(records)
    if table.empty:
        return pd.DataFrame({"repeats": []}).rename_axis("concurrency")
    found = {int(n): _repeats(group) for n, group in table.groupby("concurrency")}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("concurrency")


def _repeats(group: pd.DataFrame) -> dict[str, str | int]:
    run, tail = (group[c].dropna().to_numpy() for c in ("x_run", "p95"))
    x, p95 = summary(run), summary(tail)
    return {
        "repeats": x.n,
        "X run (req/s)": told(x.mean, ".3f"),
        "95 % interval": span(x.interval, ".3f"),
        "CV": told(x.cv, ".2%"),
        "X steady (req/s)": told(summary(group["x_window"].dropna().to_numpy()).mean, ".3f"),
        "p95 (s)": told(p95.mean, ".3f"),
        "95 % interval of p95": span(p95.interval, ".3f"),
        "CV of p95": told(p95.cv, ".2%"),
    }


def repeats_sentence(records: Records, study: Study) -> str:
    """How much a level varies from repeat to repeat."""
    table = rows(records)
    if table.empty:
        return "No level was repeated, so nothing is said about variation."
    spread = {int(n): cv(g["x_run"].dropna().to_numpy()) for n, g in table.groupby("concurrency")}
    seen = {n: s for n, s in spread.items() if s is not None}
    if not seen:
        return "A level measured once has no variation to show."
    worst = max(seen, key=lambda n: seen[n])
    source = (
        "on the twin it comes from the drawn answer lengths alone: a modelled step has no noise"
        if study.target.kind == "twin"
        else "noise of machine and network included"
    )
    return f"Throughput varies by at most {seen[worst]:.2%} (CV, at concurrency {worst}); {source}."


def drain_table(records: Records, short: Records) -> pd.DataFrame:
    """How much of the efficiency lost at each concurrency is ramp and drain, not the engine.

    `short` are the levels with the article's 150 requests.
    """
    found, few = places(records), {p.concurrency: p.x_run for p in places(short)}
    run, steady = efficiency(found), efficiency(found, steady=True)
    shown = {
        p.concurrency: {
            "efficiency, whole run": told(run[p.concurrency], ".1%"),
            "efficiency, steady": told(steady[p.concurrency], ".1%"),
            "X run / X steady": told(_ratio(p.x_run, p.x_window), ".3f"),
            "X run of 150 requests / X steady": told(_ratio(few.get(p.concurrency), p.x_window), ".3f"),
        }
        for p in found
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def drain_sentence(records: Records, short: Records) -> str:
    """How much of the bend at the largest concurrency is ramp and drain."""
    found = places(records)
    last = next((p for p in reversed(found) if p.x_window), None)
    kept = _ratio(last.x_run, last.x_window) if last else None
    if last is None or kept is None:
        return (
            "No steady window is long enough here: ramp and drain cannot be told from the engine's own bend."
        )
    few = {p.concurrency: p.x_run for p in places(short)}
    less = _ratio(few.get(last.concurrency), last.x_window)
    aside = f", one of the article's 150 requests {less:.1%}" if less is not None else ""
    text = f"At {last.concurrency} in flight a whole run reaches {kept:.1%} of the steady throughput{aside}"
    share = efficiency(found, steady=True)[last.concurrency]
    rest = f"; in steady state {1 - share:.0%} of linear is lost, by the engine alone" if share else ""
    return f"{text}{rest}."


def words_table(drawn: Records, recorded: Records) -> pd.DataFrame:
    """The dense sweep under drawn and under recorded answer lengths, side by side."""
    columns = {
        "valid": ("valid answers", ".0%"),
        "output_tokens": ("output tokens", ".1f"),
        "x_run": ("X run (req/s)", ".2f"),
        "p95": ("p95 (s)", ".2f"),
    }
    tables = {"drawn" if recorded else "served": rows(drawn), "recorded": rows(recorded)}
    shown = {}
    for column, (title, form) in columns.items():
        for name, table in tables.items():
            if len(table):
                seen = table.assign(valid=table["ok"] / table["n"]).set_index("concurrency")[column]
                shown[title, name] = seen.map(partial(told, form=form))
    return pd.DataFrame(shown)


def words_kinds(study: Study) -> tuple[str, ...]:
    """How the numbers of `words_table` came about."""
    return ("modelled times", "drawn and replayed lengths") if study.target.kind == "twin" else ("measured",)


def words_sentence(drawn: Records, recorded: Records) -> str:
    """What the recorded lengths change."""
    if not recorded:
        return "Here the model itself answers: there are no recorded lengths to set beside its own."
    both = pd.concat({"drawn": rows(drawn), "recorded": rows(recorded)})
    last = both[both["concurrency"] == both["concurrency"].max()]
    means = (
        last.assign(valid=last["ok"] / last["n"]).groupby(level=0)[["x_run", "output_tokens", "valid"]].mean()
    )
    ours = {str(k): f"{m.x_run:.2f} req/s ({m.output_tokens:.0f} tokens)" for k, m in means.iterrows()}
    cut = 1 - means["valid"]["recorded"]
    aside = f"; {cut:.0%} of the recorded ones are cut at 256 tokens and count as failures" if cut > 0 else ""
    return (
        f"At {both['concurrency'].max()} in flight drawn lengths give {ours['drawn']} and recorded ones, "
        f"replayed from a real model, {ours['recorded']}: times are modelled in both{aside}."
    )


Predicted = tuple[int, Mapping[str, float | None], str]
"""Concurrency; what a calibrated twin says there (`throughput_run` in req/s, `p95_s`); its tag."""


def calibrated_beside(study: Study, records: Records, predicted: Sequence[Predicted] | None) -> pd.DataFrame:
    """The twin calibrated on this very engine beside the measurement, or the reason why there is none."""
    found = {p.concurrency: p for p in places(records)}
    shown = [
        {"concurrency": n, "the twin's row is": tag, **_beside(found[n], says)}
        for n, says, tag in predicted or ()
        if n in found
    ]
    if study.target.kind == "twin":
        return _why("this target is the twin: its own calibration is judged against the article below")
    if not shown:
        return _why("no twin is calibrated on this engine: `python -m nlqlib calibrate` makes one")
    return pd.DataFrame(shown).set_index("concurrency")


def _why(reason: str) -> pd.DataFrame:
    return pd.DataFrame({"not shown, because": [reason]}, index=["calibrated twin"])


def _beside(place: Place, says: Mapping[str, float | None]) -> dict[str, str]:
    row: dict[str, str] = {}
    for quantity, title, ours in (
        ("throughput_run", "X run (req/s)", place.x_run),
        ("p95_s", "p95 (s)", place.p95_s),
    ):
        error = _ratio(says.get(quantity), ours)
        row |= {
            f"{title}, {word}": value
            for word, value in (
                ("measured", told(ours, ".2f")),
                ("twin", told(says.get(quantity), ".2f")),
                ("error", told(None if error is None else error - 1, "+.1%")),
            )
        }
    return row


def calibrated_sentence(predicted: Sequence[Predicted] | None, records: Records) -> str:
    """The mean and the largest error of the rows that a calibrated twin was not fitted on; empty without."""
    found = {p.concurrency: p for p in places(records)}
    ratios = [
        _ratio(says.get("throughput_run"), found[n].x_run)
        for n, says, tag in predicted or ()
        if n in found and tag == "predicted"
    ]
    errors = [abs(r - 1) for r in ratios if r is not None]
    if not predicted:
        return ""
    if not errors:
        return "No row was left to judge a calibrated twin by."
    mean = sum(errors) / len(errors)
    return (
        f"Over the {len(errors)} concurrencies it was not fitted on, the calibrated twin's throughput is off "
        f"by {mean:.1%} on average and {max(errors):.1%} at most."
    )
