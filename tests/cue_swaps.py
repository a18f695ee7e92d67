"""Questions with other names in them: metrics, dimensions and values moved on by one, golds as well.

A metric becomes one of its unit, a value one of the dimension that its own becomes, so the question still
makes sense and its gold changes with it. What a question does not name (`best-selling`) stays as it is.
"""

import re
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

MONEY = ("refunds", "revenue", "net revenue", "gross margin", "average order value")
COUNTS = ("orders", "units", "customers")
RATIOS = ("return rate", "gross margin rate")
CALLED = {"sales": "revenue", "profit": "gross margin", "buyers": "customers"}
"""Other words for a metric in these questions."""
DIMENSIONS = ("region", "channel", "category", "customer segment")
PLURALS = ("regions", "channels", "categories", "customer segments")
VALUES = {
    "region": "North|South|East|West|Central|Northeast|Northwest|Southeast|Southwest|Overseas",
    "channel": "Store|Kiosk|Phone|Partner|Outlet|Wholesale|Social|Mobile App|Marketplace|Web|Pop-up|Catalog",
    "category": "Home|Electronics|Outdoors|Toys|Beauty|Grocery|Office|Women's|Men's|Top Shelf",
    "customer segment": "Consumer|Corporate|Small Business|Government|Education|Nonprofit",
}


def _cycle(names: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(names, (*names[1:], names[0]), strict=True))


METRICS = _cycle(MONEY) | _cycle(COUNTS) | _cycle(RATIOS)
SPLITS = _cycle(DIMENSIONS)


def _value_words() -> dict[str, str]:
    """Every value, and the one in the same place of the dimension that its own becomes."""
    words = {}
    for dimension, values in VALUES.items():
        others = VALUES[SPLITS[dimension]].split("|")
        words |= {value: others[i % len(others)] for i, value in enumerate(values.split("|"))}
    return words


VALUE_WORDS = _value_words()
WORDS = {**METRICS, **{said: METRICS[name] for said, name in CALLED.items()}}
WORDS |= {
    **SPLITS,
    **_cycle(PLURALS),
    "product category": SPLITS["category"],
    "product categories": "customer segments",
}
SINGULAR = dict(zip(PLURALS, DIMENSIONS, strict=True))
SINGULAR |= {"product category": "category", "product categories": "category"}
TURNED = {"asc": "desc", "desc": "asc"}
BAD = ("refunds", "return_rate")
JUDGED = re.compile(r"\b(?:best|worst|weakest|strongest|perform\w*|underperform\w*|top.performing)\b(?!-)")
"""Words whose direction follows what is good for the metric."""
APART = re.compile(r"\b(?:versus|vs|compare\w*|against|separately|each|or)\b", re.IGNORECASE)
"""Words that split by values without naming their dimension."""
_KNOWN = sorted([*WORDS, *VALUE_WORDS], key=len, reverse=True)
_SAID = re.compile("|".join(rf"\b{re.escape(word)}(?!\w)" for word in _KNOWN), re.IGNORECASE)


def _other(word: str) -> str:
    value = next((other for name, other in VALUE_WORDS.items() if name == word), None)
    other = value or WORDS.get(word.lower()) or word
    return other if value else (other[0].upper() + other[1:] if word[0].isupper() else other)


def swapped(row: Row) -> Row | None:
    """The row with the next metrics, dimensions and values; `None` where its names are not said as such."""
    question, gold = row["question"], row["gold"]
    said = {m[0] if m[0] in VALUE_WORDS else m[0].lower() for m in _SAID.finditer(question)}
    if not _plainly(question, said, gold):
        return None
    metrics = {_words(name) for name in gold["metrics"]}
    kept = {
        word for word in said if CALLED.get(word, word) in COUNTS and CALLED.get(word, word) not in metrics
    }
    moved = {CALLED.get(word, word) for word in said - kept}
    text = _SAID.sub(lambda m: m[0] if m[0].lower() in kept else _other(m[0]), question)
    other = {**row, "question": text, "gold": _moved_gold(question, gold, moved)}
    distinct = len(set(other["gold"]["metrics"])) == len(gold["metrics"])
    return other if distinct and text != question else None


def _plainly(question: str, said: set[str], gold: Row) -> bool:
    """Are values and splits of `gold` said by their names, and no money or ratio but its own?"""
    filters = [f for f in gold["filters"] if _words(f["field"]) in SPLITS]
    values = {value for f in filters for value in f["values"]}
    against = {_words(f["field"]) for f in filters} if APART.search(question) else set()
    without = {_words(f["field"]) for f in filters if not f["values"]}
    splits = {_words(d) for d in gold["dimensions"]} | without
    told = {SINGULAR.get(word, word) for word in said}
    metrics = {CALLED.get(word, word) for word in said} & set(METRICS) - set(COUNTS)
    named = values <= said and (splits & set(SPLITS)) - against <= told
    return named and metrics <= {_words(m) for m in gold["metrics"]}


def _words(name: str) -> str:
    return name.replace("_", " ")


def _moved_gold(question: str, gold: Row, moved: set[str]) -> Row:
    def name(field: str) -> str:
        words = _words(field)
        other = METRICS[words] if words in METRICS and words in moved else SPLITS.get(words, words)
        return other.replace(" ", "_")

    filters = [
        {**f, "field": name(f["field"]), "values": [VALUE_WORDS.get(v, v) for v in f["values"]]}
        for f in gold["filters"]
    ]
    names = {slot: [name(n) for n in gold[slot]] for slot in ("metrics", "dimensions")}
    return {**gold, **names, "filters": filters, "sort": gold["sort"] and _moved_sort(question, gold, name)}


def _moved_sort(question: str, gold: Row, name: Callable[[str], str]) -> Row:
    """By the next metric; what is called best or worst is the other end where its good is the other."""
    by, direction = gold["sort"]["by"], gold["sort"]["direction"]
    turned = JUDGED.search(question) is not None and (by in BAD) != (name(by) in BAD)
    return {"by": name(by), "direction": TURNED[direction] if turned else direction}
