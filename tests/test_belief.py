"""Which kind a model takes a question for: read from its word or tokens, freed of what it likes anyway."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlqlib import paths
from nlqlib.nlq.belief import (
    LABELS,
    Belief,
    calibrated,
    label_logprobs,
    prior_of,
    priors,
    read_belief,
)
from nlqlib.records import Completion
from nlqlib.tokens import encode

unhurried = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def said(text: str, *tokens: dict[str, Any], model: str | None = None) -> Completion:
    return Completion("q", "ok", text, "stop", model=model, logprobs=tokens or None)


def token(text: str, **others: float) -> dict[str, Any]:
    return {"token": text, "top_logprobs": [{"token": t, "logprob": p} for t, p in others.items()]}


def test_the_first_token_of_every_label_is_its_own() -> None:
    assert len({encode(label)[0] for label in LABELS}) == len(LABELS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ranking", "top_n_by_metric"),
        ('{"kind": "series"}', "time_series"),
        (" Breakdown.", "breakdown"),
        ("it depends", None),
        ("", None),
    ],
)
def test_the_kind_is_read_from_a_word_or_from_json(text: str, kind: str | None) -> None:
    assert read_belief(said(text)) == Belief(kind, None, kind)  # type: ignore[arg-type]


def test_the_margin_is_between_the_first_tokens_of_the_labels() -> None:
    told = token("ranking", ranking=-0.2, **{"break": -2.2, " Ranking": -5.0, "the": -6.0})
    found = read_belief(said("ranking", told))
    ranking = math.log(math.exp(-0.2) + math.exp(-5.0))  # both tokens begin the label
    assert label_logprobs([told]) == {
        "breakdown": -2.2,
        "top_n_by_metric": pytest.approx(ranking),
        "time_series": -6.0,  # none begins it: at most the least of them
    }
    assert found.margin("breakdown") == pytest.approx(ranking + 2.2)
    assert found.margin("top_n_by_metric") == 0.0


def test_the_label_is_found_inside_json() -> None:
    opening, label = token('{"', **{'{"': -0.1}), token("series", series=-0.5, ranking=-1.0)
    found = read_belief(said('{"kind": "series"}', opening, token("kind", kind=-0.1), label))
    assert found.margin("top_n_by_metric") == pytest.approx(0.5)


def test_without_log_probabilities_there_is_no_margin() -> None:
    assert read_belief(said("ranking")).margin("breakdown") is None
    assert read_belief(said("ranking", {"token": "ranking", "top_logprobs": []})).margin("breakdown") is None


# --- calibration ---

QWEN = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
scores = st.fixed_dictionaries({kind: st.floats(-20, 0) for kind in LABELS.values()})


def test_a_model_that_likes_one_label_is_freed_of_it() -> None:
    told = token("ranking", ranking=-0.31, series=-1.84, **{"break": -2.22})  # `refunds by channel`, recorded
    raw, freed = read_belief(said("ranking", told)), read_belief(said("ranking", told, model=QWEN))
    assert (raw.kind, raw.said) == ("top_n_by_metric", "top_n_by_metric")
    assert (freed.kind, freed.said) == ("breakdown", "top_n_by_metric")


def test_an_unknown_model_is_not_calibrated() -> None:
    told = token("series", series=-0.5, ranking=-1.5, **{"break": -2.5})
    found = read_belief(said("series", told, model="some/other"))
    assert found.kind == "time_series" and found.margin("breakdown") == pytest.approx(2.0)


@unhurried
@given(scores)
def test_calibrated_probabilities_add_up_to_one_and_no_prior_moves_no_margin(told: Any) -> None:
    found = calibrated(told, {})
    assert sum(math.exp(p) for p in found.values()) == pytest.approx(1.0)
    top = max(told.values())
    assert max(found, key=found.__getitem__) in [k for k, p in told.items() if p >= top - 1e-9]


@unhurried
@given(st.lists(scores, min_size=1, max_size=9))
def test_a_prior_is_the_logarithm_of_mean_probabilities(told: list[Any]) -> None:
    found = prior_of(told)
    for kind in LABELS.values():
        assert math.exp(found[kind]) == pytest.approx(sum(math.exp(one[kind]) for one in told) / len(told))


def test_the_prior_that_is_used_is_that_of_the_recorded_development_questions() -> None:
    folder = paths.RECORDINGS / "qwen2.5-coder-1.5b-instruct"
    lines = (folder / "dev-planner-structured_outputs.jsonl").read_text("utf-8").splitlines()
    kinds = [row for line in lines if (row := json.loads(line))["about"]["step"] == "kind"]
    told = [label_logprobs(row["logprobs"]) for row in kinds]
    fitted = prior_of([one for one in told if one is not None])
    assert len(kinds) == 20
    assert priors()[QWEN] == {kind: pytest.approx(p, abs=0.1) for kind, p in fitted.items()}
