"""A 2 × 2 factorial: two factors, each low and high, every combination repeated; effects with intervals.

Definitions of Box, Hunter and Hunter, *Statistics for Experimenters* (2nd ed. 2005, ch. 5): a main effect is
the mean at high less the mean at low; the interaction is half of what one factor's effect changes when the
other goes from low to high. Every effect is a contrast Σ c·m of the four cell means m. Its interval is
Student's t with the cells' own variances and Welch and Satterthwaite's degrees of freedom (1946), because
a queue's spread differs from cell to cell by orders of magnitude and must not be pooled.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from scipy import stats as sp

from nlqlib.analysis.stats import Estimate, Floats, Interval, Summary, summary

Setting = Literal["low", "high"]
Cell = tuple[Setting, Setting]
"""Setting of the first factor, of the second."""
CELLS: tuple[Cell, ...] = (("low", "low"), ("high", "low"), ("low", "high"), ("high", "high"))
METHOD = "contrast of cell means, Welch–Satterthwaite t interval"


@dataclass(frozen=True)
class Effect:
    """One contrast, in the unit of the response."""

    name: str
    value: float | None
    """`None` while a cell that it needs is missing."""
    interval: Interval | None
    """`None` where a cell it needs was measured only once."""

    @property
    def distinct(self) -> bool | None:
        """Whether 0 lies outside the interval; `None` without one."""
        return None if self.interval is None else not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True)
class Factorial:
    """What the four cells say; `effects` in this order: both main effects, interaction, simple effects."""

    factors: tuple[str, str]
    cells: Mapping[Cell, Summary]
    """Those that were measured."""
    effects: tuple[Effect, ...]

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Combinations nobody measured."""
        return tuple(cell for cell in CELLS if cell not in self.cells)

    def effect(self, name: str) -> Effect:
        """The effect called `name`. Raises `KeyError`."""
        return {e.name: e for e in self.effects}[name]


def factorial(
    observed: Mapping[Cell, Sequence[float]],
    factors: tuple[str, str] = ("first", "second"),
    confidence: float = 0.95,
) -> Factorial:
    """The effects of two factors on a response: repeats of it for each cell, in its own unit.

    A cell without values is missing, and so is every effect that needs it. Raises `ValueError` for a cell
    that is none, for equal names, and for values that are not finite.
    """
    unknown = [cell for cell in observed if cell not in CELLS]
    if unknown or factors[0] == factors[1]:
        raise ValueError(f"a cell is one of {CELLS} of two different factors, not {unknown or factors}")
    cells = {cell: summary(observed[cell], confidence) for cell in CELLS if len(observed.get(cell, ()))}
    effects = [_effect(name, signs, cells, confidence) for name, signs in contrasts(factors)]
    return Factorial(factors, cells, tuple(effects))


def contrasts(factors: tuple[str, str]) -> Iterator[tuple[str, Mapping[Cell, float]]]:
    """Name and coefficients of every effect."""
    sign = {"low": -1.0, "high": 1.0}
    a, b = factors
    yield a, {cell: sign[cell[0]] / 2 for cell in CELLS}
    yield b, {cell: sign[cell[1]] / 2 for cell in CELLS}
    yield f"{a} × {b}", {cell: sign[cell[0]] * sign[cell[1]] / 2 for cell in CELLS}
    settings: tuple[Setting, ...] = ("low", "high")
    for (i, name), other in product(enumerate(factors), settings):
        yield f"{name}, {factors[1 - i]} {other}", {c: sign[c[i]] for c in CELLS if c[1 - i] == other}


def contrast(
    cells: Mapping[Cell, Summary], coefficients: Mapping[Cell, float], confidence: float = 0.95
) -> Estimate:
    """Σ c·m over `cells` with its interval; no value when a cell is missing, no interval of single values.

    Cells that do not vary at all give an interval without width.
    """
    used = [(cells[cell], c) for cell, c in coefficients.items() if cell in cells]
    n = sum(cell.n for cell, _ in used)
    if len(used) < len(coefficients):
        return Estimate(None, None, n, METHOD)
    value = math.fsum(c * (cell.mean or 0.0) for cell, c in used)
    if min(cell.n for cell, _ in used) < 2:
        return Estimate(value, None, n, METHOD)
    parts = np.array([c * c * (cell.sd or 0.0) ** 2 / cell.n for cell, c in used])
    half = _half_width(parts, np.array([cell.n - 1 for cell, _ in used]), confidence)
    return Estimate(value, Interval(value - half, value + half), n, METHOD)


def _half_width(parts: Floats, degrees: Floats, confidence: float) -> float:
    """Of the interval of a sum whose terms have the variances `parts`, each on its own `degrees`."""
    total = float(parts.sum())
    if total == 0:
        return 0.0
    effective = 1 / float(((parts / total) ** 2 / degrees).sum())
    return float(sp.t.isf((1 - confidence) / 2, effective)) * math.sqrt(total)


def _effect(
    name: str, coefficients: Mapping[Cell, float], cells: Mapping[Cell, Summary], confidence: float
) -> Effect:
    found = contrast(cells, coefficients, confidence)
    return Effect(name, found.value, found.interval)
