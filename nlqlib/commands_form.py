"""The form that every subcommand has: a line in the list, what it does, and an example as it is printed."""

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def subcommand(
    commands: Commands,
    name: str,
    summary: str,
    about: str,
    example: str,
    form: type[argparse.HelpFormatter] = argparse.RawDescriptionHelpFormatter,
) -> argparse.ArgumentParser:
    """The parser of `name`, added to `commands`; `example` ends its help. `form` lays out its arguments."""
    return commands.add_parser(name, help=summary, description=about, epilog=example, formatter_class=form)
