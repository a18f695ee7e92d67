"""What a plan says of tokens: by the way of asking, as it was recorded, and by what a point itself states."""

import json
from pathlib import Path

import pytest

from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.plans import of_point
from nlqlib.experiments.plans_tokens import OUTPUT_TOKENS, PROMPT_TOKENS, recorded, sizes
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Spec
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.planner import kind_request, slots_request
from nlqlib.records import Json
from nlqlib.tokens import count_chat


def asking(prompt: str, source: str = "dev", requests: int = 40) -> Spec:
    params: Json = {"prompt": prompt, "contract": "structured_outputs", "requests_sha256": "0"}
    return Spec(f"answers-{source}-{prompt}", params, (), requests=requests)


def record(folder: Path, name: str, prompts: list[int], answers: list[int]) -> None:
    (folder / "model").mkdir(exist_ok=True)
    rows = [{"prompt_tokens": p, "token_ids": [0] * a} for p, a in zip(prompts, answers, strict=True)]
    text = "\n".join(map(json.dumps, rows))
    (folder / "model" / f"{name}-structured_outputs.jsonl").write_text(text, "utf-8")


def test_the_planners_prompts_are_counted_as_short_as_they_are() -> None:
    catalog, question = load_catalog(), "Revenue by region last month"
    steps = [kind_request(question, catalog), slots_request(question, "breakdown", catalog)]
    mean = sum(count_chat(r.messages) for r in steps) / 2
    told = sizes(asking("planner"), "local")
    assert told.prompt == pytest.approx(mean, rel=0.5) and told.prompt < PROMPT_TOKENS / 2
    assert told.output < OUTPUT_TOKENS


@pytest.mark.parametrize("prompt", ["baseline", "contrastive"])
def test_a_prompt_with_the_whole_catalog_is_counted_within_a_tenth(prompt: str) -> None:
    asked = requests(load_questions("dev")[:3], CONDITIONS[prompt], load_catalog())
    mean = sum(count_chat(r.messages) for r in asked) / 3
    assert sizes(asking(prompt), "url").prompt == pytest.approx(mean, rel=0.1)


def test_tokens_of_a_point_are_its_requests_times_their_means(tmp_path: Path) -> None:
    record(tmp_path, "dev-planner", [300, 500], [2, 80])
    told = sizes(asking("planner"), "url", tmp_path)
    assert (told.requests, told.prompt, told.output) == (40, 400.0, 41.0)
    plan = of_point(asking("planner"), "url")
    assert plan.requests == 40 and plan.prompt_tokens < 40 * PROMPT_TOKENS / 2


def test_on_the_twin_only_what_was_recorded_is_a_request(tmp_path: Path) -> None:
    record(tmp_path, "dev-planner", [300, 500], [2, 80])
    assert sizes(asking("planner", "holdout", 120), "twin", tmp_path).requests == 0
    assert sizes(asking("planner", "dev", 40), "twin", tmp_path).requests == 2
    assert sizes(asking("planner", "dev", 1), "twin", tmp_path).requests == 1
    assert sizes(asking("planner", "holdout", 120), "local", tmp_path).requests == 120


def test_what_is_no_request_takes_no_time() -> None:
    nothing = of_point(asking("planner", "never-recorded", 120), "twin")
    assert (nothing.requests, nothing.tokens, nothing.seconds) == (0, 0, 0)


def test_a_way_of_asking_that_was_never_recorded_counts_as_usual(tmp_path: Path) -> None:
    told = sizes(asking("planner"), "url", tmp_path)
    assert (told.prompt, told.output) == (PROMPT_TOKENS, OUTPUT_TOKENS)
    assert recorded("dev", "planner", "structured_outputs", tmp_path) is None


@pytest.mark.parametrize(
    ("params", "prompt", "output"),
    [
        ({}, PROMPT_TOKENS, OUTPUT_TOKENS),
        ({"output_tokens": 16}, PROMPT_TOKENS, 16),
        ({"output_tokens": None}, PROMPT_TOKENS, OUTPUT_TOKENS),
        ({"prompt": 800, "output_tokens": 2}, 800, 2),
        ({"built_for": 8192}, 8192, OUTPUT_TOKENS),
    ],
)
def test_what_a_point_states_itself_is_what_is_counted(params: Json, prompt: int, output: int) -> None:
    for kind in ("twin", "local", "url"):
        told = sizes(Spec("any", params, (), requests=7), kind)
        assert (told.requests, told.prompt, told.output) == (7, prompt, output)
