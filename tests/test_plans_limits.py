"""MAX_TOKENS is held against what a run can take at most: never less than what any retained run took."""

import json
from pathlib import Path

import pytest

from nlqlib import paths, reproduce
from nlqlib.artifacts import Record
from nlqlib.experiments import sweep_limits
from nlqlib.experiments.conditions import CONDITIONS, MAX_TOKENS, requests
from nlqlib.experiments.plans import PLANS, of_point, points
from nlqlib.experiments.plans_tokens import longest_prompt, longest_question, sizes
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import levels
from nlqlib.nlq.catalog import load_catalog
from nlqlib.notebook_params import declared
from nlqlib.plan import Asked, LimitError, Plan, check_limits, most_line
from nlqlib.records import Json, Workload
from nlqlib.serving.target import TargetError
from nlqlib.tokens import count_chat

URL = "http://127.0.0.1:9/v1"
PROFILES = {"twin": "full", "local": "quick"}
STAIRCASE = "02_serialization_staircase"
"""Its controls are sent to servers of our own."""


def asked(notebook: str, target: str, profile: str = "full", **params: object) -> Asked:
    own = declared(paths.NOTEBOOKS / f"{notebook}.ipynb")
    return Asked(notebook, target, profile, None, {**own, **params}, remeasure=True)


def took(record: Record) -> int:
    """Prompt and output tokens of the rows that a point kept; what was warmed up is not among them."""
    kept = ("prompt_tokens", "output_tokens")
    return sum(int(row.get(name) or 0) for row in record.samples() for name in kept)


@pytest.mark.parametrize("target", sorted(PROFILES))
@pytest.mark.parametrize("notebook", sorted(PLANS))
def test_no_retained_point_took_more_than_it_may_at_most(notebook: str, target: str) -> None:
    told = asked(notebook, target, PROFILES[target])
    study = Study.open(notebook, target, told.profile)
    question = longest_question()
    for where, spec in points(study, told):
        record = where.store.find(where.key(spec))
        if record is not None and record.status == "success":
            assert took(record) <= of_point(spec, target, question).most_tokens, spec.name
            sent = int((record.body["requests"] or {}).get("total") or 0)
            assert sent <= spec.requests or notebook == STAIRCASE, spec.name


@pytest.mark.parametrize("words", ["synthetic", "recordings"])
def test_a_load_is_bounded_as_the_sweep_command_bounds_it(tmp_path: Path, words: str) -> None:
    study = Study.open("any", URL)
    for level in levels(study, "dense", (1, 8, 32), words=words):  # type: ignore[arg-type]
        exact = sweep_limits.most_tokens(study, [level])
        bound = of_point(sweep_limits.spec_of(level), "url").most_tokens
        assert exact <= bound <= 1.15 * exact  # warming is counted as if it were answered at length


def test_a_url_is_planned_by_usual_answers_and_limited_by_the_longest_it_allows() -> None:
    plan = PLANS["06_saturation"](asked("06_saturation", URL))
    assert plan.output_tokens == 115 * plan.requests
    assert plan.most_tokens >= plan.requests * (3_326 + MAX_TOKENS) > 1.03 * plan.tokens
    with pytest.raises(LimitError, match=r"may need [0-9,]+ but MAX_TOKENS allows"):
        check_limits({"06": plan}, None, plan.tokens)
    check_limits({"06": plan}, plan.requests, plan.most_tokens)


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({}, 256),
        ({"output_tokens": 16}, 16),
        ({"output_tokens": None, "concurrency": 8}, 256),
        ({"max_tokens": 512, "window": 0}, 512),
        ({"max_tokens": 64}, 64),
        ({"prompt": 800, "output_tokens": 2}, 2),
    ],
)
def test_an_answer_is_as_long_as_its_request_allows(params: Json, allowed: int) -> None:
    told = sizes(Spec("any", params, (), requests=7), "url")
    assert told.longest_output == allowed
    assert told.most == 7 * (longest_prompt() + allowed)


def test_a_prompt_that_fills_a_window_is_counted_with_what_goes_beyond() -> None:
    assert sizes(Spec("any", {"built_for": 8192}, (), requests=1), "url").longest_prompt == 8193


def test_no_prompt_of_the_sample_is_longer_than_the_longest() -> None:
    ways = [CONDITIONS[name] for name in ("baseline", "contrastive")]
    made = [r for how in ways for r in requests(load_questions("dev"), how, load_catalog())]
    assert longest_prompt() == max(count_chat(r.messages) for r in made)


def test_a_longer_question_of_another_set_makes_its_prompts_longer(tmp_path: Path) -> None:
    asked_of = tmp_path / "mine.jsonl"
    asked_of.write_text(json.dumps({"id": "1", "question": "ü" * 900}) + "\n", "utf-8")
    assert longest_question([str(asked_of)]) == 1800 > longest_question() > 0
    params: Json = {"prompt": "baseline", "contract": "structured_outputs", "max_tokens": MAX_TOKENS}
    mine, dev = (Spec("any", params, (), Workload(n, "0", 1), requests=1) for n in ("mine", "dev"))
    assert sizes(mine, "url", question=1800).most - sizes(dev, "url", question=1800).most == 1800
    assert sizes(dev, "url").longest_prompt == 3_326


def test_a_bound_is_added_up_said_and_part_of_the_plan_as_json() -> None:
    both = Plan(1, 60, 40, 1.0, 20) + Plan(1, 60, 40, 1.0, 5)
    assert (both.tokens, both.most_tokens) == (200, 225)
    assert both.to_json()["most_tokens"] == 225
    assert most_line({"a": both, "b": None}).startswith("at most 225 tokens")
    assert most_line({"a": Plan()}) == ""


@pytest.mark.parametrize(
    ("notebook", "params", "said"),
    [
        ("17_control_to_signal", {"cell": "low/low"}, "17_control_to_signal: a cell is one of standard, "),
        ("03_admission", {"cell": "lo/hi"}, "03_admission: a cell is one of low/low, "),
        ("10_context_budget", {"deployed": 1234}, "10_context_budget: deployed is one of"),
    ],
)
def test_parameters_are_refused_while_it_is_planned_by_the_page_that_cannot_use_them(
    notebook: str, params: Json, said: str
) -> None:
    with pytest.raises(TargetError, match=f"^{said}"):
        PLANS[notebook](asked(notebook, URL, **params))


def test_a_cell_of_one_page_that_another_does_not_know_stops_the_run_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = reproduce.Places(build=tmp_path)
    argv = ["reproduce", "--target", URL, "-p", "cell=low/low", "--notebooks", "03,17"]
    with pytest.raises(TargetError, match=r"^17_control_to_signal: a cell is one of"):
        reproduce.main(argv, plans=PLANS, places=places)
    assert list(tmp_path.iterdir()) == []
