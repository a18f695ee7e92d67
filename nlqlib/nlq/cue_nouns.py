"""First rules: which noun is what. Metric or dimension, value, head noun, missing value, exclusion."""

import re
from dataclasses import replace

from nlqlib.nlq.cue_board import Board, Match, Values, joined
from nlqlib.nlq.cue_either import metric_or_dimension
from nlqlib.nlq.cue_formulas import formulas, metric_called
from nlqlib.nlq.cue_lexicon import lexicon
from nlqlib.nlq.cue_roles import done
from nlqlib.nlq.cue_tags import Item, codes

IDIOMS = ("top line", "bottom line")
"""Names of a metric that are adjectives before another one: `top-line orders` are orders."""

PLAIN = frozenset({"for", "of", "on", "from", "in", "among"})
"""Prepositions before a noun that only carries what follows."""


def nouns(board: Board) -> None:
    """All rules of this module, in order."""
    superlative_words(board)
    told_by_place(board)
    formulas(board)
    counted(board)
    numbered_entities(board)
    lists_of_values(board)
    metric_or_dimension(board)
    idiom_metrics(board)
    missing_values(board)
    head_nouns(board)
    exclusions(board)


def superlative_words(board: Board) -> None:
    """`busiest` is the most busy; it becomes a superlative and an adjective."""

    def split(m: Match) -> list[Item]:
        item = m.items[0]
        direction, adjective = item.value.split()
        meaning = _stands_for(board, adjective)
        mark = replace(item, code="^", value=direction, words=adjective)
        called = item.words if item.words.endswith(("er", "ers")) else adjective
        return [mark, replace(item, code="J", value=meaning, words=called)]

    board.replace("=", split)
    if not board.has("M"):  # customers who ordered most often
        often = r"(?<=[XDEA])o(?=\^(?![MJDETU]?[1h]))"
        board.replace(often, lambda m: _done_often(board, m.items[0]))


def _stands_for(board: Board, word: str) -> str | None:
    """The metric that an adjective or verb, or a noun, stands for."""
    found = [e for e in lexicon(board.catalog).at((word,)) if e.code in "JMX"]
    return None if not found else found[0].value[0] if found[0].code == "X" else found[0].value


def _done_often(board: Board, item: Item) -> list[Item] | None:
    """What was taken for a word of sorting is a verb where a count is named by it."""
    name = done(board.catalog, item.words.split(" ")[0])
    return [replace(item, code="J", value=name)] if name else None


def told_by_place(board: Board) -> None:
    """`how many flasks were sold in stores`: the verb before a place is a metric where nothing else is."""
    if board.has("[MJ]") or board.all("threshold"):
        return
    for item in board.items:
        verb = lexicon(board.catalog).at((item.words.split(" ")[0],)) if item.code == "f" else ()
        name = next((entry.value for entry in verb if entry.code == "J"), None)
        if name:
            board.note("reserve", (name, False), "verb of a place", [item])


def counted(board: Board) -> None:
    """`the volume of every channel`: what counts a noun is a metric itself where no metric follows."""

    def metric(m: Match) -> list[Item] | None:
        item = m.items[0]
        names = [name for word in item.words.split() if (name := metric_called(board.catalog, word))]
        return [replace(item, code="M", value=names[0])] if names else None

    board.replace(r"q(?=[bj]|f?[jb])", metric)


def idiom_metrics(board: Board) -> None:
    def drop(m: Match) -> list[Item] | None:
        return m["rest"] if m.items[0].words in IDIOMS else None

    board.replace(r"M(?P<rest>M)", drop)
    plain = [item for item in board.items if item.code == "M" and item.words not in IDIOMS]
    listed = board.has(r"M\+M")
    if plain and not listed:
        board.items = [item for item in board.items if item.words not in IDIOMS]


def numbered_entities(board: Board) -> None:
    """`customer 1017` and `customers 1001 and 1005` are values of a dimension whose entities go by id."""

    def named(m: Match) -> list[Item] | None:
        noun = m.items[0]
        dimension = noun.value[1] if noun.code == "X" else noun.value
        names = board.catalog.dimensions[dimension].names
        numbers = [item for item in m["ids"] if item.code == "N"]
        if not names or any(int(item.value) not in names for item in numbers):
            return None
        return [joined(m.items, "V", Values(dimension, tuple(int(item.value) for item in numbers)))]

    board.replace(r"[DEX](?P<ids>N(?:[+/]?N)*)", named)


def lists_of_values(board: Board) -> None:
    """Values of one dimension that stand side by side become one item; what joins them is kept."""
    board.items = [
        replace(i, value=Values(i.value[0], (i.value[1],)))
        if i.code == "V" and isinstance(i.value, tuple)
        else i
        for i in board.items
    ]

    def join(m: Match) -> list[Item] | None:
        first, second = m["a"][0], m["b"][0]
        if first.value.dimension != second.value.dimension:
            return None
        nouns_between = [item for item in m["noun"] if not _names(item, first.value.dimension)]
        names = tuple(dict.fromkeys((*first.value.names, *second.value.names)))
        value = Values(
            first.value.dimension, names, first.value.joins + codes(m["join"]) + second.value.joins
        )
        return [joined([first, *m["join"], second], "V", value), *nouns_between]

    if board.has("c"):
        board.replace(r"(?P<a>V)(?P<noun>[MXDE]?)(?P<join>[wf])(?P<b>V)", join)  # compare A with B
    board.take(r"(?P<a>V)(?P<noun>[MXDE]?)(?P<join>(?:[+/z]{1,2}w?[fbj]?)?)(?P<b>V)", join)


def _names(item: Item, dimension: str) -> bool:
    return item.code in "DE" and item.value == dimension


def missing_values(board: Board) -> None:
    """`no region recorded`: is_null. `with a known region`, `excluding unknown regions`: not_null."""

    def noted(op: str, m: Match) -> list[Item]:
        board.note("filter", (m["d"][0].value, op, ()), "missing values", m.items)
        return []

    board.items = [
        replace(i, code="!") if i.code == "x" and i.words.endswith((" no", " without")) else i
        for i in board.items
    ]
    board.replace(r"[fx!]+Z[DE]?|Z", lambda m: _unnamed(board, m))
    board.replace(r"[x!][MXDEfwaA]*(?:!a?k?(?P<d>[DE])k?)", lambda m: noted("not_null", m))
    board.replace(r"(?:u(?P<d>[DE])|(?P<e>[DE])u)p", lambda m: _excluded_missing(board, m))
    board.replace(r"[x!][MXfwaA]*(?:u(?P<d>[DE])|(?P<e>[DE])u)", lambda m: _excluded_missing(board, m))
    board.replace(
        r"(?:f[MDE]w?)?![aw]?k?(?P<d>[DE])k?(?![VzN])",
        lambda m: None if _only(board, m) or _denied_split(m) else noted("is_null", m),
    )
    board.replace(r"(?:[wfA]+)?(?:u(?P<d>[DE])|(?P<e>[DE])u)", lambda m: _missing(board, m))
    board.replace(r"(?:[wfA]+)?k(?P<d>[DE])|[wfA]*w(?P<e>[DE])k", lambda m: _known(board, m))
    board.replace(r"(?:f(?P<head>[MDE]))?(?P<w>w+)(?P<d>D)(?![VMzN])", lambda m: _having(board, m))
    board.replace(r"(?P<d>[DE])k", lambda m: noted("not_null", m) if m.codes_before()[-1:] != "b" else None)
    board.items = [item for item in board.items if item.code not in "uk"]


def _only(board: Board, m: Match) -> bool:
    """Is the noun before it the only metric?"""
    metrics = [item for item in m.items if item.code == "M"]
    return bool(metrics) and not any(item.code in "MJ" for item in (*m.before, *m.after))


def _denied_split(m: Match) -> bool:
    """`by channel, not region`: another way to split is denied, no value is missing."""
    said = next(item.words for item in m.items if item.code == "!")
    lacking = said.split(" ")[0] in ("no", "lack", "lacks", "lacking", "without")
    return re.search("[bj][DETU]P?$", m.codes_before()) is not None and not lacking


def _unnamed(board: Board, m: Match) -> list[Item]:
    op = "not_null" if set("x!") & set(m.match[0]) else "is_null"
    unnamed = next(item for item in m.items if item.code == "Z")
    board.note("filter", (unnamed.value, op, ()), "missing values", m.items)
    return []


def _either(m: Match) -> str:
    return (m["d"] or m["e"])[0].value


def _excluded_missing(board: Board, m: Match) -> list[Item]:
    board.note("filter", (_either(m), "not_null", ()), "missing values", m.items)
    return []


def _having(board: Board, m: Match) -> list[Item] | None:
    """`orders that have a region`: not_null, where some have none."""
    dimension = m["d"][0].value
    said = m["w"][-1].words.split()[-1:] in (["have"], ["has"], ["had"]) or (
        m["head"] and m["w"][-1].words == "with"
    )
    if not said or not board.catalog.dimensions[dimension].nullable:
        return None
    board.note("filter", (dimension, "not_null", ()), "missing values", m.items)
    return []


def _missing(board: Board, m: Match) -> list[Item]:
    board.note("filter", (_either(m), "is_null", ()), "missing values", m.items)
    return []


def _known(board: Board, m: Match) -> list[Item]:
    board.note("filter", (_either(m), "not_null", ()), "missing values", m.items)
    return []


def head_nouns(board: Board) -> None:
    """`the Store and Outlet channels`, `region West`: a noun that only carries a value."""

    def own(m: Match) -> list[Item] | None:
        value, noun = m["v"][0], m["n"][0]
        return [joined(m.items, "V", value.value)] if _names(noun, value.value.dimension) else None

    board.replace(r"(?P<v>V)(?P<n>[DE])", own)
    board.replace(r"(?<![bjW^R])(?P<n>[DE])w?(?P<v>V)", own)

    def carried(m: Match) -> list[Item] | None:
        others = sum(item.code in "MJ" for item in (*m.before, *m.after))
        apart = "z" in m["v"][-1].value.joins or board.has("[yc]")
        return m["v"] if others and (m.match["p"] or apart) else None

    board.replace(r"(?P<v>(?P<p>[fzx!Iw]b?|[+/])?V)M(?!\+)", carried)

    def counted_in(m: Match) -> list[Item] | None:
        noun, told = m["n"][0], any(item.code == "M" for item in m.before)
        plain = m.items[0].words in PLAIN and board.catalog.metrics[noun.value].unit == "count"
        return m["rest"] if told and plain else None

    board.replace(r"(?<!b)f(?P<n>M)(?P<rest>[fw]+V)", counted_in)  # revenue of orders from the West
    board.replace(r"(?<=M)f(?P<n>M)(?P<rest>)(?=[bjP]|$)", counted_in)

    def other(m: Match) -> list[Item] | None:
        others = (*m.before, *m.after)
        ranked = any(i.code in "^R" for i in others) and not any(i.code in "DETUA" for i in others)
        return m["v"] if any(item.code in "MJ" for item in others) and not ranked else None

    board.replace(r"(?<![\^NWR])(?P<v>[fx!]+V)[DE]", other)
    board.replace(r"(?<![\^NWR])f(?:E)(?P<v>f+V)", other)


def _but(items: list[Item]) -> list[Item]:
    """`but` behind a noun is `except`."""
    return [replace(item, code="x") if item.code == "O" else item for item in items]


def exclusions(board: Board) -> None:
    """`except A and B`, `without A`, `A excluded`: always not_in. `all channels except A` does not split."""

    def noted(m: Match) -> list[Item]:
        for item in m.items:
            if item.code == "V":
                board.note("filter", (item.value.dimension, "not_in", item.value.names), "exclusion", m.items)
        return []

    def scoped(m: Match) -> list[Item] | None:
        noun, value = m["n"][0], m["v"][0]
        ordered = not board.has("[bj][DETU]")  # all channels but one are rows where nothing else is
        return (
            [*([noun] if ordered else []), *_but(m["rest"])] if _names(noun, value.value.dimension) else None
        )

    def meant(m: Match) -> list[Item]:
        return m["rest"]

    board.replace(r"![fa]*V[MXDE]?O(?P<rest>f*V)", meant)
    board.replace(r"f*a(?P<n>[DE])(?P<rest>O[fa]*(?P<v>V))", scoped)
    board.replace(r"(?P<rest>[jb]+[DE])(?P<x>O[fa]*V)", lambda m: [*m["rest"], *_but(m["x"])])
    board.items = [item for item in board.items if item.code != "O"]
    board.replace(r"f*a(?P<n>[DE])(?P<rest>[x!][fa]*(?P<v>V))", scoped)

    def label(m: Match) -> list[Item] | None:
        own = _names(m["n"][0], m["v"][0].value.dimension)
        split = board.has("[bjG][DETU]|G|t")
        return m["rest"] if own and split else None

    board.replace(r"(?<![bjaW^RN])(?P<n>[DE])(?P<rest>[x!]+[fab]*(?P<v>V))", label)
    board.replace(r"[x!]+[fabw]*(?:[MXDE][fw]+)?V(?:[+/][x!]?V)*p?", noted)
    board.replace(r"V(?:[+/]V)*p", noted)
