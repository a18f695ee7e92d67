"""What the commands of the command line do. Each returns the exit status: 0 only on success."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from nlqlib.analysis.evaluation import scores
from nlqlib.experiments.plans import PLANS
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.recording import CONTRACTS as RECORDED_CONTRACTS
from nlqlib.experiments.recording import record as record_answers
from nlqlib.experiments.semantics import ask_all, condition, executor, judge
from nlqlib.files import write_atomic
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.intent import Intent, intent_of
from nlqlib.nlq.pipeline import Answer, answer, contracts
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Completion, Json
from nlqlib.reproduce import main as run_notebooks
from nlqlib.serving.target import Target, open_target

SHOWN_ROWS = 40


class InputError(ValueError):
    """A file or an argument that cannot be used."""


def ask(question: str, target: str, as_json: bool) -> int:
    """Answer one question: intent, SQL and rows, or the stage at which it failed."""
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_target(target, progress=_tell)))
        warehouse = stack.enter_context(open_warehouse())
        catalog = warehouse.lookups(load_catalog())
        contract = contracts(catalog)["structured_outputs"]

        async def go() -> Answer:
            client = opened.client("openai")
            try:
                return await answer(question, client.complete, catalog, warehouse, contract=contract)
            finally:
                await client.aclose()

        found = opened.run(go())
    if found.result is None or found.final is None:
        print(f"nlqlib: no answer; {found.error}", file=sys.stderr)
        return 1
    _show(_answered(found.final, found.result, _words_of(opened)), as_json, found.result)
    return 0


def _words_of(target: Target) -> str:
    return f"{target.tag}, target {target.name}, model {target.speaker or 'as served'}"


def sql(path: str, as_json: bool) -> int:
    """The SQL, bound values and rows of the intent in `path`."""
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        intent = _intent(path, catalog)
        result = execute(build(intent, catalog), warehouse)
    _show(_answered(intent, result, None), as_json, result)
    return 0


def _intent(path: str, catalog: Catalog) -> Intent:
    return intent_of(read_json(path), catalog)


def read_json(path: str) -> Any:
    """The JSON document in `path` (`-`: standard input). Raises `InputError`."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        return json.loads(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def _answered(intent: Intent, result: Result, words_of: str | None) -> Json:
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


def _show(answered: Json, as_json: bool, result: Result) -> None:
    if as_json:
        print(json.dumps(answered, indent=2, ensure_ascii=False, default=str))
        return
    if "answer" in answered:
        print(f"answer: {answered['answer']}")
    print(f"intent: {json.dumps(answered['intent'], ensure_ascii=False)}\n")
    print(f"{answered['sql']}\n\nbound values: {', '.join(answered['values'])}\n")
    print(f"{answered['interpretation']}\n")
    print(table(result))


def table(result: Result) -> str:
    """The rows as text, with units in the headings; the first 40 of many."""
    names = [f"{c.name} ({c.unit})" if c.unit else c.name for c in result.columns]
    shown = pd.DataFrame(list(result.rows[:SHOWN_ROWS]), columns=names).to_string(
        index=False, na_rep="(none)"
    )
    left = len(result.rows) - SHOWN_ROWS
    return shown + (f"\n… and {left} more rows (all of them with --json)" if left > 0 else "")


def evaluate(source: str, target: str, name: str, concurrency: int, out: str | None, as_json: bool) -> int:
    """Judge every question of `source` under the condition `name`; 1 when a request failed."""
    how = condition(name)
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_target(target, progress=_tell)))
        warehouse = stack.enter_context(open_warehouse())
        catalog = warehouse.lookups(load_catalog())
        questions = load_questions(source, catalog)
        completions: list[Completion] = opened.run(ask_all(opened, questions, how, catalog, concurrency))[0]
        rows_of = executor(warehouse, catalog)
        pairs = [judge(q, c, catalog, rows_of) for q, c in zip(questions, completions, strict=True)]
    if out:
        lines = [json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for _, row in pairs]
        write_atomic(Path(out), "".join(lines).encode())
    found = scores([judged for judged, _ in pairs])
    failed = len(pairs) - next(s.n for s in found if s.name == "kind accuracy")
    if as_json:
        told = {"condition": name, "questions": len(pairs), "failed": failed, "answers": _words_of(opened)}
        print(json.dumps(told | {"scores": [vars(s) for s in found]}, indent=2))
    else:
        print(f"{len(pairs)} questions, condition {name}; {_words_of(opened)}; failed requests: {failed}\n")
        print(pd.DataFrame([vars(s) for s in found]).to_string(index=False, float_format="{:.3f}".format))
    return 1 if failed else 0


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


def record(target: str, source: str, contract: str | None, concurrency: int) -> int:
    """Record the answers of a real model under one output contract or all, and say where they are."""
    with closing(open_target(target, progress=_tell)) as opened:
        for name in (contract,) if contract else RECORDED_CONTRACTS:
            path = record_answers(opened, source, name, concurrency=concurrency)
            print(f"recorded: {path.parent.name}/{path.name}", flush=True)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
