"""The command `evaluate`: a set of questions under one condition or several, every metric of each."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from nlqlib.analysis.cost import TokenPrices
from nlqlib.artifacts import Store
from nlqlib.commands import words_of
from nlqlib.commands_advice import advised
from nlqlib.experiments.answers import UNRECORDED, earlier, unfinished
from nlqlib.experiments.asking import read_all
from nlqlib.experiments.condition_report import FREE, Prices, paired, report, shown, summary_line
from nlqlib.experiments.conditions import Condition, conditions, requests
from nlqlib.experiments.heard import Heard, asked_key, failed, heard_from, sendable
from nlqlib.experiments.journal import Journal
from nlqlib.experiments.judging import executor
from nlqlib.experiments.questions import Question, asked_workload, load_questions
from nlqlib.experiments.semantics import judge_all
from nlqlib.files import check_writable, write_atomic
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import ANSWERED, Completion, Json
from nlqlib.serving.target import Target, open_target


@dataclass(frozen=True)
class Asking:
    """What `evaluate` was asked for."""

    source: str
    target: str
    conditions: str = "baseline"
    concurrency: int = 4
    out: str | None = None
    prices: Prices = FREE


def evaluate(asking: Asking, as_json: bool) -> int:
    """Judge every question of a set under each condition; 1 when a request failed."""
    hows = conditions(asking.conditions)
    with closing(open_target(asking.target, progress=_tell)) as opened:
        if asking.out:
            check_writable(Path(asking.out))
        found = _found(opened, asking, hows)
        answers = f"{words_of(opened)}; times {opened.time_tag}"
    told = {name: report(rows, asking.prices, asking.concurrency) for name, rows in found.items()}
    differences = [asdict(p) for p in paired(found)] if len(found) > 1 else []
    if as_json:
        print(json.dumps(_document(hows, told, differences, answers), indent=2, ensure_ascii=False))
    else:
        print(_page(told, differences, answers))
    for line in dict.fromkeys(
        line for how in hows for line in _failures(how, found[how.name], asking.source)
    ):
        _tell(line)
    return 1 if any(one["failed"] for one in told.values()) else 0


def _found(target: Target, asking: Asking, hows: Sequence[Condition]) -> dict[str, list[Json]]:
    """One row for each question under each condition, written where it was asked for.

    Answers stay at hand until none is missing and the rows are written. Conditions that ask alike are asked
    once, and judged on the very same answers.
    """
    ways = {how.prompt: how for how in hows}
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        questions = load_questions(asking.source, catalog)
        kept = {name: _journal(target, asking, questions, how, catalog) for name, how in ways.items()}
        heard = {n: _heard(target, asking, questions, how, catalog, kept[n]) for n, how in ways.items()}
        run = executor(warehouse, catalog)
        found = {
            how.name: judge_all(read_all(questions, heard[how.prompt], how, catalog), how, catalog, run)
            for how in hows
        }
    if asking.out:
        write_rows(asking.out, [row for rows in found.values() for row in rows])
    _settle(list(filter(None, kept.values())), any(failed(each) for each in heard.values()))
    return found


def _settle(journals: Sequence[Journal], lost: bool) -> None:
    """Forget what is complete, or say that it is kept for the rest."""
    if not lost:
        for journal in journals:
            journal.close()
    elif any(journal.answers for journal in journals):
        _tell("nlqlib: the answers that came are kept: the same command asks only for the rest")


def _failures(how: Condition, rows: Sequence[Json], source: str) -> Iterator[str]:
    """Why requests failed, once for each reason; for a prompt without a recording, how to make one."""
    lost = [row for row in rows if row["outcome"] not in ANSWERED]
    reasons = Counter(advised(f"{row['outcome']}: {row['invalid']}", row["outcome"]) for row in lost)
    for reason, n in reasons.most_common():
        yield (f"nlqlib: {how.name}: {n} of {len(rows)} requests failed: {reason}")
    if any(UNRECORDED in reason for reason in reasons):
        yield (f"nlqlib: to record them: python -m nlqlib record --set {source} --condition {how.prompt}")


def _journal(
    target: Target, asking: Asking, questions: Sequence[Question], how: Condition, catalog: Catalog
) -> Journal | None:
    """What an interrupted run, or a notebook, has heard already: it is not asked again."""
    journal = unfinished(target, asked_workload(asking.source), how)
    if journal:
        journal.answers = _retained(target, questions, how, catalog) | journal.answers
    return journal


def _heard(
    target: Target,
    asking: Asking,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    journal: Journal | None,
) -> Heard:
    """What is said to `questions`, asked as `how` asks."""
    ask = heard_from(target, questions, how, catalog, asking.concurrency, journal=journal)
    heard, waited_s = target.run(ask)
    if waited_s:
        _tell(f"nlqlib: {how.prompt}: waited {waited_s:.0f} s for rate limits")
    return heard


def _retained(
    target: Target, questions: Sequence[Question], how: Condition, catalog: Catalog
) -> dict[str, Completion]:
    """Answers of the local engine that notebooks retained; at a URL another model may serve today."""
    store = Store.from_environment()
    if target.kind != "local" or store.remeasure:
        return {}
    known = earlier(store, target)
    first = [asked_key(r) for r in requests(sendable(questions, how), how, catalog)]
    if n := sum(key in known for key in first):
        _tell(f"nlqlib: {how.prompt}: {n} of {len(first)} answers were retained; REMEASURE=1 asks again")
    return known


def write_rows(path: str, rows: Sequence[Json]) -> None:
    """One JSON line for each row, keys sorted."""
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows]
    write_atomic(Path(path), "".join(lines).encode())


def _document(
    hows: Sequence[Condition], told: dict[str, Json], differences: list[Json], answers: str
) -> Json:
    """One condition as one object, several as a list of them and the paired tests."""
    parts = [
        {"condition": how.name, "prompt": how.prompt, "correction": how.correction, "answers": answers}
        | told[how.name]
        | {"scores": told[how.name]["final"]}
        for how in hows
    ]
    return parts[0] if len(parts) == 1 else {"conditions": parts, "paired": differences}


def _page(told: dict[str, Json], differences: list[Json], answers: str) -> str:
    """The report of one condition in full, of several as a table."""
    if len(told) == 1:
        [(name, one)] = told.items()
        return f"{one['questions']} questions, condition {name}; {answers}; {_one(one)}"
    lines = pd.DataFrame([summary_line(name, one) for name, one in told.items()])
    table = lines.set_index("condition").T.to_string()
    tests = pd.DataFrame(differences)
    first = next(iter(told))
    return f"{answers}\n\n{table}\n\nagainst {first} (exact McNemar, Holm):\n{tests.to_string(index=False)}"


def _one(told: Json) -> str:
    blocks = [f"failed requests: {told['failed']}"]
    scores = {
        "raw": {s["name"]: shown(s) for s in told["raw"]},
        "final": {s["name"]: shown(s) for s in told["final"]},
    }
    scores["raw"]["pair consistency"] = shown(told["pair consistency"]["raw"])
    scores["final"]["pair consistency"] = shown(told["pair consistency"]["final"])
    blocks.append(pd.DataFrame(scores).fillna("n/a").to_string())
    blocks.append(acted(told["interventions"]))
    blocks.append(f"errors, raw: {_counts(told['errors']['raw'])}")
    blocks[-1] += f"\nerrors, final: {_counts(told['errors']['final'])}"
    blocks.append(_served(told["serving"]))
    return "\n\n".join(blocks)


def _served(told: Json) -> str:
    """Requests, latency, tokens and cost in one line."""
    return (
        f"requests {told['requests']}, p50 {_seconds(told['e2e_s']['p50'])}, "
        f"p95 {_seconds(told['e2e_s']['p95'])}, output tokens {_number(told['output_tokens']['mean'])}, "
        f"cut answers {told['finish_reason length']}, "
        f"cost per 1,000 questions {_number(told['cost per 1,000 questions'], 4)}"
    )


def acted(told: Json) -> str:
    """The interventions in lines."""
    lines = [f"interventions {told['interventions']} of {told['answered']} answers"]
    shares = ("precision", "harm", "recall", "fixable_recall", "abstained", "refused", "asked")
    lines += [f"{told[key]['name']}: {shown(told[key])}" for key in shares]
    lines.append(f"wrong → wrong: {told['wrong_to_wrong']}, right → right: {told['right_to_right']}")
    lines += [f"recall of {name}: {shown(one)}" for name, one in told["categories"].items()]
    return "\n".join(lines)


def _counts(told: Json) -> str:
    return ", ".join(f"{name} {n}" for name, n in told.items()) or "none"


def _seconds(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f} s"


def _number(value: float | None, digits: int = 1) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"


def prices(tokens: str | None, per_hour: float | None) -> Prices:
    """The prices of the command line: `input,output[,cached]` dollars per million tokens, or per hour."""
    if per_hour is not None and not 0 <= per_hour < math.inf:
        raise QuestionError(f"--price-per-hour {per_hour} is no price: give dollars, 0 or more")
    if tokens is None:
        return Prices(None, per_hour)
    try:
        parts = [float(part) for part in tokens.split(",")]
    except ValueError:
        parts = []
    if len(parts) not in (2, 3) or not all(0 <= part < math.inf for part in parts):
        raise QuestionError(
            f"--token-prices {tokens!r} is no price: give input,output or input,output,cached in dollars per "
            "million tokens, such as 0.15,0.60"
        )
    return Prices(TokenPrices(*parts), per_hour)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


__all__ = ["Asking", "acted", "evaluate", "prices", "write_rows"]
