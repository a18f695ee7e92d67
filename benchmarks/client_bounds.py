"""What is promised of our wire client, and the table of every load generator beside it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.clients import SUSPECT, Cost

WIRE, OPENAI = "nlqlib wire", "nlqlib openai"
ACHIEVED = {(32, False): 0.97, (256, False): 0.96, (1024, False): 0.93, (32, True): 0.97, (256, True): 0.90}
"""Least share of the ideal throughput, by concurrency and whether it streams."""
CPU_S = {(32, False): 0.08, (256, False): 0.07, (1024, False): 0.05, (32, True): 0.33, (256, True): 0.16}
"""Most processor seconds per 1,000 requests."""
FIRST_S = 0.3
IN_FLIGHT = 0.02
"""Most by which the number in flight at once may differ between our count and the server's."""
SERVER_RATE = 30_000.0
"""Requests per second that the server must hold, so that it is never the limit of a client."""
SERVER_CPU_S = 1000.0 / SERVER_RATE
"""Its processor seconds per 1,000 requests under each load, by which one core of it holds as many."""
CASES = tuple(ACHIEVED)


@dataclass(frozen=True)
class Bound:
    """One promise, and what was found."""

    what: str
    found: float | None
    bound: float
    ok: bool


def server_bounds(rate: float | None) -> Iterator[Bound]:
    """What the server must hold when it is driven without a pause; nothing where it was not."""
    if rate is not None:
        yield Bound(
            "the server alone, thousand requests a second",
            rate / 1000,
            SERVER_RATE / 1000,
            rate >= SERVER_RATE,
        )


def bounds(costs: Iterable[Cost]) -> list[Bound]:
    """Every promise about the wire client, and of both of ours that they name themselves as the limit.

    Other tools are shown, not judged.
    """
    found: list[Bound] = []
    for c in costs:
        found += _bounds(c) if c.tool == WIRE else ()
        found += _named(c) if c.tool in (WIRE, OPENAI) else ()
    return found


def _bounds(c: Cost) -> Iterator[Bound]:
    case, name = (c.concurrency, c.stream), _name(c)
    yield Bound(f"{name}: achieved / ideal", c.achieved, ACHIEVED[case], c.achieved >= ACHIEVED[case])
    yield _most(f"{name}: CPU s per 1,000", c.cpu_s_per_1000, CPU_S[case])
    yield _most(f"{name}: first request after (s)", c.first_request_s, FIRST_S)
    off = None if c.told_peak is None else abs(c.told_peak / c.server_peak - 1)
    yield _most(f"{name}: in flight by our count and the server's", off, IN_FLIGHT)
    if not c.stream:
        yield _most(f"{name}: the server's own CPU s per 1,000", c.server_cpu_s_per_1000, SERVER_CPU_S)


def _named(c: Cost) -> Iterator[Bound]:
    if c.achieved < SUSPECT:
        said, who = len(c.client_limits), "" if c.tool == WIRE else f"{c.tool}, "
        yield Bound(f"{who}{_name(c)}: rules naming the client as the limit", said, 1, said > 0)


def _name(c: Cost) -> str:
    return f"{c.concurrency} in flight" + (", streaming" if c.stream else "")


def _most(what: str, found: float | None, bound: float) -> Bound:
    return Bound(what, found, bound, found is not None and found <= bound)


def table(costs: Sequence[Cost]) -> str:
    """One line per tool and load."""
    head = f"{'load generator':<22}{'in flight':>10}{'':>8}{'achieved':>10}{'CPU s/1,000':>13}"
    lines = [f"{head}{'server saw':>12}"]
    for c in costs:
        how = "stream" if c.stream else "plain"
        lines.append(
            f"{c.tool:<22}{c.concurrency:>10}{how:>8}{c.achieved:>10.3f}{c.cpu_s_per_1000:>13.3f}"
            f"{c.server_in_flight:>12.1f}" + ("  client-limited" if c.client_limits else "")
        )
    return "\n".join(lines)


def bounds_table(found: Sequence[Bound]) -> str:
    """One line per promise."""
    lines = []
    for b in found:
        value = "missing" if b.found is None else f"{b.found:.3f}"
        lines.append(f"{b.what:<68}{value:>9}{b.bound:>9.3f}  {'met' if b.ok else 'MISSED'}")
    return "\n".join(lines)
