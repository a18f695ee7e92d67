"""Virtual time: exact, silent about the wall clock, and loud about what cannot work."""

import asyncio
import signal
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.twin.clock import DeadlockError, VirtualLoop, VirtualTimeError, is_virtual, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_an_hour_of_sleep_takes_no_time_and_is_exactly_an_hour():
    async def main() -> float:
        await asyncio.sleep(3600)
        return now()

    started = time.perf_counter()
    assert run_virtual(main()) == 3600.0
    assert time.perf_counter() - started < 1.0


def test_the_serial_endpoint_of_the_article_at_concurrency_32_has_a_p95_of_102_4_seconds():
    async def main() -> list[float]:
        lane, latencies = asyncio.Lock(), []

        async def client(requests: int) -> None:
            for _ in range(requests):
                start = now()
                async with lane:
                    await asyncio.sleep(3.2)
                latencies.append(now() - start)

        await asyncio.gather(*(client(10) for _ in range(32)))
        return latencies

    steady = run_virtual(main())[32:]
    assert sorted(steady)[int(0.95 * len(steady))] == pytest.approx(102.4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=30))
def test_timers_fire_in_order_each_at_its_own_time(delays):
    async def main() -> list[float]:
        fired: list[float] = []
        loop = asyncio.get_running_loop()
        for delay in delays:
            loop.call_at(delay, lambda: fired.append(now()))
        await asyncio.sleep(max(delays) + 1)
        return fired

    for at, want in zip(run_virtual(main()), sorted(delays), strict=True):
        assert at == pytest.approx(want, abs=1e-9)


def test_a_timer_of_far_away_fires_at_exactly_its_time():
    async def main() -> float:
        await asyncio.sleep(0.1)
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_at(123456.789012345, done.set_result, None)
        await done
        return now()

    assert run_virtual(main()) == 123456.789012345


def test_timeouts_hold_in_virtual_time():
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return now()

    assert run_virtual(main()) == 30.0


def test_a_thread_call_runs_inline_and_takes_no_virtual_time():
    async def main() -> tuple[float, bool]:
        here = threading.current_thread()
        return await asyncio.to_thread(lambda: (now_after_work(), threading.current_thread() is here))

    def now_after_work() -> float:
        time.sleep(0.002)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == (0.0, True)


def test_an_exception_of_a_thread_call_reaches_the_caller():
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    run_virtual(main())


def test_a_deadlock_names_the_tasks_and_where_they_wait():
    async def waits_for_godot() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_godot(), name="vladimir")

    with pytest.raises(DeadlockError, match=r"vladimir in .*wait \(locks.py:\d+\)"):
        run_virtual(main())


def test_a_socket_in_virtual_time_is_refused():
    async def main() -> None:
        left, right = socket.socketpair()
        left.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_recv(left, 1)
        finally:
            left.close()
            right.close()

    with pytest.raises(VirtualTimeError, match="in-process transport"):
        run_virtual(main())


def test_ctrl_c_ends_a_virtual_run_that_would_go_on_forever():
    async def main() -> None:
        asyncio.get_running_loop().call_later(10, signal.raise_signal, signal.SIGINT)
        while True:
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main())


def test_each_run_starts_at_zero_and_a_loop_knows_what_it_is():
    async def main() -> tuple[float, bool]:
        return now(), is_virtual(asyncio.get_running_loop())

    assert run_virtual(main()) == run_virtual(main()) == (0.0, True)
    assert asyncio.run(main())[1] is False
    assert VirtualLoop.virtual
