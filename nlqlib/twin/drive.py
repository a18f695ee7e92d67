"""Load for one replica without any event loop: plain functions over times, for calibration and scenarios.

The suite's own load generators reach the twin through its HTTP interface; this is the short way.
"""

from collections import deque
from collections.abc import Callable, Iterable

from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence

Served = tuple[float, float, Sequence]
"""Sent and returned, in seconds, and the request."""


def open_loop(replica: Replica, arrivals: Iterable[tuple[float, Sequence]]) -> list[Sequence]:
    """Submit each sequence at its time (seconds, ascending), run dry, return them in that order."""
    sequences = []
    for at, seq in arrivals:
        replica.submit(seq, at)
        sequences.append(seq)
    drain(replica)
    return sequences


def drain(replica: Replica) -> None:
    """Run until nothing is left to do."""
    while (at := replica.next_event_s()) is not None:
        replica.advance(at)


def closed_loop(
    replica: Replica,
    make: Callable[[int], Sequence],
    requests: int,
    concurrency: int,
    before_s: float = 0.0,
    after_s: float = 0.0,
    start_s: float = 0.0,
    apart_s: float = 0.0,
) -> list[Served]:
    """`concurrency` clients send `requests` in all from `start_s`, each the next once its last returned.

    `make(i)` gives the i-th request. Outside the engine a request spends `before_s` on its way in and
    `after_s` on its way back, in seconds; two arrive at least `apart_s` apart. In order of return.
    """
    sent = [start_s] * requests
    arriving = deque((start_s + before_s + i * apart_s, i) for i in range(min(concurrency, requests)))
    last_s = arriving[-1][0] if arriving else start_s
    started = len(arriving)
    index: dict[Sequence, int] = {}
    served: list[Served] = []
    while len(served) < requests:
        at = replica.next_event_s()
        if arriving and (at is None or arriving[0][0] <= at):
            at, i = arriving.popleft()  # whoever was sent first arrives first: all take the same way
            seq = make(i)
            index[seq] = i
            replica.submit(seq, at)
            continue
        assert at is not None
        for event in replica.advance(at):
            back = event.at_s + after_s
            served.append((sent[index.pop(event.sequence)], back, event.sequence))
            if started < requests:
                sent[started] = back
                last_s = max(back + before_s, last_s + apart_s)
                arriving.append((last_s, started))
                started += 1
    return served
