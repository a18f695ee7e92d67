"""Nouns that are a metric and a dimension: `customers` are counted, or chosen and split by."""

import re
from dataclasses import replace

from nlqlib.nlq.cue_board import Board
from nlqlib.nlq.cue_roles import done

MANY = frozenset({"most", "fewest", "least", "more", "fewer", "less", "highest number of", "record"})
"""Superlatives that count what stands behind them; the others choose among it."""
VERBS = re.compile(
    r"return|send|use|buy|order|choose|prefer|like|place|shop|purchase|spend|visit|pick|want|pay|bought|used"
    r"|ordered|chose|preferred|placed|spent|paid|come|came|give|gave|make|made"
)
"""What people do."""


def metric_or_dimension(board: Board) -> None:
    """`customers` are a metric where they are counted, a dimension where they are chosen or split by."""
    metrics = sum(item.code in "M" for item in board.items)
    for at, item in enumerate(board.items):
        if item.code == "X":
            metric = _counts(board, at, metrics) or _only_metric(board, at)
            board.items[at] = replace(item, code="M" if metric else "E", value=item.value[0 if metric else 1])
            asked = re.search(r"WN?[DETU].*V$", board.codes[:at]) is not None and metrics > 0
            if asked and not metric:  # which channel do Corporate customers use
                board.items[at] = replace(item, code="_")
            if _acts(board, at, metrics):
                named = None if "J" in board.codes or metrics else done(board.catalog, item.following)
                board.items[at] = replace(item, code="J" if named else "_", value=named)
            if metric and _carries_only(board.codes[:at], board.codes[at + 1 :], metrics):
                board.items[at] = replace(item, code="_")
    board.items = [item for item in board.items if item.code != "_"]


def _acts(board: Board, at: int, metrics: int) -> bool:
    """`the channel customers use most`, `what did customers in the West spend`: no split by who does it."""
    before, after = board.codes[:at], board.codes[at + 1 :]
    told = metrics or "J" in board.codes or re.search("[DETUMA]", before)
    chosen = re.search(r"[\^WNRajbq+]$|[\^NW][JVN]*$", before)
    if before.endswith("M") and board.items[at - 1].following in ("did", "do", "does", "have", "has"):
        return True
    asked = board.items[at - 1] if before[-1:] in ("W", "q") else None
    if asked and asked.words in ("what", "how much"):
        does = asked.end < board.items[at].start or _verb(board, at)
        return bool(does and re.match("(?:fV)*[JM]", after))
    return bool(told and not chosen and _verb(board, at))


def _verb(board: Board, at: int) -> bool:
    """Is what follows the noun at `at` a verb: one of everyday, or one that a count is named by?"""
    word = board.items[at].following
    return VERBS.fullmatch(word) is not None or (bool(word) and done(board.catalog, word) is not None)


def item_words(board: Board, at: int) -> str:
    """The first word of the item at `at`."""
    return board.items[at].words.split(" ")[0]


def _carries_only(before: str, after: str, metrics: int) -> bool:
    """`orders from customers in the South`: the noun adds nothing to what is asked."""
    if re.match(r"w?[x!]+[fa]*V|wV", after) and not before.endswith("+"):
        return metrics > 0
    if before.endswith("V"):
        return metrics > 0 and not after.startswith("+")
    told = "M" in before or "J" in before
    return (metrics > 0 or "J" in before) and before.endswith("f") and told and not after.startswith("+M")


def _counts(board: Board, at: int, metrics: int) -> bool:
    """Is the noun at `at` a metric?"""
    before, after = board.codes[:at], board.codes[at + 1 :]
    last = before[-1:]
    core = before.rstrip("VJ")
    if last == "q" or (len(before) > 1 and core[-2:-1] in (">", "<") and core[-1:] in "NKQ"):
        return True
    if core.endswith("^") and re.search(r"(^|[^bj])[DETU]", core):
        return True
    if core.endswith("^"):
        mark = board.items[at - 1]
        return last == "^" and mark.words.split()[-1] in MANY and mark.following == item_words(board, at)
    asked = board.items[at - 1] if last == "W" else None
    if asked and asked.words == "what" and board.items[at].start > asked.end:
        return not after.startswith(("w", "W", "A", "^"))  # what were customers per region
    if core[-1:] in ("W", "R", "N", "j") or core[-2:] in ("^N", "W^", "Ra", "Rj"):
        return False
    if last == "b" and after.startswith(("wM", "^N")) and _ranked_by(before):
        return True
    if after.startswith(("w", "A", "W")) and not after.startswith("wV"):
        return bool(metrics) and last == "+"
    if re.match(r"\^(?!M?[1h])", after) and "M" not in before:
        return False
    if not before and after.startswith(("bM", "bqM")):
        return False
    if last == "b":
        return _ranked_by(before) or _sorted_by(before)
    if last == "o":
        return True
    if last == "V" and metrics and ("f" in before or "z" in before):
        return True
    return bool(metrics) or not after.startswith("^")


def _only_metric(board: Board, at: int) -> bool:
    """`customers whose category is missing`: what is asked for, where nothing else could be."""
    before, after = board.codes[:at], board.codes[at + 1 :]
    others = re.search("[MXJ=]", before + after) is not None
    chosen = re.search(r"[\^WRNjb][aVfN]*$|^[WA]|c", before) or re.match(r"[fV]*[\^N~m]", after)
    by = re.search(r"[RDETU]b$", before) is not None and "W" not in before
    return not others and (not chosen or by)


def _ranked_by(before: str) -> bool:
    """`rank channels by customers`, `top regions by customers`: the metric, where none was named yet."""
    return any(cue in before for cue in "^RN") and "M" not in before


def _sorted_by(before: str) -> bool:
    return before[-2:-1] in ("o", "d")
