"""The cells of the prefix page on the twin, measured once for all tests of it."""

import atexit
import tempfile
from functools import cache
from pathlib import Path

from nlqlib.artifacts import Record, Store
from nlqlib.experiments import prefix
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target


@cache
def twin() -> Study:
    """The page's study of the twin, in a store that ends with the tests."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Study("08_prefix_cache", open_target("twin"), "full", "wire", Store(Path(folder.name)))


@cache
def records() -> tuple[Record, ...]:
    """Its cells, in their order."""
    return tuple(prefix.measure(twin()))
