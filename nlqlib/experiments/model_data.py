"""Shapes of models and peaks of accelerators from `data/models.toml`, found by the names endpoints use."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nlqlib import paths
from nlqlib.analysis.kv import ModelShape
from nlqlib.twin.datasheet import Accelerator

SOURCE = paths.DATA / "models.toml"


class UnknownModelError(KeyError):
    """No such shape or accelerator is on file; says which are."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Machine:
    """An accelerator of the file."""

    name: str
    peaks: Accelerator
    memory_bytes: float
    """As marketed."""


@lru_cache(maxsize=1)
def _file() -> Mapping[str, Any]:
    return tomllib.loads(SOURCE.read_text("utf-8"))


def models() -> dict[str, ModelShape]:
    """Every model by its name on the hub."""
    return {name: ModelShape(**fields) for name, fields in _file()["models"].items()}


def machines() -> dict[str, Machine]:
    """Every accelerator by its name."""
    return {
        name: Machine(name, Accelerator(told["bandwidth"], told["flops"]), told["memory"])
        for name, told in _file()["accelerators"].items()
    }


def model_shape(name: str) -> ModelShape:
    """The shape of the model called `name`, with or without its owner. Raises `UnknownModelError`."""
    known = models()
    wanted = name.rsplit("/", 1)[-1].casefold()
    found = next((n for n in known if n.rsplit("/", 1)[-1].casefold() == wanted), None)
    if found is None:
        raise UnknownModelError(f"no shape of {name!r} is in data/models.toml{_close(name, known)}")
    return known[found]


def machine(text: str) -> Machine:
    """The accelerator that `text` names (`NVIDIA L4 (24 GB, …)`). Raises `UnknownModelError`."""
    known = machines()
    words = _words(text)
    fitting = [m for n, m in known.items() if _words(n) - {"nvidia"} <= words]
    if not fitting:
        raise UnknownModelError(f"no peaks of {text!r} are in data/models.toml{_close(text, known)}")
    return max(fitting, key=lambda m: len(_words(m.name)))


def _words(text: str) -> frozenset[str]:
    return frozenset("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _close(name: str, known: Iterable[str]) -> str:
    there = list(known)
    close = difflib.get_close_matches(name, there, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(there)}"
