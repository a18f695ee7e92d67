"""The prompt: a system message that is the same for every question, and the question, which comes last.

All but the question is one shared prefix, so an engine with a prefix cache computes it once. A prompt is
data: a text `data/prompts/<name>.md` with places for the catalog and the worked examples, and the examples
beside it in `<name>.jsonl`. Another prompt needs two more files and one more name in `PROMPTS`.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from nlqlib.nlq.catalog import Catalog, Dimension, Metric, QuestionError
from nlqlib.nlq.intent import Intent
from nlqlib.paths import DATA
from nlqlib.records import Message

FOLDER = DATA / "prompts"
PROMPTS = ("baseline", "contrastive")
"""Prompts that exist, by name."""
COMPACT_PROMPTS = ("compact_told", "compact_shown")
"""The baseline prompt asking for minified JSON: by its instruction alone, or by its worked examples too."""
PRETTY = "pretty-printed with an indent of two spaces"
MINIFIED = "minified: on one line, without a space or a line break outside of strings"
MAX_QUESTION_CHARS = 2000
"""About 450 tokens of English: with a prompt of 3,400 and 256 to answer it still fits a window of 4,096."""
SYNONYMS_SHOWN = 5
"""Plain words given for each metric and dimension; the rest would buy little and cost a longer prompt."""


class EmptyQuestion(QuestionError):
    """A question without a word in it."""


class LongQuestion(QuestionError):
    """A question that is longer than `MAX_QUESTION_CHARS`."""


class UnknownPrompt(QuestionError):
    """A prompt that does not exist."""


@dataclass(frozen=True)
class Example:
    """A worked example: a question, its intent and, where it has one, a remark that stands before it."""

    question: str
    intent: Intent
    note: str = ""


def build_messages(question: str, catalog: Catalog, prompt: str = "baseline") -> tuple[Message, ...]:
    """The system message of `prompt` and the `question`.

    Raises `EmptyQuestion`, `LongQuestion` or `UnknownPrompt`, all before anything is sent.
    """
    asked = clean(question)
    return (
        {"role": "system", "content": system_text(catalog, prompt)},
        {"role": "user", "content": f"Question: {asked}"},
    )


def clean(question: str) -> str:
    """`question` on one line, without marks that a chat template would take for its own.

    Raises `EmptyQuestion` or `LongQuestion`.
    """
    asked = " ".join(question.split())
    if not any(c.isalnum() for c in asked):
        raise EmptyQuestion("the question is empty; ask for a metric, such as: revenue by region in 2024")
    if len(question) > MAX_QUESTION_CHARS:
        raise LongQuestion(
            f"the question has {len(question):,} characters; {MAX_QUESTION_CHARS:,} are allowed: shorten it"
        )
    return re.sub(r"<\|(\w*)\|>", r"< |\1| >", asked)


def prompt_sha256(catalog: Catalog, prompt: str = "baseline") -> str:
    """SHA-256 of everything but the question."""
    return hashlib.sha256(system_text(catalog, prompt).encode()).hexdigest()


def system_text(catalog: Catalog, prompt: str = "baseline") -> str:
    """The system message of `prompt`, with the catalog and the examples filled in. Raises `UnknownPrompt`."""
    text, shown = _files("baseline" if prompt in COMPACT_PROMPTS else prompt)
    if prompt in COMPACT_PROMPTS:
        text = text.replace(PRETTY, MINIFIED)
    return filled(text, catalog, shown, indent=None if prompt == "compact_shown" else 2)


def filled(text: str, catalog: Catalog, shown: Iterable[Example] = (), indent: int | None = 2) -> str:
    """`text` with the places for the catalog and for the examples `shown` filled in.

    `indent`: spaces of the examples' answers; `None`: minified.
    """
    places = {
        "today": f"{catalog.today:%A}, {catalog.today}",
        "first_day": str(catalog.first_day),
        "week_start": catalog.week_start,
        "currency": catalog.currency,
        "metrics": "\n".join(map(_metric_line, catalog.metrics.values())),
        "dimensions": "\n".join(map(_dimension_line, catalog.dimensions.values())),
        "reach": _reach(catalog),
        "examples": "\n\n".join(_example_text(one, indent) for one in shown),
    }
    return re.sub(r"<<(\w+)>>", lambda place: places[place[1]], text).strip()


def examples(prompt: str = "baseline") -> tuple[Example, ...]:
    """The worked examples of `prompt`. Raises `UnknownPrompt`."""
    return _files(prompt)[1]


@lru_cache(maxsize=8)
def _files(prompt: str) -> tuple[str, tuple[Example, ...]]:
    if prompt not in PROMPTS:
        raise UnknownPrompt(f"there is no prompt {prompt!r}; there are {', '.join(PROMPTS)}")
    lines = (FOLDER / f"{prompt}.jsonl").read_text("utf-8").splitlines()
    return (FOLDER / f"{prompt}.md").read_text("utf-8"), tuple(map(_example, lines))


def _example(line: str) -> Example:
    raw = json.loads(line)
    return Example(raw["question"], Intent.model_validate(raw["intent"]), raw.get("note", ""))


def _example_text(example: Example, indent: int | None) -> str:
    note = f"{example.note}\n" if example.note else ""
    return f"{note}Question: {example.question}\n{example.intent.text(indent)}"


def _metric_line(metric: Metric) -> str:
    return f"- {metric.name} ({metric.unit}): {metric.description}. Also: {_some(metric.synonyms)}."


def _dimension_line(dimension: Dimension) -> str:
    values = f" Values: {', '.join(dimension.values)}." if dimension.values else ""
    return f"- {dimension.name}: {dimension.description}. Also: {_some(dimension.synonyms)}.{values}"


def _some(words: Iterable[str]) -> str:
    return ", ".join(list(words)[:SYNONYMS_SHOWN])


def _reach(catalog: Catalog) -> str:
    """A sentence for each dimension that not every metric reaches."""
    sentences = []
    for dimension in catalog.dimensions:
        able = [m for m in catalog.metrics if catalog.reaches(m, dimension)]
        if len(able) < len(catalog.metrics):
            sentences.append(f"Only {' and '.join(able)} can be split or filtered by {dimension}.")
    return " ".join(sentences)
