"""The accuracy that was reached is held: the recorded answers of the real model, judged by today's rules.

Totals alone are read here, never a question, a gold or an answer of these sets.
"""

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from nlqlib.__main__ import main

QUESTIONS = {"holdout": 60, "adversarial": 45}
FINAL_STRICT = {"holdout": 0.90, "adversarial": 0.85}
PRECISION = 0.95


@pytest.fixture(scope="module", params=QUESTIONS)
def judged(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A set, and everything that is reported of the condition `cues` on it."""
    with redirect_stdout(StringIO()) as said:
        status = main(["evaluate", request.param, "--condition", "cues", "--target", "twin", "--json"])
    assert status == 0
    return request.param, json.loads(said.getvalue())


def test_every_question_is_answered_from_a_recording(judged: tuple[str, dict[str, Any]]) -> None:
    name, told = judged
    n = (told["questions"], told["failed"], told["interventions"]["answered"])
    assert n == (QUESTIONS[name], 0, QUESTIONS[name])


def test_final_strict_accuracy_reaches_its_gate(judged: tuple[str, dict[str, Any]]) -> None:
    name, told = judged
    [strict] = [share["value"] for share in told["final"] if share["name"] == "strict accuracy"]
    forced = told["forced strict accuracy"]["value"]
    assert strict == forced >= FINAL_STRICT[name]


def test_interventions_are_as_precise_as_wanted(judged: tuple[str, dict[str, Any]]) -> None:
    precision = judged[1]["interventions"]["precision"]
    n, value = precision["n"], precision["value"]
    assert n >= 10 and value >= PRECISION


def test_no_right_answer_of_holdout_is_harmed(judged: tuple[str, dict[str, Any]]) -> None:
    name, told = judged
    harm = told["interventions"]["harm"]
    k, n = harm["k"], harm["n"]
    assert n > 0 and (name != "holdout" or k == 0)
