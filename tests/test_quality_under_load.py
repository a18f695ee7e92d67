"""Answers under load beside those given alone: what is the same, where they part, what is constructed."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from model_world import END, Scripted
from starlette.requests import Request
from starlette.responses import Response
from test_heldout import DEV, ranked

from nlqlib import plots, tokens
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import quality_under_load as quality
from nlqlib.experiments import quality_under_load_compare as compared
from nlqlib.experiments import quality_under_load_page as page
from nlqlib.experiments.quality_under_load import Quality
from nlqlib.experiments.quality_under_load_compare import Level
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target

PARAMS = {"concurrencies": [1, 16, 32], "n_questions": 0, "logprobs": 2}
TURNS, SPELT = DEV[0].question, DEV[1].question
"""Under load the first becomes a ranking; the second gets another evidence, which changes nothing."""
ALONE = 1 + 2 * 4
"""Requests of the level alone with four questions: a warm-up, and each question twice."""


@dataclass
class Unsteady(Scripted):
    """A model that says something else of two questions in the level under load, which follows the one alone.

    How many happen to be in flight when one is answered hangs on the machine, and is not asked.
    """

    served: int = 0

    @property
    def loaded(self) -> bool:
        """Is the level alone over, its warm-up included?"""
        return self.served > ALONE

    async def chat(self, request: Request) -> Response:
        self.served += 1
        await asyncio.sleep(0.005)
        return await super().chat(request)

    def _answer(self, body: dict[str, Any], question: str) -> tuple[str, dict[str, Any]]:
        intent = dict(self.intents[question])
        if self.loaded and question == TURNS:
            intent = ranked(intent)
        if self.loaded and question == SPELT:
            intent["evidence"] = ""
        return json.dumps(intent, indent=2), {}

    def _completion(self, body: dict[str, Any], question: str) -> dict[str, Any]:
        made = super()._completion(body, question)
        choice = made["choices"][0]
        ids = [*tokens.encode(choice["message"]["content"]), END]
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [self._token(i, n) for n, i in enumerate(ids)]}
        return made

    def _token(self, token: int, place: int) -> dict[str, Any]:
        """Every tenth token has a rival, the first of them 0.02 nats behind; a grammar forbids all others."""
        said, rival = tokens.decode([token]), -0.12 if place == 10 else -2.1
        other = {"token": "other", "logprob": rival if place % 10 == 0 else -9999.0}
        return {"token": said, "logprob": -0.1, "top_logprobs": [{"token": said, "logprob": -0.1}, other]}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    model = Unsteady({q.question: q.golds[0].wire() for q in DEV})
    root = tmp_path_factory.mktemp("quality")
    return Study(quality.NOTEBOOK, model.target(), "full", "wire", Store(root))


@pytest.fixture(scope="module")
def records(study: Study) -> list[Record]:
    return quality.under_load(study, [1, 4], questions=4)


@pytest.fixture(scope="module")
def found(records: list[Record]) -> list[Level]:
    return compared.levels(records)


# --- what is asked ---


def test_every_question_is_asked_as_often_and_enough_of_them_are_in_flight(study: Study) -> None:
    levels = quality.qualities(study, [16, 32], 0, 2)
    assert [(x.concurrency, x.turns) for x in levels] == [(1, 2), (16, 4), (32, 8)]
    asked = quality.offered(study, levels[1])
    assert len(asked) == 80 and len({r.request_id for r in asked}) == 80
    assert {r.logprobs for r in asked} == {2}


def test_the_quick_profile_fits_two_cores(study: Study) -> None:
    quick = replace(study, profile="quick")
    levels = quality.qualities(quick, PARAMS["concurrencies"], 0, 2)
    assert [(x.concurrency, x.requests) for x in levels] == [(1, 8), (16, 24), (32, 40)]
    # 115 tokens each; tokens a second measured at 1, 16 and 32 on two cores
    rates = {1: 7.0, 16: 29.0, 32: 34.0}
    assert sum(x.requests * 115 / rates[x.concurrency] for x in levels) < 7 * 60


def test_the_plan_names_the_points_that_are_measured(study: Study, records: list[Record]) -> None:
    planned = quality.points(study, PARAMS | {"concurrencies": [4], "n_questions": 4})
    assert [spec.name for _, spec in planned] == ["quality-n01", "quality-n04"]
    assert all(where.retained(spec) for where, spec in planned)
    assert sum(spec.requests for _, spec in planned) == 8 + 1 + 20 + 1


def test_the_twin_is_asked_for_no_log_probabilities(tmp_path: Path) -> None:
    twin = Study(quality.NOTEBOOK, open_target("twin"), "full", "wire", Store(tmp_path))
    assert {x.logprobs for x in quality.qualities(twin, [1, 32], 0, 2)} == {0}


# --- what is the same ---


def test_text_intent_and_rows_are_compared_with_the_answer_given_alone(found: list[Level]) -> None:
    alone, loaded = found
    assert [alone.same(w).k for w in page.WHATS] == [4, 4, 4] and len(alone.answers) == 4
    shares = {w: (loaded.same(w).k, loaded.same(w).n) for w in page.WHATS}
    # two texts differ, one of them in meaning
    assert shares["same_text"] == (2, 4) and shares["same_intent"] == (3, 4)
    assert loaded.right.k == 3 and alone.right.k == 4
    assert loaded.peak == 4 and len(loaded.answers) == 20


def test_one_different_answer_is_enough_for_a_question_to_differ() -> None:
    one = compared.Compared("a", 0, True, True, True, True, 1.0)
    level = Level(4, (one, replace(one, turn=1, same_text=False), replace(one, question_id="b")), 0, 4)
    assert (level.same("same_text").k, level.same("same_text").n) == (1, 2)
    assert level.same("same_intent").k == 2


def test_rows_that_cannot_be_compared_are_no_share() -> None:
    one = compared.Compared("a", 0, True, True, None, True, 1.0)
    assert Level(4, (one,), 0, 4).same("same_rows").value is None


# --- where answers part ---


def test_a_parting_names_the_words_before_it_and_the_lead_of_the_token_that_turned() -> None:
    told = [{"token": '{"a": ', "lead": None}, {"token": "one", "lead": 0.02}, {"token": "}", "lead": 3.0}]
    parted = compared.parting({"text": '{"a": one}', "tokens": told}, {"text": '{"a": two}'})
    assert (parted.before, parted.alone, parted.now) == ('{"a": ', "one}", "two}")
    assert (parted.token, parted.lead) == ("one", 0.02)


def test_an_answer_that_goes_on_where_the_other_ended_parts_at_its_end() -> None:
    told = [{"token": "{}", "lead": None}, {"token": "<|im_end|>", "lead": 0.5}]
    parted = compared.parting({"text": "{}", "tokens": told}, {"text": "{} more"})
    assert (parted.alone, parted.now, parted.lead) == ("", " more", 0.5)
    assert compared.parting({"text": "a"}, {"text": "b"}).lead is None


def test_a_lead_is_over_the_likeliest_other_token_that_was_possible() -> None:
    alternatives = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.3}]
    forbidden = [{"token": "a", "logprob": 0.0}, {"token": "c", "logprob": -9999.0}]
    leads = quality.token_leads(
        [
            {"token": "a", "logprob": -0.1, "top_logprobs": alternatives},
            {"token": "a", "logprob": 0.0, "top_logprobs": forbidden},
            {"token": "a", "logprob": -0.1},
        ]
    )
    assert leads[0]["lead"] == pytest.approx(0.2)
    assert [one["lead"] for one in leads[1:]] == [None, None]


def test_the_closest_decision_of_every_answer_is_kept(records: list[Record]) -> None:
    near = compared.closest(records[0])
    assert len(near) == 4 and all(lead == pytest.approx(0.02) for lead in near.values())
    assert not any("tokens" in row for row in records[1].samples()), "one level's are enough"


# --- the page ---


def test_tables_say_what_was_measured_and_name_their_target(
    found: list[Level], records: list[Record], study: Study
) -> None:
    table = page.same_table(found, study)
    assert "Target: scripted (measured)" in table.caption
    assert list(table.frame.index) == ["1, asked again", "4"]
    assert "at 4: text 50%, intent 75%" in table.reading and "Asked alone twice: text 100%" in table.reading
    partings = page.partings_table(found, study)
    assert set(partings.frame["same intent"]) == {"yes", "no"} and partings.frame["answers"].sum() == 10
    assert page.latency_table(records, study).frame.loc[4, "answers"] == 20
    assert set(page.rules_table(records)["ok"]) == {"yes"}


def test_why_it_is_not_known_how_near_a_change_was_is_said(study: Study) -> None:
    one = compared.Compared("a", 0, False, True, True, True, 1.0)
    told = [compared.Parting("", "x", "y", token, None) for token in ("x", None)]
    levels = [[Level(4, (replace(one, parted=parting),), 0, 4)] for parting in told]
    assert "no other token was told" in page.partings_sentence(levels[0], study)
    assert "gave no log-probabilities" in page.partings_sentence(levels[1], study)
    near = Level(4, (replace(one, parted=compared.Parting("", "x", "y", "x", 0.02)),), 0, 4)
    assert "1 of 1 by at most 0.05 nats" in page.partings_sentence([near], study)


def test_figures_show_shares_and_leads(found: list[Level], records: list[Record], study: Study) -> None:
    assert plots.png(page.same_figure(found, study)).startswith(b"\x89PNG")
    assert "at 4: text 50%" in page.same_alt(found, study)
    figure = page.leads_figure(records, found, study)
    assert figure is not None and plots.png(figure).startswith(b"\x89PNG")
    assert "2 of 4 questions get another text" in page.leads_alt(records, found, study)
    assert "4 of 4 questions hold a decision closer" in page.leads_sentence(records, found)


def test_the_articles_claim_is_judged_by_texts(found: list[Level], study: Study) -> None:
    row = page.against_article(found, study).set_index("claim").loc["load.identical"]
    assert (row["value"], row["verdict"]) == ("0.5 share", "differs")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, list[Record]]]:
    twin = Study(
        quality.NOTEBOOK, open_target("twin"), "full", "wire", Store(tmp_path_factory.mktemp("twin"))
    )
    yield twin, quality.under_load(twin, [1, 8], questions=4)


def test_on_the_twin_all_is_identical_by_construction_and_confirms_nothing(
    replayed: tuple[Study, list[Record]],
) -> None:
    twin, records = replayed
    found = compared.levels(records)
    table = page.same_table(found, twin)
    assert "by construction" in table.caption and "no confirmation" in table.reading
    assert found[1].same("same_text").value == 1.0
    row = page.against_article(found, twin).set_index("claim").loc["load.identical"]
    assert row["verdict"] == "not comparable"
    assert page.leads_figure(records, found, twin) is None
    assert "no log-probabilities" in page.leads_sentence(records, found)
    assert page.partings_table(found, twin).frame.empty
    assert "modelled times" in page.latency_table(records, twin).caption


def test_a_failed_request_under_load_is_counted_and_one_alone_stops_the_page(tmp_path: Path) -> None:
    model = Unsteady({q.question: q.golds[0].wire() for q in DEV})
    study = Study(quality.NOTEBOOK, model.target(), "full", "wire", Store(tmp_path))
    model.fails = lambda question: model.loaded and question == TURNS
    found = compared.levels(quality.under_load(study, [4], questions=4))
    assert found[1].failed == 5 and found[1].same("same_text").n == 3
    model.fails = lambda question: question == TURNS
    with pytest.raises(RuntimeError, match="2 of 8 requests failed"):
        quality.under_load(replace(study, store=Store(tmp_path / "other")), [4], questions=4)


def test_a_level_is_named_for_people() -> None:
    assert Quality(8, 4, 2, 0).point == "quality-n08"


def test_what_none_of_so_few_turned_may_still_be_is_computed(found: list[Level]) -> None:
    assert "4 questions bound" in page.bound_sentence(found) and "still be 49%" in page.bound_sentence(found)
    twenty = Level(
        1, tuple(compared.Compared(str(i), 0, True, True, True, True, 1.0) for i in range(20)), 0, 1
    )
    # Wilson's bound for 0 of n is z² / (n + z²): 3.84 / 23.84
    assert page.bound_sentence([twenty]).endswith("it may still be 16%.")
    assert "nothing bounds" in page.bound_sentence([])
