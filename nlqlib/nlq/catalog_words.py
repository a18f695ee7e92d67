"""Words of a catalog that only the rules need, so that they change nothing a model is asked.

`NAME.words.toml` beside `NAME.toml`, or a table `[words]` in it; a catalog may have none. Patterns are those
of `data/english.toml`: (a|b) is a choice, [a|b] an optional one, ` | ` stands between phrases.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Words:
    """What people say of the things of one catalog."""

    metric: Mapping[str, str] = field(default_factory=dict)
    """Further phrases for a metric, by its name."""
    dimension: Mapping[str, str] = field(default_factory=dict)
    """Further phrases for a dimension, in the singular, by its name."""
    adjective: Mapping[str, str] = field(default_factory=dict)
    """Verbs and adjectives (`sold`, `profitable`) that stand for a metric, by its name."""
    superlative: Mapping[str, str] = field(default_factory=dict)
    """`desc` or `asc` and an adjective, by the phrase that is both: `bestseller`."""
    idiom: str = ""
    """Phrases in which a value or name of the catalog means none."""


NO_WORDS = Words()
"""Of a catalog that says all there is to say itself."""


def words_beside(path: Path) -> dict[str, Any]:
    """The tables of the words file beside the catalog `path`; empty where there is none."""
    beside = path.with_suffix(".words.toml")
    return tomllib.loads(beside.read_text("utf-8")) if beside.is_file() else {}
