"""A batch has something in flight, or is refused at once."""

import asyncio

import pytest

from nlqlib.load.batch import complete_all
from nlqlib.records import ChatRequest, Completion


class Counting:
    """A client that notes how many of its requests are open at a time."""

    def __init__(self) -> None:
        self.open = self.most = 0

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        return Completion(request.request_id, "ok", "{}")

    async def aclose(self) -> None: ...


def sent(concurrency: int) -> tuple[list[Completion], int]:
    client, requests = Counting(), [ChatRequest(str(n), ()) for n in range(8)]

    async def go() -> list[Completion]:
        async with asyncio.timeout(5):
            return (await complete_all(client, requests, concurrency, "question"))[0]

    return asyncio.run(go()), client.most


@pytest.mark.parametrize("concurrency", [1, 3, 100])
def test_all_are_answered_in_order_and_no_more_are_in_flight_than_told(concurrency: int) -> None:
    done, most = sent(concurrency)
    assert [one.request_id for one in done] == [str(n) for n in range(8)] and most == min(concurrency, 8)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_none_in_flight_is_refused_rather_than_waited_for(concurrency: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        sent(concurrency)
