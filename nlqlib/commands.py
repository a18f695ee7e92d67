"""What the commands of the command line do. Each returns the exit status: 0 only on success."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from nlqlib.experiments import ablation_recordings, ablations
from nlqlib.experiments.conditions import ASKINGS, Condition
from nlqlib.experiments.plans import PLANS
from nlqlib.experiments.recording import CONTRACTS as RECORDED_CONTRACTS
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.form import BadJson
from nlqlib.nlq.form import read_json as read_document
from nlqlib.nlq.intent import Intent, intent_of
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Json
from nlqlib.reproduce import main as run_notebooks
from nlqlib.serving.target import Target, open_target

SHOWN_ROWS = 40


class InputError(ValueError):
    """A file or an argument that cannot be used."""


def words_of(target: Target) -> str:
    """Whose words are heard, and how they came about."""
    return f"{target.tag}, target {target.name}, model {target.speaker or 'as served'}"


def sql(path: str, as_json: bool) -> int:
    """The SQL, bound values and rows of the intent in `path`."""
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        intent = _intent(path, catalog)
        result = execute(build(intent, catalog), warehouse)
    show(answered(intent, result, None), as_json, result)
    return 0


def _intent(path: str, catalog: Catalog) -> Intent:
    told = read_json(path)
    if not isinstance(told, dict):
        raise InputError(f"{path} holds no intent: give one JSON object")
    return intent_of(told, catalog)


def read_json(path: str) -> Any:
    """The JSON document in `path` (`-`: standard input). Raises `InputError`."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        return read_document(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except BadJson as error:
        raise InputError(f"{path} is {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def answered(intent: Intent, result: Result, words_of: str | None) -> Json:
    """An answer as one document: the intent, how it was understood, its SQL and rows."""
    answered: Json = {
        "intent": intent.wire(),
        "interpretation": result.interpretation,
        "sql": result.sql,
        "values": [str(v) for v in result.params],
        "columns": [{"name": c.name, "unit": c.unit} for c in result.columns],
        "rows": [list(row) for row in result.rows],
        "tie_at_cut": result.tie_at_cut,
    }
    return answered | ({"answer": words_of} if words_of else {})


def show(told: Json, as_json: bool, result: Result) -> None:
    """Print an answer: as JSON, or as text with a table."""
    if as_json:
        print(json.dumps(told, indent=2, ensure_ascii=False, default=str))
        return
    if "answer" in told:
        print(f"answer: {told['answer']}")
    print(f"intent: {json.dumps(told['intent'], ensure_ascii=False)}")
    print("\n".join([*_corrections(told), ""]))
    print(f"{told['sql']}\n\nbound values: {', '.join(told['values'])}\n")
    print(f"{told['interpretation']}\n")
    print(table(result))


def _corrections(told: Json) -> Iterator[str]:
    """What was changed of the model's answer, and what nobody understood."""
    for decision in told.get("decisions", ()):
        before, after = (json.dumps(decision[k], ensure_ascii=False) for k in ("before", "after"))
        words = f"  ({', '.join(map(repr, decision['words']))})" if decision["words"] else ""
        yield f"{decision['action']} {decision['rule']}: {before} → {after}{words}"
    if "unsure" in told:
        yield f"unsure: {told['unsure']}"


def table(result: Result) -> str:
    """The rows as text, with units in the headings; the first 40 of many."""
    if not result.rows:
        return "no rows: nothing in the data matches"
    names = [f"{c.name} ({c.unit})" if c.unit else c.name for c in result.columns]
    shown = pd.DataFrame(list(result.rows[:SHOWN_ROWS]), columns=names).to_string(
        index=False, na_rep="(none)"
    )
    left = len(result.rows) - SHOWN_ROWS
    return shown + (f"\n… and {left} more rows (all of them with --json)" if left > 0 else "")


def reproduce(arguments: Sequence[str]) -> int:
    """Run, or only plan, the notebooks against a target."""
    return run_notebooks(arguments, plans=PLANS, engine=_engine)


@contextmanager
def _engine() -> Iterator[Mapping[str, str]]:
    """One local engine for all notebooks of a run: their kernels attach to it."""
    from nlqlib.serving.engine import start_engine

    with start_engine(progress=_tell):
        yield {}


def serve(port: int | None) -> int:
    """Serve the local engine in the foreground until Ctrl-C."""
    from nlqlib.serving.engine import serve_forever

    return serve_forever(port=port)


def install() -> int:
    """Install the engine and its model."""
    from nlqlib.serving.engine_install import main

    return main()


def record(
    target: str,
    sources: str,
    contract: str | None,
    concurrency: int,
    askings: str | None = None,
    again: bool = False,
) -> int:
    """Record the answers of a real model to each set of a list, and say where they are.

    `askings` names ways of asking (`baseline,contrastive,planner` or `all`); without them the baseline prompt
    is recorded under one output contract or all three. What is recorded already is kept, unless `again`.
    `ablations` are the prompt's variants, always on the development questions: what is retained of them is
    written down, and only what is missing is asked.
    """
    if askings == "ablations":
        return _record_ablations(target)
    names = list(ASKINGS) if askings == "all" else (askings or "").split(",")
    ways = [asking(name) for name in names if name] or [
        Condition(name, "baseline", name) for name in ((contract,) if contract else RECORDED_CONTRACTS)
    ]
    with closing(open_target(target, progress=_tell)) as opened:
        for source in sources.split(","):
            for how in ways:
                path = record_asking(opened, source, how, concurrency, again)
                print(f"recorded: {path.parent.name}/{path.name}", flush=True)
    return 0


def _record_ablations(target: str) -> int:
    study = Study.open("13_heldout_semantics", target=target, client="openai")  # as the page asks
    with closing(study.target):
        for path in ablation_recordings.keep(ablations.evaluated(study), study.catalog):
            print(f"recorded: {path.parent.name}/{path.name}", flush=True)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
