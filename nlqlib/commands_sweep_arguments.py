"""Arguments of `sweep`; what it does is imported when it runs, not for --help."""

import argparse
import os

DESCRIPTION = """Throughput and latency of a load: a closed loop at each concurrency, or an open loop.

A closed loop keeps N requests in flight (--concurrency), from one process or from several (--workers). An
open loop sends when the plan says so, answered or not: at a rate (--rate, --arrivals) or at the times of a
file (--trace); its latency is counted from the planned start as well.

MAX_REQUESTS and MAX_TOKENS are hard limits: a sweep beyond them is refused before anything is sent."""
EXAMPLE = """example: python -m nlqlib sweep --target twin --concurrency 1,8
prints
  target twin (times modelled); answers synthetic; closed loop on a warm prefix

   concurrency  repeat   n  ok failed X_run X_window p50_s p95_s mean_s running waiting validity
             1       0 150 150      0 0.311    0.311 3.211 3.345  3.214     1.0     0.0     held
             8       0 160 160      0 2.236    2.235 3.563 3.712  3.564     7.8     0.1     held
X_run counts valid answers over the whole run, ramp and drain included; X_window in steady state alone.

example: python -m nlqlib sweep --target twin --rate 2,4 --arrivals poisson
A trace is JSON lines (a number of seconds, or an object with `arrival_s`) or a CSV file with that column."""
CLOSED = "1,8,16,32"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `sweep`."""
    command = commands.add_parser(
        "sweep",
        help="throughput and latency of a closed loop at each concurrency, or of an open loop",
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    _closed(command)
    _open(command)
    add = command.add_argument
    add(
        "--requests",
        type=int,
        default=0,
        help="of each level (default: 20 for each in flight, at least 150;\n"
        "local: 2 for each, at least 4, of 16 tokens; open loop: 150, local 12)",
    )
    add("--repeats", type=int, default=1, help="of each level, in one shuffled order (default: 1)")
    add("--seed", type=int, default=0, help="of the order, the arrivals, and the twin's lengths (default: 0)")
    add("--words", choices=["synthetic", "recordings"], default="synthetic", help="of the twin's answers")
    add("--out", metavar="DIR", help="keep the points as artifacts here, and reuse those that are there")
    default = os.environ.get("TARGET") or "twin"
    add("--target", default=default, help="twin, local or https://host/v1 (default: %(default)s)")
    add("--json", action="store_true", help="JSON instead of a table")
    command.set_defaults(command=_run)


def _closed(command: argparse.ArgumentParser) -> None:
    closed = command.add_argument_group("closed loop")
    closed.add_argument("--concurrency", help=f"requests in flight, as 1,8,16 (default: {CLOSED})")
    closed.add_argument(
        "--workers",
        type=int,
        default=1,
        help="processes that share the load (default: 1); more when the client was the limit",
    )


def _open(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("open loop")
    group.add_argument("--rate", help="requests per second, as 2 or 1,2,4")
    group.add_argument(
        "--arrivals", choices=["poisson", "constant", "gamma"], help="gaps between them (default: poisson)"
    )
    group.add_argument("--cv", type=float, help="coefficient of variation of gamma gaps (default: 2)")
    group.add_argument("--trace", metavar="FILE", help="planned starts in seconds, instead of a rate")


def _run(args: argparse.Namespace) -> int:
    from nlqlib import commands_sweep

    return commands_sweep.run(
        args.target, args.concurrency, args.requests, args.repeats,
        seed=args.seed, words=args.words, out=args.out, as_json=args.json, workers=args.workers,
        rate=args.rate, arrivals=args.arrivals, cv=args.cv, trace=args.trace,
    )  # fmt: skip
