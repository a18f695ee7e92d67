"""Every number of the article's text in order, each with a hash of the fragment that holds it: `numbers.txt`.

The text is not committed, this list is. With it a test can say anywhere that no number is left over:

    python tests/article_numbers.py /path/to/article.txt

writes `data/article/numbers.txt`. A number is hashed with the words around it as far as its claim or its
exclusion quotes them, or with the pattern that leaves it out. One that nobody holds is hashed with its
neighbours, which no fragment here has: the test then finds it left over.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import article_walk

from nlqlib.article_data import ARTICLE, claims, exclusions

LIST = ARTICLE / "numbers.txt"
HEAD = "# The numbers of the article in order, each with a hash of the fragment around it (README.md).\n"
DIGEST_CHARS = 12
AROUND = 40
"""Characters on either side of a number that nobody holds."""

Entry = tuple[str, str]
"""A number as it is printed, and the hash of what stands around it."""


@dataclass(frozen=True)
class Listed:
    """How the committed list and the claims and exclusions cover each other."""

    total: int
    claimed: int
    excluded: int
    left_over: tuple[Entry, ...]
    """Numbers of the text that no claim and no exclusion holds."""
    held_twice: tuple[Entry, ...]
    """Numbers that more claims name than there are places."""
    not_there: tuple[Entry, ...]
    """Numbers that a claim prints and the text does not have."""


def entries(text: str) -> list[Entry]:
    """The numbers of `text` in order; a fragment stands for the place it occurs at."""
    held = dict(_held(text))
    found = []
    for (low, high), _ in article_walk.numbers(text):
        fragment = held.get((low, high)) or text[max(0, low - AROUND) : high + AROUND]
        found.append((text[low:high], digest(fragment)))
    return found


def digest(fragment: str) -> str:
    """The first characters of the sha256 of `fragment`, blanks counted as one."""
    return hashlib.sha256(" ".join(fragment.split()).encode()).hexdigest()[:DIGEST_CHARS]


def _held(text: str) -> Iterator[tuple[article_walk.Span, str]]:
    """The place of every number that something holds, with the fragment it is held by."""
    tokens = [span for span, _ in article_walk.numbers(text)]
    for _, low, high, fragment in article_walk.holders(text):
        yield from ((span, fragment) for span in tokens if low <= span[0] and span[1] <= high)


def listed(path: Path = LIST) -> list[Entry]:
    """The committed list."""
    lines = path.read_text("utf-8").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return [(number, hashed) for number, hashed in rows]


def compare(found: Iterable[Entry]) -> Listed:
    """The numbers `found` in the text against what `data/article` holds of them."""
    there, claimed = Counter(found), Counter(_claimed())
    quoted, patterns = set(_excluded()), {digest(e.pattern) for e in exclusions() if e.pattern}
    free = {e: n for e, n in there.items() if e not in claimed}
    excluded = {e: n for e, n in free.items() if e in quoted or e[1] in patterns}
    return Listed(
        there.total(),
        sum(n for e, n in there.items() if e in claimed),
        sum(excluded.values()),
        tuple(e for e in free if e not in excluded),
        tuple(e for e, n in claimed.items() if n > there[e] > 0),
        tuple(e for e in claimed if e not in there),
    )


def _claimed() -> Iterator[Entry]:
    """What the claims print, and where they print it again."""
    for c in claims():
        yield from _of(c.printed, c.quote)
        for quote in c.also:
            yield from _of(quote, quote)


def _excluded() -> Iterator[Entry]:
    for e in exclusions():
        for quote in e.quotes:
            yield from _of(quote, quote)


def _of(part: str, fragment: str) -> list[Entry]:
    return [(part[low:high], digest(fragment)) for (low, high), _ in article_walk.numbers(part)]


def main(path: str) -> int:
    """Write the list of the text at `path`, and say how many numbers it has."""
    found = entries(Path(path).read_text("utf-8"))
    LIST.write_text(HEAD + "".join(f"{number} {hashed}\n" for number, hashed in found), "utf-8")
    print(f"{LIST.name}: {len(found)} numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
