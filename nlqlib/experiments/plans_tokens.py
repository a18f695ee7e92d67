"""How long prompts and answers of a planned point are, by its way of asking: from what was recorded of it.

The planner's two prompts are an eighth and a half as long as the one that shows the whole catalog. The twin
refuses at once what was never recorded: that is no request.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nlqlib import paths
from nlqlib.experiments.study import Spec
from nlqlib.records import Json

PROMPT_TOKENS = 3_320
OUTPUT_TOKENS = 115
"""Of the article's requests: what every load sends."""
SAMPLE = "dev"
"""The set whose recordings say how long a way of asking is."""


@dataclass(frozen=True)
class Sizes:
    """Requests of a point, and the mean tokens of each."""

    requests: int
    prompt: float
    output: float


def sizes(spec: Spec, kind: str, folder: Path = paths.RECORDINGS) -> Sizes:
    """What `spec` sends to a target of `kind`, by its own parameters, else as recorded, else as usual."""
    asked, plain = spec.params, _plain(spec.params)
    if not isinstance(asked.get("prompt"), str):
        return Sizes(spec.requests, *plain)
    way = (str(asked["prompt"]), str(asked.get("contract") or "structured_outputs"))
    like = recorded(SAMPLE, *way, folder)
    prompt, output = (like.prompt, like.output) if like else plain
    requests = spec.requests
    if kind == "twin" and "requests_sha256" in asked:
        there = recorded(spec.name.removeprefix("answers-").removesuffix(f"-{way[0]}"), *way, folder)
        requests = min(requests, there.requests if there else 0)
    return Sizes(requests, prompt, float(asked.get("output_tokens") or output))


def _plain(asked: Json) -> tuple[float, float]:
    """Tokens of prompt and answer as the parameters state them, else those of the article."""
    told = asked.get("prompt") or asked.get("built_for")
    prompt = told if isinstance(told, int) else PROMPT_TOKENS
    return float(prompt), float(asked.get("output_tokens") or OUTPUT_TOKENS)


@lru_cache(maxsize=64)
def recorded(source: str, prompt: str, contract: str, folder: Path = paths.RECORDINGS) -> Sizes | None:
    """How many requests of a set were recorded in one way, and their means; `None`: never."""
    found = sorted(folder.glob(f"*/{source}-{prompt}-{contract}.jsonl"))
    rows = [json.loads(line) for path in found for line in path.read_text("utf-8").splitlines()]
    if not rows:
        return None
    prompts = [row["prompt_tokens"] for row in rows if row.get("prompt_tokens")]
    answers = [len(row["token_ids"]) for row in rows]
    mean = sum(prompts) / len(prompts) if prompts else float(PROMPT_TOKENS)
    return Sizes(len(rows), mean, sum(answers) / len(answers))
