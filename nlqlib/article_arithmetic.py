"""Does the article's own arithmetic close? Each derived number again, from the numbers it is derived from.

Two answers for each: recomputed from the numbers as printed and rounded like the result; and whether any
unrounded inputs that print the same could give it.
"""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from nlqlib.article_data import Claim, claim, claims

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

Closes = Literal["closes", "within rounding", "does not close"]


@dataclass(frozen=True)
class Recomputed:
    """A derived claim beside its formula's value, in the claim's unit."""

    claim: Claim
    value: float
    """From the inputs as printed."""
    low: float
    high: float
    """Over all inputs that print the same."""
    closes: Closes


def recompute(derived: Claim) -> Recomputed:
    """Evaluate the formula of a claim; refuses a claim without one."""
    if derived.formula is None or derived.inputs is None:
        raise ValueError(f"{derived.id} has no formula: it is {derived.kind}")
    inputs = {name: claim(other) for name, other in derived.inputs.items()}
    fixed = {k: float(v) for k, v in derived.condition.items() if isinstance(v, int | float)}
    value = evaluate(derived.formula, {**fixed, **{n: _printed(c) for n, c in inputs.items()}})
    corners = itertools.product(*(_rounding(c) for c in dict.fromkeys(derived.derived_from)))
    sides = [dict(zip(derived.derived_from, corner, strict=True)) for corner in corners]
    spread = [
        evaluate(derived.formula, {**fixed, **{n: s[other] for n, other in derived.inputs.items()}})
        for s in sides
    ]
    return Recomputed(derived, value, min(spread), max(spread), _closes(derived, value, spread))


def arithmetic() -> tuple[Recomputed, ...]:
    """Every derived claim that has a formula."""
    return tuple(recompute(c) for c in claims() if c.formula)


def half_unit(c: Claim) -> float:
    """Half a unit of the last digit printed, in the claim's unit; 0 for a count, a setting or an assumption.

    After '≈' the trailing zeros of a whole number are not taken as digits (1,060 ms, 790 tok/s).
    """
    number = re.search(r"\d[\d,]*(?:\.(\d+))?", c.printed)
    if number is None or c.kind in ("configured", "assumed") or c.unit in ("cases", "interventions"):
        return 0.0
    digits, decimals = number[0].replace(",", ""), len(number[1] or "")
    zeros = (
        len(digits) - len(digits.rstrip("0")) if c.qualifier == "≈" and not decimals and float(digits) else 0
    )
    return 0.5 * 10.0 ** (zeros - decimals) * (_printed(c) / float(digits) if float(digits) else 1.0)


def evaluate(formula: str, names: Mapping[str, float]) -> float:
    """A formula of + − · / over named numbers."""
    return _walk(ast.parse(formula, mode="eval").body, names)


def _walk(node: ast.expr, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_walk(node.left, names), _walk(node.right, names))
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError(f"a formula holds only + - * / of names and numbers, not {ast.unparse(node)!r}")


def _printed(c: Claim) -> float:
    if c.value is None:
        raise ValueError(f"{c.id} is an interval and cannot stand in a formula")
    return float(c.value)


def _rounding(claim_id: str) -> tuple[float, float]:
    c = claim(claim_id)
    return _printed(c) - half_unit(c), _printed(c) + half_unit(c)


def _closes(derived: Claim, value: float, spread: list[float]) -> Closes:
    half, target = half_unit(derived), _printed(derived)
    slack = 1e-9 * abs(target)
    if abs(value - target) <= half + slack:
        return "closes"
    overlap = min(spread) <= target + half + slack and max(spread) >= target - half - slack
    return "within rounding" if overlap else "does not close"
