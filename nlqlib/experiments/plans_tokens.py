"""How long prompts and answers of a planned point are, by its way of asking: from what was recorded of it.

The planner's two prompts are an eighth and a half as long as the one that shows the whole catalog. The twin
refuses at once what was never recorded: that is no request. What is expected is a mean; what is possible is
the longest prompt, and an answer as long as its request allows.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nlqlib import paths
from nlqlib.experiments.conditions import MAX_TOKENS
from nlqlib.experiments.heldout_sets import SETS, there
from nlqlib.experiments.questions import set_path
from nlqlib.experiments.study import Spec
from nlqlib.files import text_lines
from nlqlib.records import Json

PROMPT_TOKENS = 3_320
OUTPUT_TOKENS = 115
"""Of the article's requests: what every load sends."""
SAMPLE = "dev"
"""The set whose recordings say how long a way of asking is."""


@dataclass(frozen=True)
class Sizes:
    """Requests of a point, the mean tokens of each, and the most that one can have."""

    requests: int
    prompt: float
    output: float
    longest_prompt: int
    """By Qwen2.5's count."""
    longest_output: int

    @property
    def most(self) -> int:
        """Tokens of all requests at most."""
        return self.requests * (self.longest_prompt + self.longest_output)


def sizes(spec: Spec, kind: str, folder: Path = paths.RECORDINGS, question: int = 0) -> Sizes:
    """What `spec` sends to a target of `kind`, by its own parameters, else as recorded, else as usual.

    `question`: tokens of the longest question that is not in the sample, at most.
    """
    asked, (prompt, output) = spec.params, _plain(spec.params)
    longest, allowed = _longest(asked, folder), _allowed(asked)
    more = 0 if spec.workload is None or spec.workload.name == SAMPLE else question
    if not isinstance(asked.get("prompt"), str):
        return Sizes(spec.requests, prompt, output, longest + more, allowed)
    way = (str(asked["prompt"]), str(asked.get("contract") or "structured_outputs"))
    if like := recorded(SAMPLE, *way, folder):
        prompt, output, longest = like.prompt, like.output, like.longest_prompt
    requests = spec.requests
    if kind == "twin" and "requests_sha256" in asked:
        heard = recorded(spec.name.removeprefix("answers-").removesuffix(f"-{way[0]}"), *way, folder)
        requests = min(requests, heard.requests if heard else 0)
    return Sizes(requests, prompt, float(asked.get("output_tokens") or output), longest + more, allowed)


def _plain(asked: Json) -> tuple[float, float]:
    """Tokens of prompt and answer as the parameters state them, else those of the article."""
    told = asked.get("prompt") or asked.get("built_for")
    prompt = told if isinstance(told, int) else PROMPT_TOKENS
    return float(prompt), float(asked.get("output_tokens") or OUTPUT_TOKENS)


def _allowed(asked: Json) -> int:
    """The `max_tokens` of the requests: an answer of fixed length is asked for by the same field."""
    return int(asked.get("output_tokens") or asked.get("max_tokens") or MAX_TOKENS)


def _longest(asked: Json, folder: Path) -> int:
    """Tokens of a prompt of no recorded way at most: the longest there is, or one more than a window holds.

    A shortened prompt counts as whole, since the one that comes in between is.
    """
    return max(longest_prompt(folder), int(asked.get("built_for") or 0) + 1)


@lru_cache(maxsize=8)
def longest_prompt(folder: Path = paths.RECORDINGS) -> int:
    """Tokens of the longest prompt of the sample, in any way of asking that was recorded."""
    rows = (row for path in folder.glob(f"*/{SAMPLE}-*.jsonl") for row in _rows(path))
    return max((row.get("prompt_tokens") or 0 for row in rows), default=PROMPT_TOKENS)


def longest_question(sets: Iterable[str] = ()) -> int:
    """Bytes of the longest question of our own sets and `sets`: it has at most as many tokens."""
    return max((_bytes(set_path(source)) for source in there([*SETS, *sets])), default=0)


@lru_cache(maxsize=16)
def _bytes(path: Path) -> int:
    return max((len(str(row["question"]).encode()) for row in _rows(path)), default=0)


def _rows(path: Path) -> list[Json]:
    return [json.loads(line) for line in text_lines(path.read_text("utf-8")) if line.strip()]


@lru_cache(maxsize=64)
def recorded(source: str, prompt: str, contract: str, folder: Path = paths.RECORDINGS) -> Sizes | None:
    """How many requests of a set were recorded in one way, their means, and the longest; `None`: never."""
    found = sorted(folder.glob(f"*/{source}-{prompt}-{contract}.jsonl"))
    rows = [row for path in found for row in _rows(path)]
    if not rows:
        return None
    prompts = [row["prompt_tokens"] for row in rows if row.get("prompt_tokens")] or [PROMPT_TOKENS]
    answers = [len(row["token_ids"]) for row in rows]
    means = (sum(prompts) / len(prompts), sum(answers) / len(answers))
    return Sizes(len(rows), *means, max(prompts), max(answers))
