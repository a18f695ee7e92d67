"""The command line: thin, for people and scripts that want no notebook.

Each command prints a table, or JSON with `--json`, and exits 0 only on success. What a user can put right
ends in one line on standard error and exit status 2.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from nlqlib import (
    commands_claims,
    commands_diagnose_arguments,
    commands_gateway,
    commands_meaning,
    commands_probe,
    commands_record,
    commands_sweep_arguments,
    commands_tools,
)

EPILOG = """examples:
  python -m nlqlib ask "revenue by region in 2024" --target local
  python -m nlqlib sql intent.json
  python -m nlqlib evaluate data/questions/dev.jsonl --condition cues --out rows.jsonl
  python -m nlqlib guard dev --raw rows.jsonl --condition cues
  python -m nlqlib simulate scenario.json
  python -m nlqlib validate-twin --only throughput fit
  python -m nlqlib sweep --target twin --concurrency 1,8,16 --repeats 3 --out build/sweep
  python -m nlqlib diagnose --target https://host/v1 --workload chats.jsonl
  python -m nlqlib compare build/before build/after
  python -m nlqlib serve local --port 8000
  python -m nlqlib serve twin --port 8001 --words synthetic
  python -m nlqlib gateway --upstream http://127.0.0.1:8000 --router-limit 1 --replica-limit 1
  python -m nlqlib window before.txt after.txt --elapsed 60
  python -m nlqlib claims --verdict differs
  python -m nlqlib probe --target local

TARGET, MODEL, API_KEY_ENV and the other settings of a target come from the environment; see the README.
"""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Ctrl-C and an output that takes no more end in one line, too."""
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()  # what does not fit is said now, not by the interpreter at its end
    except KeyboardInterrupt:
        print("nlqlib: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        _say_no_more()
        if error.errno != errno.EPIPE:
            print(f"nlqlib: {_explained(error)}", file=sys.stderr)
        return 2


def _explained(error: OSError) -> str:
    """What the system says, of which file, and what helps where a disk is full."""
    told = error.strerror or str(error) or type(error).__name__
    if error.filename:
        told += f": {error.filename}"
    elif error.errno in FULL:
        told += ", for the output or for a file that was written"
    return told + ("; free some space, then run again" if error.errno in FULL else "")


def _say_no_more() -> None:
    """Let what is still in the buffer of standard output go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _run(argv: Sequence[str] | None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a locale or UTF-8 cannot show, as in JSON
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("reproduce", "plan"):
        return guarded(lambda: _commands().reproduce(arguments))
    if arguments and arguments[0] in ("site", "publish", "readme"):
        from nlqlib import commands_site as pages

        command = {"site": pages.build, "publish": pages.archive, "readme": pages.readme}[arguments[0]]
        return guarded(lambda: command(arguments[1:]))
    args = parser().parse_args(arguments)
    return guarded(lambda: int(args.command(args)))


def guarded(call: Callable[[], int]) -> int:
    """The exit status of `call`; an error that the user can mend is one line, not a traceback."""
    from nlqlib.artifacts import ArtifactError
    from nlqlib.commands import InputError
    from nlqlib.files import WriteError
    from nlqlib.locking import LockedError
    from nlqlib.nlq.catalog import CatalogError, QuestionError
    from nlqlib.serving.endpoint import EndpointError
    from nlqlib.serving.engine_settings import EngineError
    from nlqlib.serving.target import TargetError
    from nlqlib.twin.clock import VirtualTimeError
    from nlqlib.twin.recordings import RecordingError

    mendable = (
        ArtifactError, CatalogError, EndpointError, EngineError, InputError,
        LockedError, QuestionError, RecordingError, TargetError, VirtualTimeError, WriteError,
    )  # fmt: skip
    try:
        return call()
    except mendable as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, *FULL):
            raise  # it may be the output that takes no more: `main` lets go of it
        print(f"nlqlib: {_explained(error)}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    top = argparse.ArgumentParser(
        "python -m nlqlib", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = top.add_subparsers(required=True, metavar="command")
    commands.add_parser("reproduce", help="run the notebooks against a target (see `reproduce --help`)")
    commands.add_parser("plan", help="what `reproduce` would send, and about how long it takes")
    commands.add_parser("site", help="turn executed notebooks into a static site")
    commands.add_parser("publish", help="the site as one archive")
    commands.add_parser("readme", help="renew the README's story from executed notebooks")
    commands_meaning.register(commands)
    commands_tools.register(commands)
    commands_gateway.register(commands)
    _calibrate(commands)
    commands_sweep_arguments.register(commands)
    commands_diagnose_arguments.register(commands)
    commands_claims.register(commands)
    commands_probe.register(commands)
    commands_record.register(commands)
    return top


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _calibrate(commands: Commands) -> None:
    command = commands.add_parser(
        "calibrate",
        help="fit a twin to an endpoint from seven short points, and judge it on others",
        description="Fit a twin to an endpoint from seven short points, and judge it on others.",
        epilog="example: python -m nlqlib calibrate --target local --out data/twins/mine.json\n"
        "prints measured and modelled values of every point, and which coefficients stay unknown",
        formatter_class=argparse.RawTextHelpFormatter,
    )
    command.add_argument("--out", required=True, help="the document to write, data/twins/NAME.json")
    command.add_argument("--force", action="store_true", help="replace a document that exists")
    _target(command)
    command.set_defaults(command=_run_calibrate)


def _run_calibrate(args: argparse.Namespace) -> int:
    from nlqlib import commands_calibrate

    return commands_calibrate.run(args.target, args.out, args.force, args.json)


def _target(command: argparse.ArgumentParser) -> None:
    default = os.environ.get("TARGET") or "twin"
    command.add_argument(
        "--target", default=default, help="twin, local or https://host/v1 (default: %(default)s)"
    )
    command.add_argument("--json", action="store_true", help="JSON instead of a table")


def _commands():  # type: ignore[no-untyped-def]
    from nlqlib import commands  # what a command needs is imported when it runs, not for --help

    return commands


if __name__ == "__main__":
    sys.exit(main())
