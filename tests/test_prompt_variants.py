"""Prompt variants: meaningful, shared to the planned degree, and near the article's hit rates."""

from dataclasses import replace
from functools import cache

import pytest

from nlqlib.analysis.prefix_cache import lookups
from nlqlib.experiments.prefix import REQUESTS
from nlqlib.experiments.prompt_variants import (
    ARTICLE_RATES,
    COLD,
    DIVERSE,
    LEADING,
    SCENARIOS,
    SHORT,
    VARIED,
    WARM,
    Making,
    Schedule,
    article_rate,
    inserted,
    schedule,
    short_prompt,
    system_prompt,
)
from nlqlib.experiments.questions import load_questions
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.prompt import build_messages, examples

QUESTIONS = tuple(q.question for q in load_questions("dev"))
FULL = system_prompt(load_catalog())
EVERY = (*SCENARIOS, SHORT)


def making(scenario: str, block: int = 16) -> Making:
    if block == 128:
        system = short_prompt(load_catalog()) if scenario == SHORT else system_prompt(load_catalog(), 2)
        return Making(system, QUESTIONS[:4], REQUESTS["quick"][scenario], 128, "s", 0)
    system = short_prompt(load_catalog()) if scenario == SHORT else FULL
    return Making(system, QUESTIONS, REQUESTS["full"][scenario], block, "s", 0)


@cache
def planned(scenario: str, block: int = 16) -> Schedule:
    return schedule(scenario, making(scenario, block))


def systems(found: Schedule) -> list[str]:
    return [chat.messages[0]["content"] for chat in found.measured]


# ---- what is sent ----------------------------------------------------------------------------------------


def test_the_unchanged_prompt_is_that_of_the_workload() -> None:
    assert planned(WARM).measured[3].messages == build_messages(QUESTIONS[3], load_catalog())


def test_a_shorter_prompt_leaves_out_worked_examples_and_nothing_else() -> None:
    shorter, shown = system_prompt(load_catalog(), 2), examples("baseline")
    assert FULL.startswith(shorter)
    assert shown[1].question in shorter and shown[2].question not in shorter


def test_the_shortest_prompt_is_the_beginning_of_the_real_one() -> None:
    shortest = short_prompt(load_catalog())
    assert FULL.startswith(shortest) and len(shortest) < 0.6 * len(FULL)
    assert "# The intent" in shortest and "# Rules" not in shortest


@pytest.mark.parametrize("scenario", [DIVERSE, LEADING])
def test_a_varied_prompt_keeps_every_line_of_the_real_one_and_adds_who_asks(scenario: str) -> None:
    for system in systems(planned(scenario))[:12]:
        lines = system.splitlines()
        [added] = [line for line in lines if line.startswith("Desk ")]
        assert "the same for every desk" in added
        assert [x for x in lines if x != added and x] == [x for x in FULL.splitlines() if x]


def test_in_the_leading_scenario_the_desk_comes_first_and_in_the_diverse_one_in_the_middle() -> None:
    assert all(s.startswith("Desk ") for s in systems(planned(LEADING)))
    places = [s.index("\nDesk ") / len(s) for s in systems(planned(DIVERSE))]
    assert min(places) > 0.3 and max(places) < 0.8


def test_a_desks_line_never_tears_a_worked_example_apart() -> None:
    for system in systems(planned(DIVERSE)):
        following = system.split("\nDesk ")[1].splitlines()[1]
        assert following.startswith(("- ", "# ", "Question: "))


def test_no_two_desks_of_any_cell_have_the_same_name() -> None:
    made = making(DIVERSE)
    names = {replace(made, seed=seed).desk(i).split()[1] for seed in range(3) for i in range(200)}
    assert len(names) == 600


def test_in_the_leading_scenario_a_desk_finds_its_prompt_only_when_it_asks_again() -> None:
    seen: set[str] = set()
    for system, found in zip(systems(planned(LEADING)), planned(LEADING).lookups, strict=True):
        assert (found.hits > 0) is (system in seen)
        seen.add(system)


def test_a_line_is_inserted_before_the_line_at_its_place() -> None:
    assert inserted("one\n- two\n", 4, "new") == "one\nnew\n- two\n"


# ---- the plan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ARTICLE_RATES)
def test_with_blocks_of_16_the_planned_rate_is_the_articles_as_printed(scenario: str) -> None:
    rate = planned(scenario).hit_rate
    assert rate is not None and round(rate, 3) == article_rate(scenario)


@pytest.mark.parametrize("block", [16, 128])
def test_a_cold_cache_finds_nothing(block: int) -> None:
    assert planned(COLD, block).hit_rate == 0
    assert article_rate(COLD) is None


@pytest.mark.parametrize("scenario", EVERY)
@pytest.mark.parametrize("block", [16, 128])
def test_the_plan_is_what_an_empty_cache_finds_of_warming_and_measured_requests(
    scenario: str, block: int
) -> None:
    found = planned(scenario, block)
    every = [chat.prompt for chat in (*found.warming, *found.measured)]
    assert lookups(every, block)[len(found.warming) :] == found.lookups
    assert len(found.measured) == REQUESTS["full" if block == 16 else "quick"][scenario]


@pytest.mark.parametrize("scenario", EVERY)
def test_no_lookup_exceeds_the_blocks_before_the_last_token(scenario: str) -> None:
    for block in (16, 128):
        for one in planned(scenario, block).lookups:
            assert one.hits % block == 0 and one.hits <= (one.tokens - 1) // block * block


@pytest.mark.parametrize("scenario", EVERY)
def test_a_cell_fits_the_engine_it_is_planned_for(scenario: str) -> None:
    assert planned(scenario).blocks < 20_000
    assert planned(scenario, 128).blocks < 1_000


def test_larger_blocks_leave_more_of_a_warm_prompt_to_compute() -> None:
    rates = [planned(WARM, block).hit_rate or 0.0 for block in (16, 128)]
    assert 0.8 < rates[1] < rates[0]


def test_half_of_every_diverse_prompt_is_found_but_of_most_leading_ones_nothing() -> None:
    assert all(0.4 < f.hits / f.tokens < 0.7 for f in planned(DIVERSE).lookups)
    shares = [f.hits / f.tokens for f in planned(LEADING).lookups]
    assert {s == 0 or s > 0.98 for s in shares} == {True}
    assert sum(s == 0 for s in shares) > len(shares) / 2


def test_cells_of_different_salt_share_nothing() -> None:
    first, second = (schedule(WARM, replace(making(WARM), salt=s, requests=2)) for s in "ab")
    both = lookups([first.measured[0].prompt, second.measured[0].prompt], 16)
    assert both[1].hits == 0


def test_every_scenario_says_how_its_prompts_differ() -> None:
    assert set(VARIED) == set(EVERY)
