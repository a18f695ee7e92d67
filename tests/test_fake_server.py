"""The fake server does what it says, or the tests that rest on it say nothing."""

import asyncio
from collections import Counter

import pytest
from fake_behaviours import MODEL, Behaviour, Faults, Say, Status, words
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st
from test_client_timing import virtually

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Endpoint, make_client


def load(server: FakeServer, n: int) -> list[Completion]:
    """The completions of `n` requests sent at once, in virtual time."""

    async def main() -> list[Completion]:
        client = make_client("wire", Endpoint("http://fake/v1", MODEL), app=server)
        requests = [ChatRequest(str(i), ({"role": "user", "content": "q"},)) for i in range(n)]
        got = await asyncio.gather(*map(client.complete, requests))
        await client.aclose()
        return list(got)

    return virtually(main())


def test_faults_fall_at_their_shares_and_the_same_for_the_same_seed() -> None:
    runs = [[c.outcome for c in load(FakeServer(faults=Faults(0.2, 0.1, seed)), 1000)] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    counts = Counter(runs[0])
    assert counts["http_503"] == pytest.approx(200, abs=40)
    assert counts["http_429"] == pytest.approx(100, abs=30)


def test_a_rejection_for_a_while_says_for_how_long() -> None:
    got = load(FakeServer(faults=Faults(share_429=1.0)), 1)[0]
    assert (got.outcome, got.retry_after_s) == ("http_429", 2.0)


@pytest.mark.parametrize(("slots", "last_s"), [(1, 4.0), (4, 1.0), (None, 0.5)])
def test_slots_limit_what_is_worked_on_at_once(slots: int | None, last_s: float) -> None:
    got = load(FakeServer(Say(latency_s=0.5), slots=slots), 8)
    assert max(c.e2e_s or 0.0 for c in got) == pytest.approx(last_s, abs=1e-4)


def test_behaviours_are_played_in_order_and_the_last_repeats() -> None:
    script: list[Behaviour] = [Status(503), Say("")]
    assert [c.outcome for c in load(FakeServer(script), 4)] == ["http_503", "empty", "empty", "empty"]


@given(st.text(st.sampled_from("a b"), max_size=12))
def test_words_make_up_their_text_again(text: str) -> None:
    assert "".join(words(text)) == text
