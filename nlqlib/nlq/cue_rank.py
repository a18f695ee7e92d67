"""Rules for rankings: what is ranked, by what, which way, and how many; and the nouns that then remain."""

import re
from dataclasses import replace

from nlqlib.nlq.cue_board import Board, Match
from nlqlib.nlq.cue_roles import money_of
from nlqlib.nlq.cue_tags import Item

SINGULAR = "DTA"
DEFAULT = 5
PLURAL_VERBS = re.compile(
    r"are|were|have|do|sell|make|bring|earn|generate|lead|perform|get|cost|see|show|contribute"
    r"|attract|account|need|lose|come|lag|rank|produce|drive|grow|spend|buy|order|return|stand|take"
    r"|did"
)
PAIRS = frozenset({"combinations", "pairs", "pairings", "combos"})
SINGLES = frozenset(
    {"performer", "offender", "culprit", "winner", "champion", "leader", "loser", "laggard", "star", "crown"}
)
"""Nouns for a single one."""


def ranks(board: Board) -> None:
    """All rules of this module, in order."""
    outdone(board)
    adjectives(board)
    counted_values(board)
    rank_all(board)
    ranking(board)
    time_buckets(board)
    splits(board)
    leftover(board)


def outdone(board: Board) -> None:
    """`more orders than the others` is the most of them."""

    def most(m: Match) -> list[Item]:
        return [replace(m.items[0], code="^"), *m["what"]]

    board.replace(r"m(?P<what>[MJX]{0,2})w?~", most)
    board.items = [item for item in board.items if item.code != "~"]


def adjectives(board: Board) -> None:
    """`best-selling` and `sells most` name a metric; far from a superlative the word is kept in reserve."""

    _name_the_unnamed(board)
    out: list[Item] = []
    for at, item in enumerate(board.items):
        if item.code != "J":
            out.append(item)
            continue
        name = item.value
        counted = name is not None and board.catalog.metrics[name].unit == "count"
        if counted and any(i.code == "q" and i.words == "how much" for i in board.items):
            name = money_of(board.catalog, name) or name  # how much did we sell
        near = "^" in board.codes[max(0, at - 1) : at + 3] or "m" in board.codes[max(0, at - 1) : at + 2]
        if name:
            board.note("reserve", (name, near), "adjective", [item])
    board.items = out


def _name_the_unnamed(board: Board) -> None:
    """`what sells best`, `best sellers` and `biggest spenders` name their entities by what they do."""
    if board.has("[DETUA]"):
        return
    words = next((item.words for item in board.items if item.code == "J"), "")
    asked = "who" if words.startswith("spend") else "what"
    entity = next((n for n, known in board.catalog.dimensions.items() if asked in known.synonyms), None)
    if entity is None:
        return
    if re.match(r"W(J\^|\^J)", board.codes):
        board.items[0] = replace(board.items[0], code="A", value=entity)
    elif words.endswith(("ers", "er")):

        def named(m: Match) -> list[Item]:
            noun = replace(m.items[-1], code="E" if words.endswith("s") else "D", value=entity)
            return [*m.items, noun]

        board.replace(r"J", named)


def counted_values(board: Board) -> None:
    """`the two channels Web and Store` counts values and ranks nothing."""
    sizes = {len(fact.value[2]) for fact in board.all("filter") if fact.value[1] == "in"}
    named = {fact.value[0] for fact in board.all("filter")}

    def plain(m: Match) -> list[Item] | None:
        number, noun = m.items
        return [] if int(number.value) in sizes and noun.value in named else None

    if not board.has(r"[\^R]"):
        board.replace(r"N[DE]", plain)


def rank_all(board: Board) -> None:
    """`rank all regions` is a sorted breakdown."""

    def sorted_all(m: Match) -> list[Item]:
        if not board.all("sort"):
            board.note("sort", (None, None), "rank all", m.items)
        return [item for item in m.items if item.code not in "RajN"]

    def series(m: Match) -> list[Item]:
        board.note("grain", m["u"][0].value, "rank all", m.items)
        return sorted_all(m)[:-1]

    board.replace(r"R[fq]?[aj]N?(?P<u>[TU])", series)
    board.replace(r"R[fq]?[aj]N?", sorted_all)
    board.replace(r"[aj][DE]f?R", sorted_all)
    board.replace(r"aR(?=[fb]?[DE])", sorted_all)


def ranking(board: Board) -> None:
    """A superlative, a rank verb or a number on an entity selects or ranks entities."""
    among = board.all("rank among")
    if not (board.has(r"[\^R]|N[DETU]|[DETU]N") or among):
        return
    entity = _entity(board)
    if entity is None and not among:
        return
    board.note(
        "rank",
        _direction(board),
        "ranking",
        [i for i in board.items if i.code in "^R"] or ([entity] if entity else []),
    )
    metric = _rank_metric(board)
    if metric:
        board.note("rank metric", metric.value, "ranking", [metric])
    _limit(board, entity)
    if entity is not None:
        board.note("entity", (entity.code, entity.value), "ranking", [entity])
        board.items = [item for item in board.items if item is not entity]
    board.items = [item for item in board.items if item.code not in "^RN"]


def _entity(board: Board) -> Item | None:
    """The noun that is ranked, by the strongest sign of it."""
    for pattern in (
        r"\^N?(?P<e>[DETU])",
        r"\^N?M(?P<e>[DETU])",
        r"N\^?M?(?P<e>[DETU])",
        r"(?:W|R)[fa\^N]*(?P<e>[DETU])",
        r"(?<![bj])(?P<e>[ETU])(?=.*\^)",
        r"(?<![bj])(?P<e>[DETU])(?=.*[\^R])",
        r"^f?(?P<e>A)(?=.*\^)",
        r"(?<![DETUM])(?P<e>A)(?=.*\^)",
        r"\^.*?[^bj](?P<e>[DETU])",
        r"(?P<e>[DETU])",
    ):
        found = board.find(pattern, "e")
        if found:
            return found
    return None


def _direction(board: Board) -> str | None:
    """The superlative beside the metric, else the first; a stated order for a verb of ranking."""
    marks = [item for item in board.items if item.code == "^"]
    chosen = board.find(r"(?P<c>\^)M", "c") or (marks[0] if marks else None)
    if chosen:
        return str(chosen.value)
    more = next((item for item in board.items if item.code == "m"), None)
    if more is not None:
        return str(more.value)
    return next((fact.value[1] for fact in board.all("sort") if fact.value[1]), None)


def _rank_metric(board: Board) -> Item | None:
    """By, in or beside the superlative; else the first metric."""
    for pattern in (
        r"[DETUAN\^R][bf]+(?P<m>M)",
        r"R[bf](?P<m>M)",
        r"\^q?(?P<m>M)",
        r"m(?P<m>M)",
        r"w\^(?P<m>M)",
    ):
        found = board.find(pattern, "m")
        if found:
            return found
    return None


def _limit(board: Board, entity: Item | None) -> None:
    """A number, else one for a noun in the singular, else five. `which of our regions is …` asks for one."""
    single = entity is not None and _asks_for_one(board, entity)
    numbers = [] if single else [item for item in board.items if item.code == "N"]
    if numbers:
        board.note("limit", int(numbers[0].value), "ranking", [numbers[0]])
        return
    pairs = any(item.following in PAIRS for item in board.items)
    alone = entity is None or (
        not pairs and entity.code in SINGULAR and (board.has(r"\^") or not board.has("R"))
    )
    named = any(item.code == "^" and SINGLES & set(item.words.split()) for item in board.items)
    one = alone or single or named or bool(board.all("rank among"))
    board.note("limit", 1 if one else DEFAULT, "ranking default", [entity] if entity else [])


def _asks_for_one(board: Board, entity: Item) -> bool:
    """`which of the channels has …`, `of all channels, which one …`: one of several named in the plural."""
    asked = next((item for item in board.items if item.code == "W"), None)
    if asked is None or entity.code not in "EU" or asked.words == "which ones" or board.has("WN"):
        return False
    if asked.start < entity.start:
        return asked.words == "which of" and not PLURAL_VERBS.fullmatch(entity.following)
    return board.codes[:1] in ("f", "a") and re.match(r"[^DETU]*f[aWN]*[DETU]", board.codes) is not None


def time_buckets(board: Board) -> None:
    """`months with more than 100 orders`: a condition on time buckets splits by them."""
    if not board.all("threshold"):
        return

    def bucket(m: Match) -> list[Item]:
        board.note("grain", m["u"][0].value, "time buckets", m.items)
        return []

    board.replace(r"[Wfaj]*(?P<u>[TU])", bucket)


def splits(board: Board) -> None:
    """What stands behind `by`, and every other noun for a dimension that nothing has used."""
    compound = board.has(r"[bj]") and board.has(r"(?<![bjW])DM")
    if compound:
        board.replace(r"(?<![bjW+])D(?P<m>M)", lambda m: m["m"])

    def noted(m: Match) -> list[Item]:
        board.note("dimension", m["d"][0].value, "split", m.items)
        return []

    board.replace(r"[bjWaf]*(?P<d>[DE])", noted)
    if board.all("threshold") and not any(board.all(slot) for slot in ("dimension", "rank", "grain")):
        board.replace(r"^(?P<d>A)", noted)  # where did AOV exceed 400 dollars


def leftover(board: Board) -> None:
    """The metrics that nothing has used are what is shown."""
    for item in board.items:
        if item.code == "M":
            board.note("metric", item.value, "metric", [item])
    board.items = [replace(item) for item in board.items if item.code != "M"]
