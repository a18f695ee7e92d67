"""Shorter prompts for the same questions: the beginning of the real one, with fewer rules and examples.

Lengths are exact Qwen token counts of the whole request. A shortened prompt is a true prefix of the next
longer one, so what is cached of one serves the others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from nlqlib import tokens
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.prompt import system_text
from nlqlib.records import ChatRequest

EXAMPLES, VALUES = "# Examples", " Values: "


def cuts(text: str) -> tuple[str, ...]:
    """Every beginning of a system message that ends with a whole rule, listed value or example, ascending."""
    rules, heading, examples = text.partition(EXAMPLES)
    ends = [end for end in _ends(rules) if rules[:end].strip()]
    shown = examples.strip().split("\n\n") if examples.strip() else []
    start = f"{rules}{heading}\n"
    return tuple(
        [rules[:end] for end in ends] + [start + "\n\n".join(shown[: k + 1]) for k in range(len(shown))]
    )


def _ends(rules: str) -> Iterator[int]:
    """Where a line ends, and in a list of values also where a value does; blank lines count with the next."""
    at = 0
    for line in rules.rstrip().split("\n"):
        if VALUES in line:
            yield from (at + m.start() for m in re.finditer(",", line) if m.start() > line.index(VALUES))
        if line:
            yield at + len(line)
        at += len(line) + 1


@lru_cache(maxsize=16)
def shortened(wanted: int, question: str) -> str:
    """The cut of the baseline prompt with which a request comes closest to `wanted` tokens; 0: all of it."""
    text = system_text(load_catalog())
    if not wanted:
        return text
    return min(cuts(text), key=lambda cut: abs(_count(cut, question) - wanted))


def _count(system: str, question: str) -> int:
    return tokens.count_chat(({"role": "system", "content": system}, {"role": "user", "content": question}))


def shorten(asked: Sequence[ChatRequest], wanted: int) -> list[ChatRequest]:
    """`asked` with one common shorter system message, so that the first has about `wanted` tokens."""
    if not wanted or not asked:
        return list(asked)
    system = shortened(wanted, asked[0].messages[-1]["content"])
    cut = {"role": "system", "content": system}
    return [replace(r, messages=(cut, *r.messages[1:])) for r in asked]


def lengths(asked: Sequence[ChatRequest]) -> tuple[int, ...]:
    """Prompt tokens of each request, as the server will count them."""
    return tuple(tokens.count_chat(r.messages) for r in asked)
