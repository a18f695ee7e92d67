"""The cells of the prefix page on the twin, measured once for all tests of it, and the twin as somebody's."""

import atexit
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from nlqlib.artifacts import Record, Store
from nlqlib.experiments import prefix
from nlqlib.experiments.study import Profile, Study
from nlqlib.serving.target import Connection, Target, open_target


def study(folder: Path, target: Target, profile: Profile = "full") -> Study:
    """The page's study of `target`, retained in `folder`."""
    return Study("08_prefix_cache", target, profile, "wire", Store(folder))


@cache
def twin() -> Study:
    """The page's study of the twin, in a store that ends with the tests."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return study(Path(folder.name), open_target("twin"))


@cache
def records() -> tuple[Record, ...]:
    """Its cells, in their order."""
    return tuple(prefix.measure(twin()))


def as_url(change: Callable[[Connection], Connection]) -> Target:
    """The twin as somebody's endpoint: nothing of it is ours to set."""
    drawn = open_target("twin").engine(words="synthetic")
    return replace(
        drawn,
        name="endpoint",
        kind="url",
        can=frozenset({"metrics"}),
        variant=None,
        connect=lambda: change(drawn.connect()),
    )
