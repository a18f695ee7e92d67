"""Rules for numbers and order: caps in rows, thresholds on metrics, sorting words, cues denied."""

import re
from dataclasses import replace

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Board, Match
from nlqlib.nlq.cue_formulas import ratio_over, share_of
from nlqlib.nlq.cue_roles import money, money_of
from nlqlib.nlq.cue_tags import NUMBERS, Item

FLIPPED = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}
CAPPED = re.compile(r" (?:at|to|after)$")
ONLY = ("just", "only", "merely", "simply")
"""`Not` with one of them denies nothing."""
_CUE = r"(?:[\^R]N?(?:[MJ]?[DETU])?|N[DETU]|1N|d|o(?:[bf][MDE])?|t|G|bT|iN?l?)"


def numbers_and_order(board: Board) -> None:
    """All rules of this module, in order."""
    row_limits(board)
    thresholds(board)
    denied(board)
    sorts(board)


def row_limits(board: Board) -> None:
    """A cap in rows, lines or records is a limit, whatever word it comes with: `top ten rows`."""

    def noted(m: Match) -> list[Item]:
        number = m.one("n") or m.one("o")
        board.note("limit", int(number.value) if number else 1, "row limit", m.items)
        return []

    board.replace(r"[fi1w]*(?P<n>N)l(?=f?[bj]|f[DE])", lambda m: [] if m["n"][0].value == 1 else None)
    board.replace(r"[fis>!w]*(?:(?<![\^J])1|[\^i>])?(?P<n>N)l(?:[fs]*)", noted)
    board.replace(r"[fis1>\^w]*l[fisd1>]*(?P<o>N)(?![DEMXTU])", noted)
    board.replace(r"[\^1]l", noted)
    board.replace(r"(?:i[\^1]?|1)(?P<n>N)(?![DEMXTUVJ\^])", noted)
    board.replace(r"i(?P<n>N)(?=[MJ])", lambda m: noted(m) if CAPPED.search(m.items[0].words) else None)
    board.items = [item for item in board.items if item.code not in "li"]


def thresholds(board: Board) -> None:
    """`more than 100 orders`, `return rate above 8%`, `between 5 and 10 percent`, `500 units or more`."""

    def between(m: Match) -> list[Item] | None:
        if m["to"] and m["to"][0].words != "to":
            return None
        return _noted(board, m, ("gte", "lte"), m["n"] + m["k"])

    def one(m: Match) -> list[Item] | None:
        return _noted(board, m, (m["op"][0].value,), m["n"])

    def direct(m: Match) -> list[Item] | None:
        metric = _as_metric(board, m["ahead"][0])
        return one(m) if metric and _fits(board, metric.value, m["n"][0]) else None

    def flipped(m: Match) -> list[Item]:
        return [replace(m.items[-1], value=FLIPPED[m.items[-1].value], start=m.items[0].start)]

    number = f"[{NUMBERS}]"
    board.replace(rf"[x!]>(?={number})", flipped)
    ahead, behind = r"(?P<ahead>(?:[MJ][wvf]{0,2})?)", r"(?P<behind>(?:[fq]{0,2}[MJ])?)"
    board.replace(rf"w?{ahead}w?B(?P<n>{number})[+f/]?(?P<k>{number}){behind}", between)
    board.replace(rf"w?(?P<ahead>M[wvf]*)(?P<n>{number})(?P<to>f)(?P<k>{number})", between)
    board.replace(rf"w?(?P<ahead>M[wvf]*)(?P<n>{number})(?P<op><)", direct)
    board.replace(rf"w?(?<!{number})(?P<ahead>M)(?P<op>>)(?P<n>{number})", direct)
    board.replace(rf"w?{ahead}w?(?P<op>>)(?P<n>{number}){behind}", one)
    board.replace(rf"w?{ahead}w?(?P<n>{number})(?P<op><){behind}", one)
    board.replace(rf"w?{ahead}w?(?P<n>{number})(?P<behind>[fq]?M)(?P<op><)", one)


def _noted(board: Board, m: Match, ops: tuple[str, ...], numbers: list[Item]) -> list[Item] | None:
    """A condition for each of `numbers`, on the metric they limit; what is left of the match is returned."""
    metric = _threshold_metric(board, m, numbers[-1], m["ahead"], m["behind"])
    if metric is None:
        return None
    for op, number in zip(ops, numbers, strict=True):
        named, value = in_unit(metric.value, number, board.catalog)
        board.note("threshold", (named, op, value), "threshold", [*m.items, metric])
    board.note("threshold metric", named, "threshold", [metric])
    return [item for item in m.items if item.code == "M" and item is not metric]


def _threshold_metric(
    board: Board, m: Match, number: Item, ahead: list[Item], behind: list[Item]
) -> Item | None:
    """The metric a number limits: right behind it, right before it, else the nearest one of its unit."""
    near = [item for item in (*behind, *ahead) if item.code in "MJ"]
    far = [item for item in (*reversed(m.before), *m.after) if item.code == "M"]
    named = [metric for item in (*near, *far) if (metric := _as_metric(board, item))]
    fitting = [item for item in named if _fits(board, item.value, number)]
    sold = next((item for item in (*near, *m.before, *m.after) if item.code == "J"), None)
    if fitting or sold is None or number.code != "K":
        return fitting[0] if fitting else None
    paid = money_of(board.catalog, sold.value) or money(board.catalog)
    return replace(sold, code="M", value=paid) if paid else None


def _as_metric(board: Board, item: Item) -> Item | None:
    """A metric item; an adjective or verb as the metric it stands for."""
    if item.code == "M":
        return item
    return Item("M", item.value, item.start, item.end, item.words) if item.value else None


def _fits(board: Board, metric: str, number: Item) -> bool:
    unit = board.catalog.metrics[metric].unit
    if number.code == "Q":
        return (
            unit == "ratio"
            or share_of(board.catalog, metric) is not None
            or ratio_over(board.catalog, metric) is not None
        )
    return unit == "money" if number.code == "K" else True


def in_unit(metric: str, number: Item, catalog: Catalog) -> tuple[str, float]:
    """The metric and the number in its unit: ratios as a share of one, whole numbers as such."""
    unit, value = catalog.metrics[metric].unit, number.value
    if number.code == "Q" and unit != "ratio":
        metric = ratio_over(catalog, metric) or share_of(catalog, metric) or metric
    if unit == "ratio" and number.code == "N" and value > 1:
        value = round(value / 100, 12)
    return metric, int(value) if float(value).is_integer() else value


def denied(board: Board) -> None:
    """A cue that is denied does not count: `not the top 5`, `no ranking`, `instead of a trend`."""

    def dropped(m: Match) -> list[Item]:
        kept = [item for item in m["cue"] if item.code in "DE" and not _elsewhere(m, item)]
        return [item for item in kept if "R" in m.match["cue"]]

    board.items = [replace(i, code="I") if i.code == "z" and "opposed" in i.words else i for i in board.items]
    board.replace(rf"I[bfq]*(?P<cue>{_CUE}|[MDEXVP])", dropped)
    board.replace(rf"[!x]+[sfa]?(?P<cue>{_CUE})(?P<more>(?:[/+](?:{_CUE}))*)", dropped)
    board.replace(r"[!x][fa]?b(?P<cue>[DE])", lambda m: [])
    board.replace(r"(?<=[bj][DE])!f?(?P<cue>[DE])", lambda m: [])
    _denied_metrics(board)
    board.items = [item for item in board.items if item.code not in "!I"]


def _denied_metrics(board: Board) -> None:
    """`orders by region, not revenue`; not `not just revenue`, nor `regions with no orders`."""

    def dropped(m: Match) -> list[Item] | None:
        others = any(item.code == "M" for item in (*m.before, *m.after))
        return [] if others and not m.items[0].words.endswith(ONLY) else None

    board.replace(r"(?<!w)(?:(?<![DE])|(?<=[bj][DE]))[!x][sfa]*b?q?(?P<cue>M(?:[+/]M)*)(?![J>])", dropped)


def _elsewhere(m: Match, item: Item) -> bool:
    others = (*m.before, *m.after)
    return any(other.code in "DE" for other in others)


def sorts(board: Board) -> None:
    """`sorted by A descending`, `highest first`, `from low to high`, `alphabetically`."""

    def direction(m: Match) -> list[Item] | None:
        cue = next(item for item in m.items if item.code == "^")
        if any(item.code == "N" and item.words not in ("one", "ones") for item in m.items):
            return None
        for unit in m["unit"]:
            board.note("grain", unit.value, "sorted by time unit", [unit])
        return [Item("d", cue.value, m.items[0].start, m.items[-1].end), *m["noun"]]

    board.replace(r"[w]?\^[MJN]?(?:(?P<noun>[DE])|(?P<unit>[TU]))?[1h]", direction)
    board.replace(r"H\^[MJ]?(?:(?P<noun>[DE])|(?P<unit>[TU]))?", direction)

    def by(m: Match) -> list[Item] | None:
        key, turn = m.one("by"), m.one("d") or m.one("e")
        board.note("sort", (key.value if key else None, turn.value if turn else None), "sort", m.items)
        return [key] if key and key.code in "DE" else []

    def listed(m: Match) -> list[Item]:
        by(m)
        return [*m["b"], *m["noun"]]

    board.replace(r"(?P<b>b?)of?(?P<noun>[DE])[bf]q?(?P<by>M)(?P<e>d?)", listed)
    board.replace(r"(?P<d>d?)o[bfsq]*(?P<by>[MDE])(?P<e>d?)", by)
    board.replace(r"o(?P<d>d)[bf]+q?(?P<by>[MDE])", by)
    board.replace(r"(?P<d>d)[bf]q?(?P<by>M)", by)
    if not board.has("R"):
        board.replace(r"(?<=[DEPV])[b](?P<by>M)(?P<d>d)", by)
    board.replace(r"(?P<d>d)(?P<by>M)(?=$|[^bfM+])", by)
    board.replace(r"o?(?P<d>d)", by)
    board.replace(r"o", lambda m: by(m) if m.items[0].words.startswith("sort") else [])
