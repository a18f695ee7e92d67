"""Endpoints that misbehave while diagnosed: each ends in a marked, explained verdict, never in a wrong one.

The faults stand between the client and the twin in virtual time; see `test_fake_server` for real sockets.
"""

import json
import random
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blind_view import outside

from nlqlib.analysis.diagnosis import Diagnosis, SweepLevel, diagnose
from nlqlib.artifacts import Store
from nlqlib.experiments.diagnose import Plan, Swept, sweep, verdict
from nlqlib.experiments.saved_levels import ONE_MODEL, levels_of
from nlqlib.experiments.study import Study
from nlqlib.serving.target import Target, open_target

Message = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
Wrap = Callable[[Application, Target], Application]
GRID = (1, 4, 8, 16)
LIMITS = [({}, "batching works"), ({"router": 4}, "limited at 4")]
each_limit = pytest.mark.parametrize(("limits", "said"), LIMITS, ids=["unlimited", "router 4"])


def behind(target: Target, wrap: Wrap, **connection: Any) -> Target:
    """`target` with `wrap` around its application, for every variant of it."""

    def connect() -> Any:
        there = target.connect()
        return replace(there, app=wrap(there.app, target), **connection)

    return replace(
        target, connect=connect, variant=lambda flags: behind(target.engine(**flags), wrap, **connection)
    )


def twin(limits: dict[str, int], **more: Any) -> Target:
    settings = limits | more
    return open_target("twin").limited(**settings) if settings else open_target("twin")


def swept(folder: Path, target: Target, grid: tuple[int, ...] = GRID) -> Swept:
    return sweep(Study("diagnose", target, "full", "wire", Store(folder)), Plan(grid))


def both(found: Swept) -> tuple[Diagnosis, Diagnosis]:
    """The verdict with everything seen, and with headers and metrics stripped."""
    return verdict(found), diagnose([outside(row) for row in levels_of(found.records)], lost=found.lost)


def at_random(fault: Application, share: float) -> Wrap:
    """Of the requests to generate `share` meet `fault`, the same ones every time."""

    def wrap(app: Application, _: Target) -> Application:
        draw = random.Random(0)

        async def faulty(scope: Any, receive: Any, send: Any) -> None:
            chosen = scope["path"].endswith("/completions") and draw.random() < share
            await (fault if chosen else app)(scope, receive, send)

        return faulty

    return wrap


async def hang(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def empty(scope: Any, receive: Any, send: Any) -> None:
    message = {"role": "assistant", "content": ""}
    usage = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": usage}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def cut(scope: Any, receive: Any, send: Any) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", b"900")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b'{"id": "x", "choi', "more_body": True})
    raise ConnectionError("cut on purpose")


@each_limit
@pytest.mark.parametrize(
    ("fault", "outcome"), [(empty, "empty"), (cut, "disconnected")], ids=["empty", "cut in the middle"]
)
def test_answers_that_fail_mark_the_verdict_and_leave_it_right(
    tmp_path: Path, fault: Application, outcome: str, limits: dict[str, int], said: str
) -> None:
    found = swept(tmp_path, behind(twin(limits), at_random(fault, 0.1)))
    assert all(r.requests.get(outcome) for r in found.records[1:])
    for told in both(found):
        assert told.verdict == said and told.marked and f"failed ({outcome})" in told.sentence


@each_limit
def test_a_level_that_hung_requests_emptied_is_left_out(
    tmp_path: Path, limits: dict[str, int], said: str
) -> None:
    found = swept(tmp_path, behind(twin(limits), at_random(hang, 0.03)))
    for told in both(found):
        assert told.verdict == said and "the level at 1 is left out: requests that never" in told.sentence
        assert all(f"× {n}" not in told.sentence for n in (14, 100, 200))  # no gain over an empty level
    assert levels_of(found.records)[0].hung_share == pytest.approx(0.95, abs=0.03)


def test_where_every_level_hung_nothing_is_concluded() -> None:
    rows = [SweepLevel(n, n=20, ok=15, throughput_run=1.0, mean_s=1.0, hung_share=0.6) for n in (1, 4, 8)]
    found = diagnose(rows)
    assert found.verdict.startswith("cannot tell, because requests that never came back held 60%")
    assert "TIMEOUT_S" in found.next_experiment


class Restart:
    """After `after` requests another engine stands there, whose counters begin at zero."""

    def __init__(self, app: Application, target: Target, after: int = 80) -> None:
        self.app, self.next, self.left = app, lambda: target.connect().app, after

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith("/completions"):
            self.left -= 1
            if self.left == 0:
                self.app = self.next()
        await self.app(scope, receive, send)


@each_limit
def test_a_restart_in_the_middle_leaves_its_level_out(
    tmp_path: Path, limits: dict[str, int], said: str
) -> None:
    found = swept(tmp_path, behind(twin(limits), Restart))
    for told in both(found):
        assert told.verdict == said
        assert "the level at 4 is left out: the server's counters fell" in told.sentence
    assert found.records[1].value("hit_rate", "mean") is None  # no difference of two engines is shown


class OnePage:
    """Two replicas behind one address: their metrics pages come in turn."""

    def __init__(self, app: Application, _: Target) -> None:
        self.app, self.read = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/any/metrics":
            self.read += 1
            scope = dict(scope, path=f"/gateway/replicas/replica-{self.read % 2}/metrics")
        await self.app(scope, receive, send)


@pytest.mark.parametrize(("limit", "said"), [(None, "batching works"), (2, "limited at 4")])
def test_replicas_hidden_behind_one_page_are_noticed_and_not_halved(
    tmp_path: Path, limit: int | None, said: str
) -> None:
    hidden = behind(
        twin({}, replicas=2, replica=limit, headers=False), OnePage, metrics_urls=("http://twin/any/metrics",)
    )
    found = verdict(swept(tmp_path, hidden))
    assert found.verdict == said and found.limit_per_replica is None
    assert "/metrics count 56 of 112 answers" in found.sentence and "METRICS_URLS" in found.sentence
    states = {row.name: row.state for row in found.layers}
    assert states["Engine scheduler"] == states["Autoscaler"] == "not observable"


def test_pages_that_account_for_every_answer_count_the_replicas(tmp_path: Path) -> None:
    silent = twin({}, replicas=2, headers=False)
    row = verdict(swept(tmp_path, silent, (1, 4, 8))).layers[-1]
    assert (row.name, row.state) == ("Autoscaler", "passes") and row.finding.startswith("2 replicas at every")


def renamed(after: int, named: str, lists: bool) -> Wrap:
    """From request `after` on answers (and the list of models, if it `lists`) name another model."""

    def wrap(app: Application, target: Target) -> Application:
        old, seen = (target.speaker or "").encode(), 0

        async def renaming(scope: Any, receive: Any, send: Any) -> None:
            nonlocal seen
            seen += scope["path"].endswith("/completions")
            if seen < after or not (lists or scope["path"].endswith("/completions")):
                return await app(scope, receive, send)

            async def other(message: Message) -> None:
                if message["type"] == "http.response.start":
                    kept = [h for h in message["headers"] if h[0].lower() != b"content-length"]
                    message = {**message, "headers": kept}
                else:
                    message = {**message, "body": message.get("body", b"").replace(old, named.encode())}
                await send(message)

            return await app(scope, receive, other)

        return renaming

    return wrap


def test_a_model_that_is_gone_ends_the_sweep_with_its_reason(tmp_path: Path) -> None:
    found = swept(tmp_path, behind(twin({"router": 1}), renamed(120, "another/model", True)))
    told = verdict(found)
    assert len(found.records) == 3 and told.verdict == "serialised upstream"
    assert "the level at 16 is left out: the endpoint does not serve" in told.sentence
    assert "set MODEL to one of another/model" in told.sentence


def test_answers_that_name_another_model_leave_their_levels_out(tmp_path: Path) -> None:
    found = swept(tmp_path, behind(twin({"router": 1}), renamed(120, "another/model", False)))
    several, other = (r.validity for r in found.records[2:])
    assert next(r for r in several if r.rule == ONE_MODEL).ok is False
    assert next(r.value for r in other if r.rule == ONE_MODEL) == "another/model"
    told = verdict(found)
    assert told.verdict == "serialised upstream" and told.marked
    assert "the level at 8 is left out: several models answered" in told.sentence
    assert "the level at 16 is left out: another model answered: another/model instead of" in told.sentence
