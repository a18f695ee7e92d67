"""Client overhead: `python -m benchmarks.client_bench [--json] [--peers …] [--cases …]`, or `make bench`.

Our wire client, the openai client and, where they are installed, other load generators, all in one run
against one server whose answers take 50 ms. Prints two tables, keeps the result as an artifact of kind bench,
and exits 1 if a promise about the wire client is missed. Everything shares this machine's cores.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import capacity, clients, peers
from benchmarks.capacity import Held
from benchmarks.client_bounds import CASES, bounds, bounds_table, server_bounds, table
from benchmarks.clients import BenchError, Cost, Tool
from nlqlib import paths
from nlqlib.artifacts import Measured, PointKey, Record, Store, source_digest
from nlqlib.records import Metric
from nlqlib.serving.engine_install import engine_entry
from nlqlib.serving.engine_settings import settings
from nlqlib.serving.model_files import model_entry

Case = tuple[int, bool]
PEER_CASES: Sequence[Case] = ((32, True), (256, True))
"""Peers always stream; at 1,024 they need minutes, and fail."""
SLOW_WAVES = 40
PEERS = ("openai", "vllm", "guidellm")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class NotRun:
    """A row that is missing, and why."""

    row: str
    why: str

    def __str__(self) -> str:
        return f"{self.row}: not run, because {self.why}"


@dataclass
class Found:
    """What a bench found, row by row."""

    costs: list[Cost] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    server_rate: float | None = None
    """Requests per second of the server when it is driven as hard as sockets allow."""
    ladder: list[Held] = field(default_factory=list)
    """What one process of our client holds of answers of one second; empty: not asked."""


def peer_tools(wanted: Sequence[str], absent: list[NotRun]) -> Iterator[tuple[Tool, Sequence[Case]]]:
    """The peers asked for that are installed; of the others `absent` says how to get them."""
    if "openai" in wanted:
        yield clients.ours("openai"), ((32, False), (256, False), *PEER_CASES)
    tokenizer, engine = model_entry().folder, engine_entry(settings()).folder / "bin" / "python"
    if "vllm" in wanted and engine.exists() and tokenizer.exists():
        yield peers.vllm_bench(engine, tokenizer), PEER_CASES
    elif "vllm" in wanted:
        absent.append(NotRun("vllm bench serve", "it is not here: `make engine` installs it"))
    if "guidellm" in wanted and peers.guidellm_python().exists() and tokenizer.exists():
        yield peers.guidellm(peers.guidellm_python(), tokenizer), PEER_CASES
    elif "guidellm" in wanted:
        absent.append(NotRun("guidellm", "it is not here: `python -m benchmarks.peers` installs it"))


def measure(cases: Sequence[Case], wanted: Sequence[str], tell: Tell) -> Found:
    """Server, ladder, ours at every case, then each peer; of one that fails or is absent is said why."""
    found = Found(server_rate=capacity.server_rate(), ladder=capacity.ladder())
    tell(capacity_lines(found))
    with clients.fixed_server() as root:
        for concurrency, stream in cases:
            found.costs.append(clients.cost(clients.ours("wire"), root, concurrency, stream))
            tell(table(found.costs[-1:]).splitlines()[-1])
        for tool, theirs in peer_tools(wanted, found.not_run):
            for concurrency, stream in theirs:
                try:
                    found.costs.append(clients.cost(tool, root, concurrency, stream, SLOW_WAVES))
                except BenchError as failure:
                    how = "streaming" if stream else "plain"
                    found.not_run.append(NotRun(f"{tool.name}, {concurrency} {how}", str(failure)))
                else:
                    tell(table(found.costs[-1:]).splitlines()[-1])
    return found


def keep(cases: Sequence[Case], wanted: Sequence[str], root: Path, tell: Tell) -> Record:
    """Measure anew and retain the result under `root`."""
    key = PointKey(
        target="local",
        notebook="bench",
        point="clients",
        kind="bench",
        params={"cases": [list(c) for c in cases], "peers": list(wanted), "latency_s": clients.LATENCY_S},
        workload=None,
        identity={"server": "benchmarks.fixed_server"},
        source=source_digest(("nlqlib.load.closed_loop", "nlqlib.serving.client"), follow=True),
    )
    store = Store(remeasure=True, root=root, remeasured_root=root)
    return store.measure(key, lambda: _measured(measure(cases, wanted, tell)))


def _measured(found: Found) -> Measured:
    metrics = [m for c in found.costs for m in _metrics(c)]
    return Measured(metrics=metrics, results=asdict(found))


def _metrics(c: Cost) -> Iterator[Metric]:
    name = f"{c.tool}, {c.concurrency} in flight, {'streaming' if c.stream else 'plain'}"
    yield Metric(f"achieved / ideal: {name}", "share", "mean", c.achieved, c.requests, "measured")
    yield Metric(
        f"processor time: {name}", "s per 1,000 requests", "mean", c.cpu_s_per_1000, c.requests, "measured"
    )


def capacity_lines(found: Found) -> str:
    """What the server and one process of our client hold."""
    most = capacity.largest_held(found.ladder)
    held = "less than the first rung" if most is None else f"{most:,}"
    rate = "not measured" if found.server_rate is None else f"{found.server_rate:,.0f} req/s"
    return (
        f"the server alone, driven without a pause: {rate}\n"
        f"largest concurrency that one process of ours held, answers of {capacity.SLOW_S:g} s: {held}"
    )


def of_record(record: Record) -> Found:
    """What `record` holds."""
    told = record.body["results"]
    costs = [Cost(**row | {"client_limits": tuple(row["client_limits"])}) for row in told["costs"]]
    absent = [NotRun(**row) for row in told.get("not_run", ())]
    rungs = [Held(**row) for row in told.get("ladder", ())]
    return Found(costs, absent, told.get("server_rate"), rungs)


def _case(text: str) -> Case:
    return int(text.removesuffix("s")), text.endswith("s")


def main(argv: Sequence[str] | None = None, root: Path = paths.ARTIFACTS) -> int:
    """Measure, print, keep; the exit status."""
    parser = argparse.ArgumentParser("python -m benchmarks.client_bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.add_argument("--peers", default=",".join(PEERS), help="of openai, vllm, guidellm; '' for none")
    parser.add_argument("--cases", default="", help="such as 32,256,32s: in flight, s for streaming (all)")
    args = parser.parse_args(argv)
    cases = [_case(c) for c in args.cases.split(",") if c] or list(CASES)
    with redirect_stdout(sys.stderr):
        kept = keep(cases, [p for p in args.peers.split(",") if p], root, _tell)
    found = of_record(kept)
    judged = [*server_bounds(found.server_rate), *bounds(found.costs)]
    if args.json:
        print(json.dumps(asdict(found), indent=1))
    else:
        lines = [capacity_lines(found), table(found.costs), *map(str, found.not_run)]
        print("\n".join(lines), bounds_table(judged), sep="\n\n")
    return 0 if all(b.ok for b in judged) else 1


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
