"""The wire client's pool: as many connections as requests, or a ceiling on purpose."""

import asyncio
from typing import Any

import pytest
from scripted_bytes import OK, Scripted, on_both_loops, post, run

from nlqlib.serving.outcome import Broken


async def slowly(writer: asyncio.StreamWriter, number: int) -> None:
    await asyncio.sleep(0.05)
    writer.write(OK)


@on_both_loops
def test_without_a_ceiling_every_request_in_flight_has_its_connection(loop: str) -> None:
    async def main() -> tuple[int, int, int, int]:
        async with Scripted(slowly) as server:
            transport = server.transport()
            for _ in range(2):
                await asyncio.gather(*(post(transport) for _ in range(50)))
            counts = (transport.open, transport.peak_open, transport.waited, server.connections)
            await transport.aclose()
            assert transport.open == 0
            return counts

    assert run(loop, main()) == (50, 50, 0, 50)


@on_both_loops
def test_below_a_ceiling_requests_wait_in_order_and_a_cancelled_one_gives_up_its_place(loop: str) -> None:
    async def main() -> tuple[int, int, list[int]]:
        async with Scripted(slowly) as server:
            transport = server.transport(ceiling=2)
            order: list[int] = []

            async def one(number: int) -> None:
                await post(transport)
                order.append(number)

            tasks = [asyncio.create_task(one(n)) for n in range(8)]
            await asyncio.sleep(0.02)
            tasks[3].cancel()
            await asyncio.wait(tasks)
            await transport.aclose()
            return transport.peak_open, transport.waited, order

    peak, waited, order = run(loop, main())
    assert (peak, waited) == (2, 6)
    assert sorted(order) == [0, 1, 2, 4, 5, 6, 7]
    assert [n // 2 for n in order[:2]] == [0, 0]
    assert order[-1] in (6, 7)


@on_both_loops
def test_a_place_handed_to_a_request_that_is_cancelled_at_that_moment_is_handed_on(loop: str) -> None:
    async def main() -> None:
        async with Scripted([OK]) as server:
            transport = server.transport(ceiling=1)
            await transport._enter()
            waiting = [asyncio.create_task(post(transport)) for _ in range(2)]
            await asyncio.sleep(0)
            transport._leave()
            waiting[0].cancel()
            await asyncio.wait_for(waiting[1], 1)
            await post(transport)
            await transport.aclose()

    run(loop, main())


@on_both_loops
def test_closing_ends_requests_in_flight_and_those_that_wait(loop: str) -> None:
    async def never(writer: asyncio.StreamWriter, number: int) -> None:
        await asyncio.sleep(5)

    async def main() -> list[Any]:
        async with Scripted(never) as server:
            transport = server.transport(ceiling=1)
            tasks = [asyncio.create_task(post(transport)) for _ in range(2)]
            await asyncio.sleep(0.05)
            await transport.aclose()
            got = await asyncio.gather(*tasks, return_exceptions=True)
            with pytest.raises(Broken, match="closed"):
                await post(transport)
            return got

    assert all(isinstance(failure, Broken) for failure in run(loop, main()))
