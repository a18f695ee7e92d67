"""Rules for values: plain filters, values set against each other, and the better of several."""

from dataclasses import replace

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Board, Match
from nlqlib.nlq.cue_tags import Item


def values(board: Board) -> None:
    """All rules of this module, in order."""
    if board.codes.endswith("j"):  # womens and mens turnover, each
        board.items[-1] = replace(board.items[-1], code="y")
    ranked_items(board)
    which_of(board)
    set_against(board)
    plain_filters(board)


def ranked_items(board: Board) -> None:
    """`our most popular toys` ranks what the catalog says a category is of."""
    if board.has("[DETUXAR]"):
        return

    def named(m: Match) -> list[Item] | None:
        value = m["v"][0]
        dimension = items_of(board.catalog, value.value.dimension)
        if dimension is None or len(value.value.names) > 1:
            return None
        code = "E" if value.words.endswith("s") or m["n"] else "D"
        return [*m["mark"], replace(value, code=code, value=dimension), replace(value, code="f"), value]

    board.replace(r"(?P<mark>\^(?P<n>N?)J?)(?P<v>V)(?![MVzy])", named)


def items_of(catalog: Catalog, dimension: str) -> str | None:
    """The dimension that `dimension` groups, where the catalog calls it something like `type of product`."""
    heads = [s.rpartition(" of ")[2] for s in catalog.dimensions[dimension].synonyms if " of " in s]
    found = (n for n, d in catalog.dimensions.items() if n in heads or set(d.synonyms) & set(heads))
    return next((name for name in found if name != dimension), None)


def which_of(board: Board) -> None:
    """`Which of A and B …` ranks them, limit 1; `did A or B sell more?` shows both."""

    def ranked(m: Match) -> list[Item] | None:
        value = m["v"][0].value
        if len(value.names) < 2:
            return None
        _filter(board, m["v"][0], "which of")
        board.note("rank among", (value.dimension, len(value.names)), "which of", m.items)
        return m["rest"]

    board.replace(r"Wf?b?s?(?:N?[DE]?f?)?(?P<v>V)(?P<rest>)", ranked)
    if board.has("W") and board.has(r"[m\^]"):
        board.replace(r"(?P<v>V)(?P<rest>)", lambda m: ranked(m) if "/" in m["v"][0].value.joins else None)
        board.replace(r"b(?P<v>V)(?P<rest>)(?=.*W)", ranked)
        board.replace(r"f(?P<v>V)(?P<rest>)(?=W(?!f?N?[DETU]))", ranked)


def set_against(board: Board) -> None:
    """`A versus B`, `each of A and B`, `A and B separately`, `compare A and B`: a filter and a split."""

    def split(m: Match) -> list[Item] | None:
        item = m["v"][0]
        told = item.value
        each = [item for item in m["each"] if item.words not in ("by", "per")]
        apart = "z" in told.joins or each or m.items[-1].code == "j" or board.has("[yc]")
        either = "/" in told.joins and board.has("m")
        if not (apart or either) or (len(told.names) < 2 and not each):
            return None
        _filter(board, item, "side by side")
        board.note("dimension", told.dimension, "side by side", m.items)
        return []

    board.replace(r"(?P<each>(?:[jb]f?)?)(?P<v>V)(?:j$)?", split)


def plain_filters(board: Board) -> None:
    """`for A and B`, `in A`, `A only`: a filter."""

    def noted(m: Match) -> list[Item]:
        _filter(board, m["v"][0], "filter")
        return []

    board.replace(r"[fws]*(?P<v>V)s?", noted)


def _filter(board: Board, item: Item, rule: str) -> None:
    board.note("filter", (item.value.dimension, "in", item.value.names), rule, [item])
