"""The cells of the prefix page: planned equals counted on two engines, nothing is made up."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import prefix_world
import pytest
from prefix_world import as_url, study

from nlqlib.artifacts import Record
from nlqlib.experiments import prefix, prefix_article
from nlqlib.experiments import prefix_cost as cost
from nlqlib.experiments import prefix_figures as figures
from nlqlib.experiments import prefix_page as page
from nlqlib.experiments.prefix_counted import FIT, HITS_AS_PLANNED, OUR_TOKENS, QUERIES_AS_PLANNED
from nlqlib.experiments.prompt_variants import COLD, DIVERSE, LEADING, PARTIAL, SCENARIOS, SHORT, WARM
from nlqlib.records import ServerIdentity
from nlqlib.serving.target import open_target

EVERY = (*SCENARIOS, SHORT)
FEW = (WARM, LEADING, COLD)


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return {page.scenario(r): r for r in prefix_world.records()}


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """An engine with blocks of 128, as the CPU engine has."""
    target = open_target("twin").engine(block_size=128, num_gpu_blocks=1170)
    return prefix.measure(study(tmp_path_factory.mktemp("coarse"), target, "quick"))


def rules(record: Record) -> dict[str, bool | None]:
    return {r.rule: r.ok for r in record.validity}


PLAN_RULES = (QUERIES_AS_PLANNED, HITS_AS_PLANNED, OUR_TOKENS, FIT)


# ---- on the twin -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", EVERY)
def test_the_counters_are_the_planned_ones_to_the_token(records: dict[str, Record], scenario: str) -> None:
    seen = page.counts(records[scenario])
    assert (seen["queries"], seen["hits"]) == (seen["planned_queries"], seen["planned_hits"])
    assert seen["block_size"] == 16 and seen["block_size_told"]
    assert [rules(records[scenario])[name] for name in PLAN_RULES] == [True] * 4
    assert False not in rules(records[scenario]).values()


def test_hit_rates_are_the_articles_as_printed(records: dict[str, Record]) -> None:
    rates = {name: round(page.counted_rate(r) or 0.0, 3) for name, r in records.items() if name != SHORT}
    assert rates == {WARM: 0.996, PARTIAL: 0.993, DIVERSE: 0.551, LEADING: 0.36, COLD: 0.0}


def test_colder_prompts_have_their_first_token_later_and_decode_where_it_was(
    records: dict[str, Record],
) -> None:
    ttft = [records[s].value("ttft", "mean") or 0.0 for s in SCENARIOS]
    assert ttft == sorted(ttft) and ttft[-1] > 10 * ttft[0]
    decode = [records[s].value("decode", "mean") or 0.0 for s in SCENARIOS]
    assert max(decode) / min(decode) < 1.02


def test_the_rows_of_a_cell_hold_what_was_planned_of_each_request(records: dict[str, Record]) -> None:
    rows = records[LEADING].samples()
    assert sum(row["planned_hits"] for row in rows) == page.counts(records[LEADING])["hits"]
    assert all(row["prompt_tokens"] == row["planned_tokens"] for row in rows)


def test_the_cold_cell_says_that_its_cache_was_emptied(records: dict[str, Record]) -> None:
    assert records[COLD].results["emptied"] is True
    assert records[WARM].results["emptied"] is None


def test_another_seed_names_other_desks_and_keeps_the_plan_exact(tmp_path: Path) -> None:
    twin = study(tmp_path, open_target("twin"))
    [found] = prefix.measure(twin, 6, 5, [DIVERSE])
    seen = page.counts(found)
    assert found.params["seed"] == 5 + SCENARIOS.index(DIVERSE)
    assert (seen["queries"], seen["hits"]) == (seen["planned_queries"], seen["planned_hits"])


def test_a_retained_cell_is_not_measured_again(tmp_path: Path) -> None:
    twin = study(tmp_path, open_target("twin"))
    assert [r.reused for r in prefix.measure(twin, 3, 0, [WARM])] == [False]
    assert [r.reused for r in prefix.measure(twin, 3, 0, [WARM])] == [True]


# ---- other engines ---------------------------------------------------------------------------------------


def test_with_blocks_of_128_the_counters_are_the_planned_ones_too(coarse: list[Record]) -> None:
    for record in coarse:
        seen = page.counts(record)
        assert seen["block_size"] == 128 and seen["hits"] == seen["planned_hits"], page.scenario(record)
        assert [rules(record)[name] for name in PLAN_RULES] == [True] * 4


def test_an_engine_without_a_prefix_cache_is_planned_to_find_nothing() -> None:
    twin = study(Path("unused"), open_target("twin"))
    [cell] = prefix.cells(twin, 3, 0, [WARM])
    off = ServerIdentity("m", engine_args={"block_size": "16", "enable_prefix_caching": "False"})
    assert prefix.plan(twin, cell, off).hit_rate == 0
    on = ServerIdentity("m", engine_args={"block_size": "16", "enable_prefix_caching": "True"})
    assert (prefix.plan(twin, cell, on).hit_rate or 0.0) > 0.9


def test_without_metrics_what_was_found_is_missing_and_never_0(tmp_path: Path) -> None:
    blind = study(tmp_path, as_url(lambda there: replace(there, metrics_urls=())))
    found = prefix.measure(blind, 3, 0, FEW)
    for record in found:
        seen = page.counts(record)
        assert (seen["queries"], seen["hits"]) == (None, None) and not seen["block_size_told"]
        assert page.counted_rate(record) is None and record.value("ttft", "mean") is None
        assert rules(record)[HITS_AS_PLANNED] is None
        assert record.value("e2e_latency", "p50") is not None
    assert found[-1].results["emptied"] is None


def test_a_page_without_metrics_shows_what_the_client_saw_and_names_what_is_missing(tmp_path: Path) -> None:
    blind = study(tmp_path, as_url(lambda there: replace(there, metrics_urls=())))
    found = prefix.measure(blind, 3)
    assert set(page.rates_table(found)["equal"]) == {page.NOT_SEEN}
    assert "METRICS_URL" in page.rates_sentence(found)
    assert set(page.latency_table(found)["TTFT (ms)"]) == {"—"}
    assert set(cost.difference_table(found, blind)["= TTFT, server mean"][-4:]) == {"—"}
    for said in (page.latency_sentence(found), cost.cost_sentence(found, blind)):
        assert "not observable here" in said
    assert "not observable here" in cost.difference_sentence(found, blind)
    for draw in (figures.rates_figure, figures.ttft_figure, figures.requests_figure):
        assert draw(found, blind).axes[0].texts
    assert figures.requests_alt(found, blind) and figures.rates_alt(found, blind)
    assert len(prefix_article.against_article(found, blind)) == 22


def test_a_quick_page_shows_blocks_that_leave_the_articles_rate_out_of_reach(coarse: list[Record]) -> None:
    local = study(Path("unused"), open_target("local"), "quick")
    assert "blocks of 128 tokens" in page.rates_sentence(coarse)
    assert "Planned rates are at most" in page.rates_sentence(coarse)
    assert "article" not in " ".join(cost.difference_table(coarse, local).index)
    assert figures.ttft_figure(coarse, local).axes[0].has_data()
    assert "farthest" in figures.ttft_reading(coarse)


class Unsalted:
    """An endpoint that ignores `cache_salt`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        async def changed() -> Any:
            message = await receive()
            if message.get("body"):
                body = json.loads(message["body"])
                body.pop("cache_salt", None)
                message = {**message, "body": json.dumps(body).encode()}
            return message

        await self.app(scope, changed, send)


def test_a_server_that_ignores_the_salt_is_recognised_and_its_cell_is_void(tmp_path: Path) -> None:
    unsalted = study(tmp_path, as_url(lambda there: replace(there, app=Unsalted(there.app))))
    found = prefix.measure(unsalted, 3, 0, FEW)
    cold = found[-1]
    assert page.equal(cold) == "NO" and rules(cold)[HITS_AS_PLANNED] is False
    assert "ignores `cache_salt`" in page.rates_sentence(found)


# ---- the plan of the page --------------------------------------------------------------------------------


def test_every_cell_has_a_seed_and_a_name_of_its_own() -> None:
    found = prefix.cells(study(Path("unused"), open_target("twin")))
    assert len({c.seed for c in found}) == len({c.point for c in found}) == 6


def test_salts_on_a_real_endpoint_are_never_used_twice() -> None:
    real = study(Path("unused"), as_url(lambda there: there))
    [cell] = prefix.cells(real, 2, 0, [WARM])
    server = ServerIdentity("m", engine_args={"block_size": "16"})
    salts = {chat.salt for _ in range(2) for chat in prefix.plan(real, cell, server).measured}
    assert len(salts) == 2


def test_quick_local_cells_fit_eight_minutes_and_send_short_prompts() -> None:
    local = study(Path("unused"), open_target("local"), "quick")
    planned = prefix.points(local, {"n_requests": 0, "seed": 0, "scenarios": []})
    assert len(planned) == 6
    assert 120 < sum(spec.about_s or 0.0 for _, spec in planned) < 480
    assert all(spec.params["output_tokens"] == 16 for _, spec in planned)
    assert all(spec.params["examples"] in (0, 2) for _, spec in planned)


def test_the_plan_counts_warming_requests() -> None:
    twin = study(Path("unused"), open_target("twin"))
    sent = {c.scenario: prefix.spec(twin, c).requests - c.requests for c in prefix.cells(twin)}
    assert sent == {WARM: 1, PARTIAL: 3, DIVERSE: 1, LEADING: 0, COLD: 0, SHORT: 1}
