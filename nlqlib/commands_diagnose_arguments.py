"""Arguments of `diagnose` and `compare`; what they do is imported when they run, not for --help."""

import argparse
import os

from nlqlib.commands_form import Commands, subcommand

DIAGNOSE = """Where an endpoint loses concurrency: one verdict with its evidence, and what could not be seen.

A short sweep is measured on the target (or read from DIR, which `sweep --out` or `diagnose --out` wrote): the
slopes of throughput and p95, the way in which requests sent at once come back, requests running and waiting
in the engine, the waits that router and replica report, and whether the client was the limit. Verdicts:
serialised upstream, limited at K, client-limited, scheduler-limited, batching works, or cannot tell."""
DIAGNOSE_EXAMPLE = """example: the twin behind limits of one, as the study found its endpoint
  python -m nlqlib diagnose --target twin --router-limit 1 --replica-limit 1
prints (shortened)
  Serialised upstream, so concurrency is lost before the engine's scheduler: at 32 in flight 97% of
    the latency is waiting at the router, which lets 1 through at once.
  (target twin, times modelled)

  Layers, from the outside in
    Router             limits       lets about 1.0 through at once (estimated by Little's law); mean
                                    wait 92.4 s at 32 in flight
    Replica admission  not reached  mean wait 0 s at 32 in flight; it is given no more than 1 at once

  Where to change it
    Baseten  `concurrency_target` of the deployment's autoscaling settings (default 1): requests sent
             to one replica; set it to 32
A workload of your own is one JSON object a line:
  {"messages": [{"role": "user", "content": "…"}], "max_tokens": 64, "ignore_eos": true}
MAX_REQUESTS and MAX_TOKENS are hard limits: a plan beyond them is refused before anything is sent.
exit status: 0 with a verdict, 1 when it cannot tell, 2 for input that cannot be used"""
COMPARE = """Two saved runs, before and after a change: differences at each concurrency with 95 % intervals.

A and B are folders that `sweep --out`, `diagnose --out` or a notebook wrote. Any two runs of one machine
differ by its drift: where a side has one run of a level its times' interval is over requests alone, and only
what lies 20 % and more beyond it is read. `sweep --repeats 3 --out DIR` on both sides measures runs that can
be compared."""
COMPARE_EXAMPLE = """example: python -m nlqlib compare build/before build/after
prints (shortened)
  before: serialised upstream, so concurrency is lost before the engine's scheduler: at 32 in flight
    97% of the latency is waiting at the router, which lets 1 through at once
  after:  batching works: the engine runs 100% of the requests in flight and none waits; throughput
    grows × 21.9 up to 32 in flight, with a knee at about 12

  settings that differ:
    identity.admission.router: 1 → None

   in flight          quantity before  after difference       95 % interval             reading
          32 throughput, req/s 0.3114  6.912      6.601        6.57 to 6.63             higher
          32    p95 latency, s  103.6  4.816     -98.77      -98.8 to -98.5              lower
          32     failed, share      0      0          0  -0.0169 to 0.0169  no difference shown"""


def register(commands: Commands) -> None:
    """Add both commands and their arguments."""
    form = argparse.RawTextHelpFormatter
    diagnose = subcommand(commands, "diagnose", "where concurrency is lost", DIAGNOSE, DIAGNOSE_EXAMPLE, form)
    add = diagnose.add_argument
    add("source", nargs="?", metavar="DIR", help="saved runs instead of a target")
    target = os.environ.get("TARGET") or "twin"
    add("--target", default=target, help="twin, local or https://host/v1 (default: %(default)s)")
    add("--workload", metavar="F", help="chats of your own, one JSON object a line (see below)")
    add("--profile", help="full or quick (default: PROFILE, else full; quick for local)")
    add("--concurrency", help="requests in flight (default: 1,2,4,8,16,32; quick: to 16)")
    add("--requests", type=int, default=0, help="of each level (default: 7 for each in flight; quick: 3)")
    add("--repeats", type=int, default=2, help="of all levels, at most, if noise leaves it open (default: 2)")
    add("--points", default="*", help="of DIR only those whose name matches, such as 'before-*'")
    add("--workers", type=int, default=1, help="processes that share the load (default: 1)")
    add("--processes", type=int, default=0, help="also release so many independent processes together")
    add("--pool", type=int, help="connections of our client, to show a client that limits")
    add("--out", metavar="DIR", help="keep the levels as artifacts here, and reuse those that are there")
    add("--json", action="store_true", help="JSON instead of tables")
    front = diagnose.add_argument_group("a gateway of ours in front of the target")
    front.add_argument("--router-limit", type=int, help="requests in flight at the router")
    front.add_argument("--replica-limit", type=int, help="requests in flight at each replica")
    front.add_argument("--replicas", type=int, help="replicas behind the router (twin)")
    front.add_argument("--no-headers", action="store_true", help="answers do not tell what they waited")
    diagnose.set_defaults(command=_diagnose)
    compare = subcommand(
        commands, "compare", "two saved runs, before and after", COMPARE, COMPARE_EXAMPLE, form
    )
    compare.add_argument("before", metavar="A", help="saved runs before the change, a folder")
    compare.add_argument("after", metavar="B", help="saved runs after it")
    compare.add_argument("--points", default="*", help="only those whose name matches")
    compare.add_argument("--json", action="store_true", help="JSON instead of tables")
    compare.set_defaults(command=_compare)
    about = (
        "How often the diagnosis is right: deployments whose limit is known, in a simulated world of queues."
    )
    validate = commands.add_parser(
        "validate-diagnosis", help="how often the diagnosis is right", description=about
    )
    validate.add_argument("--keep", action="store_true", help="retain the counts for the page about methods")
    validate.add_argument("--json", action="store_true", help="every case, instead of tables")
    validate.set_defaults(command=_validate)


def _diagnose(args: argparse.Namespace) -> int:
    from nlqlib import commands_diagnose

    limits = {
        "router": args.router_limit,
        "replica": args.replica_limit,
        "replicas": args.replicas,
        "headers": False if args.no_headers else None,
    }
    return commands_diagnose.diagnose(
        args.source,
        args.target,
        concurrency=args.concurrency,
        requests=args.requests,
        workload=args.workload,
        limits=limits,
        pool=args.pool,
        workers=args.workers,
        processes=args.processes,
        profile=args.profile,
        repeats=args.repeats,
        points=args.points,
        out=args.out,
        as_json=args.json,
    )


def _compare(args: argparse.Namespace) -> int:
    from nlqlib import commands_diagnose_compare

    return commands_diagnose_compare.compare(args.before, args.after, args.points, args.json)


def _validate(args: argparse.Namespace) -> int:
    from nlqlib import commands_diagnose_rates

    return commands_diagnose_rates.run(args.keep, args.json)
