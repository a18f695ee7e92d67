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
)

EPILOG = """examples:
  python -m nlqlib ask "revenue by region in 2024" --target local
  python -m nlqlib sql intent.json
  python -m nlqlib evaluate data/questions/dev.jsonl --condition cues --out rows.jsonl
  python -m nlqlib guard dev --raw rows.jsonl --condition cues
  python -m nlqlib simulate scenario.json
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
    _sql(commands)
    _engine(commands)
    _twin(commands)
    commands_gateway.register(commands)
    _window(commands)
    _calibrate(commands)
    commands_sweep_arguments.register(commands)
    commands_diagnose_arguments.register(commands)
    commands_claims.register(commands)
    commands_probe.register(commands)
    commands_record.register(commands)
    return top


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _sql(commands: Commands) -> None:
    command = commands.add_parser("sql", help="intent → SQL, bound values, rows (no model)")
    command.add_argument("intent", help="a JSON file with one intent; - reads standard input")
    command.add_argument("--json", action="store_true", help="JSON instead of a table")
    command.set_defaults(command=lambda a: _commands().sql(a.intent, a.json))


def _engine(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="an endpoint in real time, until Ctrl-C")
    serve.add_argument("what", choices=["local", "twin"])
    serve.add_argument("--port", type=int, help="port on the loopback (default: a free one)")
    twin = serve.add_argument_group("serve twin")
    twin.add_argument("--twin", help="name or file of a twin document (default: the article's L4)")
    twin.add_argument("--words", choices=["recordings", "synthetic"], help="replayed, or lengths drawn")
    twin.add_argument("--output-tokens", type=float, help="mean of the lengths drawn (default: 115)")
    twin.add_argument("--output-sd", type=float, help="their spread (default: 3)")
    twin.add_argument("--seed", type=int, help="seed of the lengths drawn (default: 0)")
    twin.add_argument("--max-num-seqs", type=int, help="sequences running at once (default: the document's)")
    serve.set_defaults(command=_serve)
    install = commands.add_parser("engine", help="install vLLM and its model into the cache")
    install.set_defaults(command=lambda a: _commands().install())


def _serve(args: argparse.Namespace) -> int:
    if args.what == "local":
        return int(_commands().serve(args.port))
    from nlqlib import commands_serve

    names = ("twin", "words", "output_tokens", "output_sd", "seed", "max_num_seqs")
    settings = commands_serve.twin_settings(**{name: getattr(args, name) for name in names})
    return commands_serve.twin(args.port, settings)


def _twin(commands: Commands) -> None:
    simulate = commands.add_parser("simulate", help="twin on an explicit request list → per-request times")
    simulate.add_argument(
        "scenario", help="a JSON file with engine, step_time and requests; - reads standard input"
    )
    simulate.add_argument("--json", action="store_true", help="JSON instead of a table")
    simulate.set_defaults(command=lambda a: _twin_commands().simulate(a.scenario, a.json))
    validate = commands.add_parser("validate-twin", help="every stated bound of the twin, met or not")
    validate.add_argument(
        "--only", nargs="+", default=[], metavar="GROUP", help="these groups of bounds alone"
    )
    validate.add_argument("--json", action="store_true", help="JSON instead of a table")
    validate.set_defaults(command=lambda a: _twin_commands().validate(a.only, a.json))


def _window(commands: Commands) -> None:
    command = commands.add_parser("window", help="two saved /metrics pages → what the server did in between")
    command.add_argument("before", help="the page at the beginning, a text file, plain or gzipped")
    command.add_argument("after", help="the page at the end")
    command.add_argument("--elapsed", type=float, required=True, help="seconds between the two")
    command.add_argument("--json", action="store_true", help="JSON instead of tables")
    command.set_defaults(command=_run_window)


def _run_window(args: argparse.Namespace) -> int:
    from nlqlib.commands_window import window

    return window(args.before, args.after, args.elapsed, args.json)


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


def _twin_commands():  # type: ignore[no-untyped-def]
    from nlqlib import commands_twin

    return commands_twin


def _commands():  # type: ignore[no-untyped-def]
    from nlqlib import commands  # what a command needs is imported when it runs, not for --help

    return commands


if __name__ == "__main__":
    sys.exit(main())
