"""How many requests per second the twin's engine simulates: `python -m benchmarks.twin [--json] [--requests
N]`.

One core, processor time, best of three. No event loop and no HTTP: what the engine itself costs. The rows
named `bound` are the stated cases; the others show what happens off the happy path. Exits 1 if a bound is
missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from nlqlib.twin import model
from nlqlib.twin.drive import closed_loop
from nlqlib.twin.load import Load, lengths, prompts, warm_up
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence as Request

REPEATS = 3
PROMPTS = Load(32, 1, output_sd=0.0, outside_s=0.07)  # 20 prompts of 3,300 tokens, output 115
SHORT = replace(PROMPTS, prompt_tokens=100, shared_tokens=0)


@dataclass(frozen=True)
class Case:
    """A load, and the requests per second it must reach (`None`: shown only)."""

    name: str
    load: Load
    hashing: bool
    bound: float | None = None


@dataclass(frozen=True)
class Speed:
    """What a case came to."""

    name: str
    requests_per_s: float
    times_real: float
    """Simulated seconds per second of processor time."""
    steps_per_request: float
    bound: float | None

    @property
    def ok(self) -> bool:
        return self.bound is None or self.requests_per_s >= self.bound


CASES = (
    Case("KV hashing, 20 prompts of 3,300 tokens, output 115", PROMPTS, True, 20_000),
    Case("leaping, hashing off, same load", PROMPTS, False),
    Case("leaping, hashing off, 100-token prompts", SHORT, False, 100_000),
    Case("KV hashing, output 115 ± 3: requests end one by one", replace(PROMPTS, output_sd=3.0), True),
    Case("hashing off, output 115 ± 3", replace(PROMPTS, output_sd=3.0), False),
)


def measure(case: Case, requests: int) -> Speed:
    """Run `case` with that many requests, `REPEATS` times; the fastest counts."""
    return max((_once(case, requests) for _ in range(REPEATS)), key=lambda speed: speed.requests_per_s)


def _once(case: Case, requests: int) -> Speed:
    twin, load = model.load(), replace(case.load, requests=requests)
    limits = replace(twin.limits, enable_prefix_caching=case.hashing)
    table, chains = prompts(load, limits.block_size)  # the hash chains, memoised per prompt
    replica = Replica(limits, twin.step_time, table)
    start = warm_up(replica, load, chains) if case.hashing else 0.0
    outputs, way = lengths(load), load.outside_s / 2

    def make(i: int) -> Request:
        return Request("", load.prompt_tokens, outputs[i], chains[i % len(chains)])

    steps, began = replica.counters.steps, time.process_time()
    served = closed_loop(replica, make, requests, load.concurrency, way, way, start)
    _ = replica.counters.phases  # histograms are folded when read; that belongs to the cost
    spent = time.process_time() - began
    simulated = served[-1][1] - start
    steps = replica.counters.steps - steps
    return Speed(case.name, requests / spent, simulated / spent, steps / requests, case.bound)


def table(speeds: Sequence[Speed]) -> str:
    """The speeds as text, one line each."""
    lines = [f"{'case':<56}{'requests/s':>12}{'× real time':>13}{'steps/request':>15}{'bound':>10}"]
    for speed in speeds:
        bound = "" if speed.bound is None else f"≥ {speed.bound:,.0f}" + ("" if speed.ok else " missed")
        lines.append(
            f"{speed.name:<56}{speed.requests_per_s:>12,.0f}{speed.times_real:>13,.0f}"
            f"{speed.steps_per_request:>15.1f}{bound:>10}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    speeds = [measure(case, args.requests) for case in CASES]
    print(json.dumps([asdict(s) | {"ok": s.ok} for s in speeds], indent=1) if args.json else table(speeds))
    return 0 if all(speed.ok for speed in speeds) else 1


if __name__ == "__main__":
    sys.exit(main())
