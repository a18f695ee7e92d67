"""The levels of load pages on endpoints that refuse a field: asked by another contract, and said so."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_behaviours import Behaviour, Json, Status
from refusing_world import RefusingServer, opened

from nlqlib.artifacts import Record
from nlqlib.experiments import arm, diagnose, path_level, sweep, sweep_open
from nlqlib.experiments.accepted import accepted
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import Level, offered
from nlqlib.load.errors import LoadError
from nlqlib.records import ChatRequest, Completion, OutputContract

LEVEL = Level("dense", 2, 24)
USUAL, SHARED, FORMER = "structured_outputs", "response_format", "guided_json"
FIELDS = (USUAL, SHARED, FORMER)


def swept(study: Study) -> Record:
    return sweep.measure_level(study, LEVEL)


def varied(study: Study) -> Record:
    return arm.measure(study, [arm.arm(LEVEL, stream=False)])[0]


def along(study: Study) -> Record:
    return path_level.measure(study, path_level.path_level(LEVEL))


def open_load(study: Study) -> Record:
    times = tuple(0.5 * i for i in range(24))
    return sweep_open.measure_open(study, sweep_open.OpenLoad("open", "constant", times))


def diagnosed(study: Study) -> Record:
    return diagnose.sweep(study, diagnose.Plan((2,), requests=24)).records[0]


MEASURES = [swept, varied, along, open_load, diagnosed]


@pytest.mark.parametrize("measure", MEASURES)
def test_a_level_asks_by_the_next_contract_and_says_so(
    measure: Callable[[Study], Record], tmp_path: Path
) -> None:
    server = RefusingServer(refuses=frozenset({USUAL}))
    found = measure(opened("05_knee", server, tmp_path))
    assert found.body["requests"] == {"total": 24, "ok": 24}
    assert found.body["results"]["contract"] == SHARED
    [rule] = [r for r in found.body["validity"] if "is refused" in r["rule"]]
    assert (rule["value"], rule["threshold"], rule["ok"]) == (SHARED, USUAL, None)
    assert [USUAL in seen.body for seen in server.seen].count(True) == 2  # once more, to be sure


@pytest.mark.parametrize("measure", MEASURES)
def test_where_nothing_is_refused_nothing_is_said_and_nothing_more_is_sent(
    measure: Callable[[Study], Record], tmp_path: Path
) -> None:
    server = RefusingServer()
    found = measure(opened("05_knee", server, tmp_path))
    assert "contract" not in found.body["results"] and len(server.seen) == 20 + 24
    assert not any("is refused" in r["rule"] for r in found.body["validity"])


@pytest.mark.parametrize(
    ("refused", "contract"), [(FIELDS[:1], SHARED), (FIELDS[:2], FORMER), (FIELDS, "unconstrained")]
)
def test_contracts_are_tried_in_the_order_of_preference(
    refused: tuple[str, ...], contract: str, tmp_path: Path
) -> None:
    server = RefusingServer(refuses=frozenset(refused))
    found = swept(opened("05_knee", server, tmp_path))
    assert found.body["results"]["contract"] == contract
    assert len(server.seen) == 2 * len(refused) + 20 + 24


class Locked(RefusingServer):
    """Wants a key that nobody has."""

    def _pick(self, number: int, headers: dict[str, str], body: Json) -> Behaviour:
        return Status(401, {"error": "Unauthorized"})


def test_a_key_that_is_missing_is_no_refusal_of_a_field(tmp_path: Path) -> None:
    server = Locked()
    with pytest.raises(LoadError, match="unauthorized"):
        swept(opened("05_knee", server, tmp_path))
    assert all(USUAL in seen.body for seen in server.seen)


class Strict:
    """Refuses whatever carries a field beside the prompt."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        self.asked.append(request.contract.name)
        bad = bool(request.contract.fields)
        return Completion(request.request_id, "http_4xx" if bad else "ok", http_status=400 if bad else 200)

    async def aclose(self) -> None: ...


def test_a_contract_of_the_callers_own_is_not_changed_and_neither_is_a_load_that_warms_nothing(
    tmp_path: Path,
) -> None:
    study, client = opened("05_knee", RefusingServer(), tmp_path), Strict()
    asked = offered(study, LEVEL)
    own = [replace(r, contract=OutputContract("own", {"grammar": "x"}, None)) for r in asked]
    assert asyncio.run(accepted(study, client, own, 3)) == own and set(client.asked) == {"own"}
    client.asked.clear()
    assert asyncio.run(accepted(study, client, asked, 0)) == asked and client.asked == []


def test_what_was_found_holds_for_later_levels_also_for_those_that_warm_nothing(tmp_path: Path) -> None:
    server = RefusingServer(refuses=frozenset({USUAL}))
    study = opened("05_knee", server, tmp_path)
    swept(study)
    server.seen.clear()
    found = sweep.measure_level(study, replace(LEVEL, concurrency=4))
    cold = path_level.measure(study, path_level.path_level(LEVEL, warm=False))
    assert [r.body["results"]["contract"] for r in (found, cold)] == [SHARED, SHARED]
    assert len(server.seen) == 20 + 24 + 24 and not any(USUAL in seen.body for seen in server.seen)


class Hiccup(RefusingServer):
    """Refuses its first request, whatever it is."""

    def _pick(self, number: int, headers: dict[str, str], body: Json) -> Behaviour:
        return super()._pick(number, headers, body) if number else Status(400, {"error": "try again"})


def test_one_refusal_alone_changes_no_contract(tmp_path: Path) -> None:
    found = swept(opened("05_knee", Hiccup(), tmp_path))
    assert found.body["requests"] == {"total": 24, "ok": 24} and "contract" not in found.body["results"]
