"""Question sets: one JSON line each, with the intents that answer the question."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.files import text_lines
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.intent import Intent, parse_intent
from nlqlib.records import Workload


@dataclass(frozen=True)
class Question:
    """A question with its golds: the first is the one we would write, the others are as good."""

    id: str
    question: str
    golds: tuple[Intent, ...]
    cluster: str = ""
    slice: str = ""


def load_questions(source: str | Path, catalog: Catalog | None = None) -> list[Question]:
    """The set called `source` (`dev`, `holdout` …) or the questions in that file.

    Raises `QuestionError` naming the line that cannot be used.
    """
    path = set_path(source)
    known = catalog or load_catalog()
    found = [_parse(line, f"{path.name}, line {i}", known) for i, line in _lines(path)]
    ids = [q.id for q in found]
    twice = next((i for i in ids if ids.count(i) > 1), None)
    if twice is not None:
        raise QuestionError(f"{path.name}: the id {twice} stands there twice")
    if not found:
        raise QuestionError(f"{path.name} holds no question")
    return found


def question_workload(source: str | Path, n: int | None = None) -> Workload:
    """The identity of a set, or of its first `n` questions, for artifacts."""
    path = set_path(source)
    lines = [line for _, line in _lines(path)][:n]
    return Workload(path.stem, hashlib.sha256("\n".join(lines).encode()).hexdigest(), len(lines))


def asked_workload(source: str | Path) -> Workload:
    """The identity of what a set asks, without its golds: another gold voids no answer."""
    lines = [json.loads(line) for _, line in _lines(set_path(source))]
    asked = "\n".join(json.dumps([str(row["id"]), row["question"]]) for row in lines)
    return Workload(set_path(source).stem, hashlib.sha256(asked.encode()).hexdigest(), len(lines))


def set_path(source: str | Path) -> Path:
    """The file of the set called `source`, or `source` itself where it is a .jsonl file."""
    path = Path(source)
    return path if path.suffix == ".jsonl" else paths.QUESTIONS / f"{source}.jsonl"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise QuestionError(f"cannot read the questions in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise QuestionError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    return ((i, line) for i, line in enumerate(text_lines(text), start=1) if line.strip())


def _parse(line: str, where: str, catalog: Catalog) -> Question:
    try:
        row = json.loads(line)
        golds = [row["gold"], *row.get("accept", [])]
        parsed = tuple(parse_intent(json.dumps(g), catalog) for g in golds)
        return Question(str(row["id"]), row["question"], parsed, row.get("cluster", ""), row.get("slice", ""))
    except json.JSONDecodeError as error:
        raise QuestionError(f"{where}: not JSON ({error.msg})") from error
    except RecursionError as error:
        raise QuestionError(f"{where}: nested deeper than any question; take the brackets out") from error
    except (KeyError, TypeError) as error:
        raise QuestionError(f"{where}: needs id, question and gold ({error})") from error
    except QuestionError as error:
        raise QuestionError(f"{where}: {error}") from error
