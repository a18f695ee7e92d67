"""`record`: a real model's answers, written down for the twin to replay."""

import argparse
from pathlib import Path

from nlqlib.commands_meaning import in_flight

EXAMPLE = """\
Asks a real engine, or takes the answers that a page has retained of one. Example:

  $ python -m nlqlib record --retained artifacts/local/13_heldout_semantics
  qwen2.5-coder-1.5b-instruct/dev-baseline-structured_outputs.jsonl: 20 answers, 3 of them new
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line's parser."""
    command = commands.add_parser(
        "record",
        help="record a real model's answers for the twin to replay",
        description=EXAMPLE,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = command.add_argument
    add("--target", default="local", help="local (default) or a URL")
    add("--set", default="dev", help="question set, or a list of them (default: dev)")
    add("--condition", help="ways to ask: baseline,contrastive,planner, all, or ablations")
    add("--again", action="store_true", help="ask anew also for what is recorded")
    add("--contract", help="one output contract (default: each of the three recorded ones)")
    add("--concurrency", type=in_flight, default=1, help="requests in flight (default: 1)")
    add("--retained", metavar="DIR", help="ask nobody: take the answers retained in this folder of artifacts")
    command.set_defaults(command=_record)


def _record(args: argparse.Namespace) -> int:
    if args.retained:
        return retained(Path(args.retained))
    from nlqlib import commands  # what a command needs is imported when it runs, not for --help

    return commands.record(args.target, args.set, args.contract, args.concurrency, args.condition, args.again)


def retained(folder: Path) -> int:
    """Record the answers retained in `folder` and say what changed; 0. Raises `RecordingError`."""
    from nlqlib.experiments.recording_retained import fill

    for one in fill(folder):
        print(f"{one.path.parent.name}/{one.path.name}: {one.answers} answers, {one.taken} of them new")
    return 0
