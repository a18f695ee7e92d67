"""Metrics named by their formula: `A less B`, `A per B`, `the share of B that is A`, `A in percent`.

What is a difference or a ratio of what stands in the catalog, so the rules hold for every trade.
"""

from dataclasses import replace

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Board, Match, joined
from nlqlib.nlq.cue_lexicon import lexicon
from nlqlib.nlq.cue_phrases import words_of
from nlqlib.nlq.cue_tags import Item

OVER = frozenset({"relative to", "divided by", "over"})


def formulas(board: Board) -> None:
    """All rules of this module, in order."""
    differences(board)
    quotients(board)
    shares(board)


def metric_called(catalog: Catalog, words: str) -> str | None:
    """The metric of the catalog whose name or synonym is `words`."""
    found = lexicon(catalog).at(words_of(words))
    return next((e.value if e.code == "M" else e.value[0] for e in found if e.code in "MX"), None)


def named(item: Item) -> str | None:
    """The metric that a noun, or an adjective or verb, stands for."""
    return item.value[0] if item.code == "X" else item.value


def differences(board: Board) -> None:
    """`sales less money back`, `revenue after returns`: the difference of the two, where there is one."""

    def less(m: Match) -> list[Item] | None:
        first, second = m["first"][0], m["second"][0]
        name = difference_of(board.catalog, named(first), named(second))
        return [joined(m.items, "M", name)] if name else None

    board.replace(r"(?P<first>[MJ])-(?P<second>[MXJ])", less)
    board.items = [item for item in board.items if item.code != "-"]


def difference_of(catalog: Catalog, whole: str | None, less: str | None) -> str | None:
    """The difference of the measure of `whole` and that of `less`, or one that counts the same things."""
    if whole is None or catalog.metrics[whole].kind != "measure":
        return None
    measure = catalog.metrics[whole].measures[0]
    found = [m for m in catalog.metrics.values() if m.kind == "difference" and m.measures[0] == measure]
    if less is None or not found:
        return found[0].name if len(found) == 1 else None
    facts = {catalog.measures[name].fact for name in catalog.metrics[less].measures}
    return next((m.name for m in found if catalog.measures[m.measures[1]].fact in facts), None)


def quotients(board: Board) -> None:
    """`what they spend per order`: the ratio of the two, where there is one; else a split."""

    def over(m: Match) -> list[Item] | None:
        part = named(m["part"][0])
        ratios = [n for n in m["over"][0].value if part and _upper(board.catalog, n, part)]
        return [joined([m["part"][0], m["over"][0]], "M", ratios[0]), *m["between"]] if ratios else None

    board.replace(r"(?P<part>[MJ])(?P<between>[\^mDEfX]{0,2}|w?>[NK]|[NK]<)(?P<over>÷)", over)
    board.items = [item for item in board.items if item.code != "÷"]


def _upper(catalog: Catalog, ratio: str, part: str) -> bool:
    known = catalog.metrics
    return known[part].kind == "measure" and known[ratio].measures[0] == known[part].measures[0]


def shares(board: Board) -> None:
    """`what share of units came back`, `margin as a percentage of revenue`: the ratio over it."""

    def ratio(m: Match) -> list[Item] | None:
        whole = m["whole"][0]
        over = whole.value[0] if whole.code == "X" else whole.value
        part = m.one("part") or m.one("later")
        name = ratio_over(board.catalog, over, part.value if part else None)
        return None if name is None else [joined([m["y"][0], whole], "M", name)]

    if "J" not in board.codes and board.has(r"[DETU].*\^Y"):  # the largest share of revenue
        board.replace(r"(?<=\^)Y[fq]*(?P<whole>M)(?![wf]*[MJ])", lambda m: m["whole"])

    def divided(m: Match) -> list[Item] | None:
        first, by, second = m.items
        name = quotient_of(board.catalog, first.value, second.value) if by.words in OVER else None
        return [joined(m.items, "M", name)] if name else None

    board.replace(r"M[zb]M", divided)
    board.replace(
        r"[MX]J[fw]*(?P<y>Y)[fq]*(?P<whole>[MX])J?", ratio
    )  # items returned as a share of those sold
    board.replace(r"(?P<part>M)[fw]*(?P<y>Y)[fq]*(?P<whole>[MX])", ratio)
    board.replace(r"(?P<y>Y)[fq]*J?(?P<whole>[MX])(?:[wf]*(?P<later>M)|[wf]*J)?", ratio)

    def percent(m: Match) -> list[Item] | None:
        name = share_of(board.catalog, m["whole"][0].value)
        return [joined(m.items, "M", name)] if name else None

    board.replace(r"(?P<whole>M)%", percent)
    _in_percent(board)
    board.items = [item for item in board.items if item.code != "%"]


def _in_percent(board: Board) -> None:
    """`margin by product, in percent`: of the only metric, if that is above some ratio."""
    metrics = [item for item in board.items if item.code == "M"]
    if not board.has("%") or not 1 <= len(metrics) <= 2:
        return
    names = [item.value for item in metrics]
    name = share_of(board.catalog, names[0]) if len(names) == 1 else quotient_of(board.catalog, *names)
    if name:
        whole = replace(metrics[-1], value=name)
        kept = [item for item in board.items if item.code != "M" or item is metrics[-1]]
        board.items = [whole if item is metrics[-1] else item for item in kept]


def quotient_of(catalog: Catalog, one: str, other: str) -> str | None:
    """The ratio of two measures, whichever is named first."""
    known = catalog.metrics
    if known[one].kind != "measure" or known[other].kind != "measure":
        return None
    parts = {known[one].measures[0], known[other].measures[0]}
    of_both = (n for n, m in known.items() if m.kind == "ratio" and set(m.measures) == parts)
    whole = ratio_over(catalog, other, one) or ratio_over(catalog, one, other)
    return next(of_both, whole)


def share_of(catalog: Catalog, metric: str) -> str | None:
    """The ratio whose numerator is `metric`: a margin of 30 % is a margin rate."""
    known = catalog.metrics
    if known[metric].kind != "measure":
        return None
    return next(
        (n for n, m in known.items() if m.unit == "ratio" and m.measures[0] == known[metric].measures[0]),
        None,
    )


def ratio_over(catalog: Catalog, whole: str, part: str | None = None) -> str | None:
    """The ratio whose denominator is the measure of `whole`, with `part` above it where given."""
    known = catalog.metrics
    if known[whole].kind != "measure":
        return None
    over = [n for n, m in known.items() if m.unit == "ratio" and m.measures[1] == known[whole].measures[0]]
    if part is not None:
        over = [n for n in over if known[n].measures[0] in known[part].measures]
    return over[0] if len(over) == 1 else None
