"""How the page on client-side serialisation shows its test: skew, controls, verdicts, steps. From records."""

from collections.abc import Mapping, Sequence

import pandas as pd

from nlqlib.analysis.staircase import MAX_SKEW_SHARE, ControlledStaircase, Staircase
from nlqlib.article import comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.staircase import Trial, sets_limits
from nlqlib.experiments.staircase_result import (
    AS_IT_IS,
    CONTROLS,
    ONE_AT_A_TIME,
    judge,
    staircases,
)
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import told
from nlqlib.files import slug
from nlqlib.records import Json

STEPS = ("staircase.1", "staircase.2", "staircase.3")
UNIT = "single-request service times"


def statement(study: Study) -> str:
    """One sentence: the target, and how its numbers came about on this page."""
    if study.target.kind != "twin":
        return study.statement()
    return (
        f"target twin: times modelled ({study.target.models}), here in *real* time, served on a socket by a "
        "process of its own; answers have one length and say nothing"
    )


def workload_sentence(wanted: Trial) -> str:
    """What each process sends, and on which clock."""
    length = (
        f"exactly {wanted.output_tokens} output tokens (`ignore_eos`), so that the page stays short"
        if wanted.output_tokens
        else "an answer that ends where the model ends it"
    )
    return f"{wanted.processes} processes, one request each: a development question, {length}. Clock: real."


def release_table(record: Record) -> pd.DataFrame:
    """Of every run: how many processes there were, and how far apart they sent their requests."""
    rows, found = record.samples(), staircases(record)
    return pd.DataFrame([_release(name, s, rows) for name, s in found.items()]).set_index("run")


def _release(name: str, s: Staircase, rows: Sequence[Json]) -> Json:
    mine = [r for r in rows if r["run"] == name]
    woken = [float(r["woken_s"]) for r in mine]
    return {
        "run": name,
        "processes": len(mine),
        "answered": sum(r["outcome"] == "ok" for r in mine),
        "last one woken after (ms)": told(1e3 * max(woken), ".1f"),
        "release skew (ms)": told(_ms(s.skew_s), ".1f"),
        "of a service time": told(s.skew_share, ".1%"),
        "skew allowed": f"{MAX_SKEW_SHARE:.0%}",
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def release_sentence(record: Record) -> str:
    """Whether the release was one instant, as far as the service time goes."""
    shares = {n: s.skew_share for n, s in staircases(record).items() if s.skew_share is not None}
    if not shares:
        return "No run was answered in full, so nothing is said about its release."
    worst = max(shares, key=lambda n: shares[n])
    held = shares[worst] <= MAX_SKEW_SHARE
    end = (
        "too little to draw steps of its own"
        if held
        else "so much that it draws steps of its own: no verdict"
    )
    return f"At worst ({worst}) the starts lie {shares[worst]:.1%} of a service time apart, {end}."


def stairs_table(found: Mapping[str, Staircase]) -> pd.DataFrame:
    """The fit of each run: slope in seconds and in service times, its interval, R², and what it is called."""
    return pd.DataFrame([_stairs(name, s) for name, s in found.items()]).set_index("run")


def _stairs(name: str, s: Staircase) -> Json:
    times, alone = s.completions_s, s.service_s
    wide = s.slope_interval if alone else None
    return {
        "run": name,
        "k": s.k,
        "alone (s)": told(alone, ".3f"),
        "first (s)": told(times[0] if times else None, ".3f"),
        "last (s)": told(times[-1] if times else None, ".3f"),
        "slope (s)": told(s.slope_s, ".3f"),
        "slope (service times)": told(s.slope_share, ".3f"),
        "95 % interval": "—"
        if wide is None or not alone
        else f"{wide[0] / alone:.3f} to {wide[1] / alone:.3f}",
        "R²": told(s.r2, ".3f"),
        "called": s.verdict,
        "because": s.reason,
    }


def controls_table(record: Record) -> pd.DataFrame:
    """Both controls, what they are by construction and what the test calls them."""
    found = {name: s for name, s in staircases(record).items() if name in CONTROLS}
    table = stairs_table(found)
    table.insert(0, "is", [name.split()[0] for name in table.index])
    return table


def controls_sentence(record: Record) -> str:
    """Whether the verdicts below count."""
    found = staircases(record)
    wrong = [name for name in CONTROLS if found[name].verdict != name.split()[0]]
    if wrong:
        return f"The {' and the '.join(wrong)} was misjudged: every verdict below is void. Repeat the test."
    return "Both controls are called what they are, so the same test may judge the endpoint."


def endpoint_table(record: Record, others: Sequence[Record] = ()) -> pd.DataFrame:
    """The endpoint's runs with the verdict that counts; `others` are deployments measured before."""
    found: dict[str, Staircase] = {}
    counts: list[ControlledStaircase] = []
    for one in [record, *others]:
        for name, judged in judge(staircases(one)).items():
            found[_labelled(one, name)] = judged.endpoint
            counts.append(judged)
    table = stairs_table(found).rename(columns={"called": "verdict"})
    return table.assign(verdict=[c.verdict for c in counts], because=[c.reason for c in counts])


def _labelled(record: Record, name: str) -> str:
    cell = record.params.get("cell")
    return f"{name} ({cell})" if cell else name


def verdict_sentence(record: Record, study: Study) -> str:
    """What the endpoint's runs say together: whose queue it is not, and whether a limit explains it."""
    judged = judge(staircases(record))
    text = f"As it is: {_called(judged[AS_IT_IS])}."
    if ONE_AT_A_TIME in judged:
        text += f" Behind a router limit of 1: {_called(judged[ONE_AT_A_TIME])}."
    elif not sets_limits(study):
        text += (
            " A router limit of 1 in front of it is *not observable here*: its limits are not ours to set."
        )
    return f"{text} {_meaning(judged)}"


def _called(c: ControlledStaircase) -> str:
    return c.reason if c.verdict == "refused" else f"**{c.verdict}**, {c.reason}"


def _meaning(judged: Mapping[str, ControlledStaircase]) -> str:
    bare = judged[AS_IT_IS].verdict
    limited = judged.get(ONE_AT_A_TIME)
    if "refused" in (bare, limited.verdict if limited else bare):
        return "Without a verdict nothing follows: see the reason."
    if bare == "parallel" and limited and limited.verdict == "serial":
        return (
            "The same processes, prompts and engine: what makes the stairs is the limit in the path. "
            "No lock, pool or event loop of a client was shared in either run."
        )
    if bare == "parallel":
        return "Nothing between these processes and their answers serialises them."
    return (
        "The processes share no lock, no pool and no event loop: the queue lies beyond the client, in the "
        "serving path or, where the answers are short, in an engine that computes one prompt at a time. "
        "Which layer holds it, this test cannot say."
    )


def engine_table(record: Record) -> pd.DataFrame:
    """Where requests spent their time: the client's mean beside what the path and the engine say."""
    shown = {}
    for name in judge(staircases(record)):
        client, router, engine, queue = (
            record.value(f"{slug(name)}_{what}", "mean")
            for what in ("e2e_latency", "router_queue", "engine_e2e", "engine_queue")
        )
        known = None not in (client, engine)
        rest = (client or 0) - (engine or 0) - (router or 0) if known else None
        shown[name] = {
            "client, E2E (s)": told(client, ".3f"),
            "router queue (s)": told(router, ".3f"),
            "engine, E2E (s)": told(engine, ".3f"),
            "of it engine queue (s)": told(queue, ".3f"),
            "the rest (s)": told(rest, ".3f"),
        }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("run")


def engine_sentence(record: Record) -> str:
    """Whether the engine knew of the waiting at all."""
    name = ONE_AT_A_TIME if f"{slug(ONE_AT_A_TIME)}_e2e_latency" in _names(record) else AS_IT_IS
    client, engine, queue = (
        record.value(f"{slug(name)}_{what}", "mean") for what in ("e2e_latency", "engine_e2e", "engine_queue")
    )
    if client is None or engine is None:
        return "The endpoint shows no metrics: what its engine saw of the waiting is *missing*, not zero."
    return (
        f"In the run *{name}* the clients waited {client:.2f} s on average; the engine knows of "
        f"{engine:.2f} s, of which {told(queue, '.2f')} s in its own queue."
    )


def _names(record: Record) -> set[str]:
    return {m.name for m in record.metrics}


def rules_table(*records: Record) -> pd.DataFrame:
    """Every rule of the test and what it found."""
    rows = [
        {"rule": r.rule, "found": _plain(r.value), "threshold": _plain(r.threshold), "held": HELD[r.ok]}
        for record in records
        for r in record.validity
    ]
    return pd.DataFrame(rows).set_index("rule")


HELD = {True: "held", False: "BROKEN", None: "not checkable"}


def _plain(value: float | str | None) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value if value is not None else "—")


def against_article(record: Record, study: Study) -> pd.DataFrame:
    """The article's three steps beside ours: of the run behind the limit, or of an endpoint as it is.

    On the twin a limit that we set makes the stairs by construction.
    """
    judged = judge(staircases(record))
    run = judged.get(ONE_AT_A_TIME, judged[AS_IT_IS])
    tag = "by construction" if study.target.kind == "twin" else "measured"
    alone, times = run.endpoint.service_s, run.endpoint.completions_s
    values = [t / alone for t in times] if alone and run.verdict != "refused" else []
    rows = [
        verdict(c, values[i] if i < len(values) else None, None, tag, study.target.name)
        for i, c in enumerate(STEPS)
    ]
    return comparison_table(rows, target=study.target.name)


def condition(study: Study) -> str:
    """Under which condition our steps were taken."""
    return "behind our own router limit of 1" if sets_limits(study) else "the endpoint as it is deployed"
