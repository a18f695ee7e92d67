"""An endpoint that refuses fields of the prefix page's requests: what is sent instead, and what is said."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_structured import StructuredServer
from prefix_world import as_url, study

from nlqlib import plots_alt
from nlqlib.artifacts import Record
from nlqlib.experiments import prefix, prefix_price
from nlqlib.experiments import prefix_cost as cost
from nlqlib.experiments import prefix_figures as figures
from nlqlib.experiments import prefix_page as page
from nlqlib.experiments.prefix_counted import FIT, HITS_AS_PLANNED, OUR_TOKENS, QUERIES_AS_PLANNED
from nlqlib.experiments.prefix_sending import USUAL, sent
from nlqlib.experiments.prompt_variants import COLD, DIVERSE, LEADING, WARM
from nlqlib.experiments.study import Profile, Study
from nlqlib.serving.target import TargetError, open_target

PLAN_RULES = (QUERIES_AS_PLANNED, HITS_AS_PLANNED, OUR_TOKENS, FIT)
QUICKEST = {"n_requests": 3, "seed": 0, "scenarios": [WARM]}


def plan_rules(record: Record) -> list[bool | None]:
    held = {r.rule: r.ok for r in record.validity}
    return [held[name] for name in PLAN_RULES]


class Strict:
    """An endpoint that answers HTTP 400 to the fields `refused`, and to more than `most` tokens of answer."""

    def __init__(self, app: Any, *refused: str, most: int = 4096) -> None:
        self.app, self.refused, self.most, self.asked = app, refused, most, 0

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        message = await receive()
        asked = json.loads(message["body"]) if message.get("body") else {}
        self.asked += bool(asked)
        if any(name in asked for name in self.refused) or asked.get("max_tokens", 0) > self.most:
            body = json.dumps({"error": {"message": "Unrecognized request argument", "code": 400}}).encode()
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": body})
            return
        told = [message]
        await self.app(scope, lambda: _first(told, receive), send)


async def _first(told: list[Any], receive: Callable[[], Awaitable[Any]]) -> Any:
    return told.pop() if told else await receive()


def strict(folder: Path, *refused: str, profile: Profile = "full") -> Study:
    return study(folder, as_url(lambda there: replace(there, app=Strict(there.app, *refused))), profile)


def silent(folder: Path) -> Study:
    """An endpoint that answers probe and check, which ask for few tokens, and then nothing."""
    return study(folder, as_url(lambda there: replace(there, app=Strict(there.app, most=64))))


def test_where_the_salt_is_refused_a_line_of_the_prompt_keeps_scenarios_apart(tmp_path: Path) -> None:
    unsalted = strict(tmp_path, "cache_salt")
    found = prefix.measure(unsalted, 8)
    for record in found:
        assert record.requests["ok"] == 8 and record.results["refused"] == ["cache_salt"]
        assert plan_rules(record) == [True] * 4, page.scenario(record)
    rates = {page.scenario(r): page.counted_rate(r) or 0.0 for r in found}
    assert rates[COLD] == 0 and rates[WARM] > 0.98
    assert rates[DIVERSE] == pytest.approx(0.551, abs=0.03)
    assert rates[LEADING] == pytest.approx(0.36, abs=0.1)
    none, n = page.whole(next(r for r in found if page.scenario(r) == LEADING))
    assert 0 < none < n
    assert "refuses `cache_salt`: a line of its own" in page.workload_sentence(unsalted, found)


def test_the_schema_is_asked_for_by_what_the_endpoint_honours(tmp_path: Path) -> None:
    other = study(tmp_path, StructuredServer(reads=frozenset({"response_format"})).target())
    [found] = prefix.measure(other, 3, 0, [WARM])
    assert found.results["contract"] == "response_format" and found.results["refused"] == []
    assert "The schema is asked for by `response_format`." in page.workload_sentence(other, [found])


def test_where_no_field_is_taken_answers_end_by_themselves_and_no_schema_is_promised(tmp_path: Path) -> None:
    forms = ("structured_outputs", "response_format", "guided_json")
    bare = strict(tmp_path, "cache_salt", "ignore_eos", *forms, profile="quick")
    [found] = prefix.measure(bare, 3, 0, [WARM])
    assert found.results["refused"] == ["cache_salt", "ignore_eos"]
    assert found.requests["ok"] == 3 and (found.value("output_tokens", "mean") or 0) > 100
    said = page.workload_sentence(bare, [found])
    assert "No schema is enforced here" in said and "structured output," not in said
    assert "answers end where the model ends them" in said and "answers are cut" not in said


def test_an_endpoint_is_probed_once_for_the_page_and_each_cell_checks_once(tmp_path: Path) -> None:
    taking = strict(tmp_path)
    planned = prefix.points(taking, QUICKEST)
    [found] = prefix.measure(taking, 3, 0, [WARM])
    assert sent(found) == USUAL and "refuses" not in page.workload_sentence(taking, [found])
    assert taking.target.connection.app.asked == sum(spec.requests for _, spec in planned)
    assert [spec.name for _, spec in planned] == ["probe", "warm-shared-prefix"]
    assert planned[1][1].requests == 3 + 1 + 1
    prefix.measure(taking, 3, 0, [WARM])
    assert taking.target.connection.app.asked == sum(spec.requests for _, spec in planned)


def test_engines_of_ours_are_neither_probed_nor_checked() -> None:
    for name in ("twin", "local"):
        ours = study(Path("unused"), open_target(name), "quick")
        [(_, planned)] = prefix.points(ours, QUICKEST)
        assert planned.requests == 3 + 1


def test_an_endpoint_that_refuses_even_a_plain_request_leaves_no_cell(tmp_path: Path) -> None:
    closing = strict(tmp_path)
    prefix.measure(closing, 3, 0, [WARM])
    closing.target.connection.app.refused = ("messages",)
    with pytest.raises(TargetError, match=r"refuses a plain chat completion .*nothing was retained"):
        prefix.measure(closing, 3, 0, [COLD])
    closed = strict(tmp_path / "closed", "messages")
    with pytest.raises(RuntimeError, match="nothing was retained"):
        prefix.measure(closed, 3, 0, [WARM])
    for one, scenario in ((closing, COLD), (closed, WARM)):
        cell = prefix.points(one, {**QUICKEST, "scenarios": [scenario]})[-1][1]
        assert not one.retained(cell)


def test_a_cell_without_an_answer_is_not_retained(tmp_path: Path) -> None:
    ended = silent(tmp_path)
    with pytest.raises(TargetError, match=r"none of 3 requests was answered .*http_4xx"):
        prefix.measure(ended, 3, 0, [WARM])
    assert not ended.retained(prefix.points(ended, QUICKEST)[-1][1])


def test_a_page_of_failures_shows_no_number_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As such cells were once retained."""
    monkeypatch.setattr(prefix, "check_answered", lambda cell, done: None)
    ended = silent(tmp_path)
    found = prefix.measure(ended, 3)
    assert all(r.requests["ok"] == 0 for r in found)
    table = page.latency_table(found).drop(columns=["n", "failed"])
    assert set(table.to_numpy().ravel()) == {"—"}
    assert set(page.rates_table(found)["equal"]) == {page.FAILED}
    assert "Requests failed in" in page.rates_sentence(found)
    assert "not observable here" in cost.cost_sentence(found, ended)
    assert prefix_price.gap_cost(found) is None
    figure = figures.requests_figure(page.study_cells(found), ended)
    assert [t.get_text() for t in figure.axes[0].texts].count("not observed") == 5
    alt = figures.requests_alt(page.study_cells(found), ended)
    assert plots_alt.problem(alt) is None and alt.count("not observable here") == 5
    assert "not observable here" in figures.requests_reading(found)
