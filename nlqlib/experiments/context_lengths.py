"""ISL and OSL: prompt and answer lengths of every question on file, and what a piece of a prompt costs.

Prompts are counted by the exact tokenizer. Answers are recorded ones, with the token count of the server that
gave them. Where another model than the recorded one is served, its own answers count: those to the largest
limit that was measured, and its own counts of the prompts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from nlqlib import paths, tokens
from nlqlib.analysis.headroom import TAIL_QUANTILE, Tail, tail
from nlqlib.artifacts import Record
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import SET
from nlqlib.nlq import prompt as prompts
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.form import classify_answer
from nlqlib.records import ANSWERED, ChatRequest, Outcome
from nlqlib.serving.target import TargetError
from nlqlib.serving.twin_target import recordings
from nlqlib.twin.recordings import Recordings

T = TypeVar("T")
SETS = ("dev", "holdout", "adversarial")
PROMPTS = ("baseline", "contrastive")


@dataclass(frozen=True)
class Length:
    """One question: tokens of its prompt and of its recorded answer."""

    source: str
    """The set: `dev`, `holdout` or `adversarial`."""
    prompt: str
    question: str
    isl: int
    osl: int | None
    """`None`: no answer is on file."""
    outcome: Outcome | None

    @property
    def whole(self) -> bool:
        """Is the answer valid: ended by itself, JSON, by the schema?"""
        return self.outcome == "ok"


@lru_cache(maxsize=1)
def lengths() -> tuple[Length, ...]:
    """Every question of every set under both prompts."""
    catalog, known = load_catalog(), _recorded()
    return tuple(
        _length(source, prompt, request, known)
        for prompt in PROMPTS
        for source in SETS
        for request in requests(load_questions(source, catalog), CONDITIONS[prompt], catalog)
    )


def _recorded() -> Recordings | None:
    """What is recorded; `None` where nothing is."""
    try:
        return recordings()
    except TargetError:
        return None


def _length(source: str, prompt: str, request: ChatRequest, known: Recordings | None) -> Length:
    isl = tokens.count_chat(request.messages)
    found = known.find(request.body(known.model)) if known else None
    if found is None:
        return Length(source, prompt, request.request_id, isl, None, None)
    outcome, _ = classify_answer(found.text, found.finish_reason, request.contract)
    return Length(source, prompt, request.request_id, isl, len(found.token_ids), outcome)


def speaker() -> str:
    """The model whose answers are on file."""
    known = _recorded()
    return known.model if known else "nobody"


def own_words(study: Study) -> bool:
    """Are the recorded answers those of the model that this target serves or replays?"""
    return study.target.speaker == speaker()


def asked(study: Study, capped: Sequence[Record]) -> list[Length]:
    """What decides on `study`: recorded lengths of its own model, else those of the points `capped`."""
    if own_words(study) or not capped:
        return of("baseline")
    return measured(max(capped, key=lambda r: int(r.params["max_tokens"])))


def measured(record: Record) -> list[Length]:
    """What came back under one limit; a prompt that the server did not count is counted here."""
    known = {x.question: x.isl for x in of("baseline", SET)}
    return [
        Length(SET, "baseline", row["id"], row["prompt_tokens"] or known[row["id"]], made, row["outcome"])
        for row in record.samples()
        if not row["unknown"]
        for made in [row["output_tokens"] if row["outcome"] in ANSWERED else None]
    ]


def of(prompt: str, source: str = "") -> list[Length]:
    """The lengths under one prompt, of one set or of all."""
    return [x for x in lengths() if x.prompt == prompt and source in ("", x.source)]


def whole(found: Iterable[Length]) -> list[int]:
    """Tokens of the valid answers."""
    return [x.osl for x in found if x.whole and x.osl is not None]


def cut(found: Iterable[Length]) -> int:
    """How many answers were cut where they were recorded."""
    return sum(x.outcome == "length" for x in found)


def answers_tail(found: Sequence[Length], quantile: float = TAIL_QUANTILE) -> Tail:
    """The tail of the valid answers."""
    return tail(whole(found), cut(found), quantile)


def longest_prompt(found: Iterable[Length]) -> int:
    """Tokens of the longest prompt."""
    return max(x.isl for x in found)


@dataclass(frozen=True)
class Piece:
    """One kind of thing a prompt lists: how many it has, and what one more adds on average. Tokens."""

    name: str
    count: int
    tokens_each: float


@lru_cache(maxsize=4)
def pieces(prompt: str = "baseline") -> tuple[Piece, ...]:
    """Metrics, dimensions and worked examples, each measured by leaving it out of the prompt."""
    catalog = load_catalog()
    here, shown = _system(catalog, prompt), prompts.examples(prompt)
    text = (paths.DATA / "prompts" / f"{prompt}.md").read_text("utf-8")
    without = {
        "metric": [
            _system(replace(catalog, metrics=_less(catalog.metrics, m)), prompt) for m in catalog.metrics
        ],
        "dimension": [
            _system(replace(catalog, dimensions=_less(catalog.dimensions, d)), prompt)
            for d in catalog.dimensions
        ],
        "worked example": [
            _count(prompts.filled(text, catalog, [e for e in shown if e is not gone])) for gone in shown
        ],
    }
    return tuple(
        Piece(name, len(counts), here - sum(counts) / len(counts)) for name, counts in without.items()
    )


def _less(found: Mapping[str, T], name: str) -> dict[str, T]:
    return {k: v for k, v in found.items() if k != name}


def _system(catalog: Catalog, prompt: str) -> int:
    return _count(prompts.system_text(catalog, prompt))


def _count(text: str) -> int:
    return len(tokens.encode(text))
