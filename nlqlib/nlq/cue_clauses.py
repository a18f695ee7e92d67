"""Which words of a question ask, and which only tell: reasons, reports, plans, remarks.

A question is cut into clauses at its marks and at the words that open a subordinate clause. A clause that
tells (`our CEO believes that …`, `because …`, `…, which was our best year`) is left out where another one
asks for a metric, and a pronoun for a value that it named is replaced by that value. Nothing is left out
where no clause would remain that asks.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_tags import codes, tagged
from nlqlib.nlq.cue_text import Token
from nlqlib.paths import DATA

CLAUSES = DATA / "english_clauses.toml"
STRONG = frozenset(".?!;\n…")
MEDIUM = frozenset(":()—–[]")
AHEAD = 14
"""Words looked at for the verb of a clause."""
CONDITIONS = frozenset({"when", "if", "while", "where", "once", "provided"})
"""Words that open a condition, too."""
METRICS = frozenset("MXJ=%")
"""Codes of what can name a metric."""


@dataclass(frozen=True)
class Clause:
    """A stretch of words of a question, and whether it only tells."""

    tokens: tuple[Token, ...]
    tells: bool


@lru_cache(maxsize=1)
def _patterns() -> dict[str, re.Pattern[str]]:
    raw = tomllib.loads(CLAUSES.read_text("utf-8"))

    def filled(pattern: str) -> str:
        return re.sub(r"(?<!\?P)<([a-z]+)>", lambda m: filled(raw["pieces"][m[1]]), pattern)

    return {name: re.compile(filled(text)) for name, text in raw["clauses"].items()}


def asking(tokens: Sequence[Token], catalog: Catalog) -> tuple[Token, ...]:
    """The words of `tokens` that ask, in order; all of them where none would remain that names a metric."""
    found = _doubted([_conditional(clause, catalog) for clause in clauses(tokens)], catalog)
    kept: list[Token] = []
    for clause in found:
        if not clause.tells:
            first, *rest = _without_subject(clause.tokens, catalog)
            kept += [replace(first, apart=first.apart or bool(kept)), *rest]
    if len(kept) == len(tokens) or not _metric(kept, catalog):
        return tuple(tokens)
    return _referring(kept, [clause.tokens for clause in found if clause.tells], catalog)


def _metric(tokens: Sequence[Token], catalog: Catalog) -> bool:
    return any(item.code in METRICS for item in tagged(tokens, catalog))


def _conditional(clause: Clause, catalog: Catalog) -> Clause:
    """`when the channel is Web` is a condition, unless it ranks; a correction is meant, too."""
    if not clause.tells:
        return clause
    said = {item.code for item in tagged(clause.tokens, catalog)}
    condition = said & set("Vp") and not said & set("^m=") and clause.tokens[0].text in CONDITIONS
    return Clause(clause.tokens, not condition and "C" not in said)


def _doubted(found: Sequence[Clause], catalog: Catalog) -> list[Clause]:
    """A question for yes or no (`is Web our best channel?`) only tells where an order or question follows."""
    out = list(found)
    for at, clause in enumerate(found):
        items = tagged(clause.tokens, catalog) if not clause.tells else ()
        said = {item.code for item in items}
        strange = ("?" in said or "V^" in codes(items)) and not said & METRICS  # Web leads, but show me …
        doubted = _patterns()["polar"].match(_text(clause.tokens)) or strange
        if doubted and said & set("^m=") and any(_asks_later(later, catalog) for later in found[at + 1 :]):
            out[at] = Clause(clause.tokens, True)
    return out


def _asks_later(clause: Clause, catalog: Catalog) -> bool:
    said = _opened(_text(clause.tokens))
    request = _patterns()["request"].match(said)
    return not clause.tells and request is not None and _metric(clause.tokens, catalog)


def clauses(tokens: Sequence[Token]) -> list[Clause]:
    """The clauses of a question, in order."""
    return [
        clause
        for sentence in _cut(tokens, _ends)
        for part in _cut(sentence, lambda _, token: bool(MEDIUM & set(token.mark)))
        for clause in _subordinate(part)
    ]


def _cut(tokens: Sequence[Token], here: Callable[[Token, Token], bool]) -> list[Sequence[Token]]:
    edges = [0, *(i for i in range(1, len(tokens)) if here(tokens[i - 1], tokens[i])), len(tokens)]
    return [tokens[a:b] for a, b in pairwise(edges) if b > a]


def _ends(before: Token, token: Token) -> bool:
    """Does a sentence end between two words? `vs.` ends none."""
    if not STRONG & set(token.mark):
        return False
    return token.mark != "." or _patterns()["short"].match(before.text) is None


def _subordinate(part: Sequence[Token]) -> list[Clause]:
    """`part` cut into subordinate clauses and what stands between them."""
    found: list[Clause] = []
    start = at = 0
    while at < len(part):
        end = _told_until(part, at)
        if end is not None or (at > start and _at(part, at, "resumed")):
            if at > start:
                found.append(_main(part[start:at]))
            start = at
        if end is not None:
            found.append(Clause(tuple(part[at:end]), True))
            start = end
        at = end if end is not None else at + 1
    return [*found, _main(part[start:])] if start < len(part) else found


def _told_until(part: Sequence[Token], at: int) -> int | None:
    """Where the subordinate clause or remark that begins at `at` ends; `None` where none begins."""
    edge = at == 0 or "," in part[at].mark or "-" in part[at].mark
    match = _at(part, at, "meant") or (_at(part, at, "opened") if edge or part[at].text == "since" else None)
    if match is None and at > 0 and edge:
        match = _at(part, at, "remark")
    if match is None:
        return None
    end = at + len(match[0].split())
    while end < len(part) and "," not in part[end].mark and not _at(part, end, "resumed"):
        end += 1
    return None if _patterns()["limits"].search(_text(part[at:end])) else end


def _at(part: Sequence[Token], at: int, name: str) -> re.Match[str] | None:
    return _patterns()[name].match(_text(part[at : at + AHEAD]))


def _text(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)


def _opened(text: str) -> str:
    """`text` without the words that only open a sentence."""
    opening = _patterns()["opening"].match(text)
    return text[opening.end() :] if opening else text


def led(tokens: Sequence[Token]) -> int:
    """How many words of `tokens` only lead to what is asked (`hi there, could you please tell me …`)."""
    match = _patterns()["led"].match(_text(tokens) + " ")
    return match[0].count(" ") if match else 0


def _main(tokens: Sequence[Token]) -> Clause:
    return Clause(tuple(tokens), _tells(_opened(_text(tokens))))


def _tells(said: str) -> bool:
    """Is it a statement, and neither request, wish nor instruction?"""
    known = _patterns()
    if known["request"].match(said) or known["wish"].match(said):
        return False
    stated = known["said"].match(said) or known["stated"].match(said)
    return stated is not None and not known["instructs"].search(said) and not known["limits"].search(said)


def _without_subject(tokens: tuple[Token, ...], catalog: Catalog) -> tuple[Token, ...]:
    """`needs refunds by channel` of `our best analyst needs refunds by channel`."""
    wish = _patterns()["wish"].match(_text(tokens))
    if wish is None or _patterns()["request"].match(_text(tokens)):
        return tokens
    at = len(wish["who"].split())
    told = {item.code for item in tagged(tokens[:at], catalog)}
    return tokens[at:] if told <= {"^", "?"} and _metric(tokens[at:], catalog) else tokens


def _referring(
    kept: Sequence[Token], dropped: Sequence[Sequence[Token]], catalog: Catalog
) -> tuple[Token, ...]:
    """`kept` with the values that were last named in `dropped` in the place of a pronoun for them."""
    meant: tuple[Token, ...] = ()
    for told in dropped:
        meant = _named(told, catalog) or meant
    out: list[Token] = []
    for before, token in zip([None, *kept], kept, strict=False):
        if meant and _refers(before, token):
            out += [replace(meant[0], mark=token.mark, apart=token.apart), *meant[1:]]
        else:
            out.append(token)
    return tuple(out)


def _named(told: Sequence[Token], catalog: Catalog) -> tuple[Token, ...]:
    """The words of the last value in `told`, with those joined to it."""
    items = tagged(told, catalog)
    runs = list(re.finditer(r"V(?:[+/]?V)*", codes(items)))
    if not runs:
        return ()
    return tuple(told[items[runs[-1].start()].start : items[runs[-1].end() - 1].end])


def _refers(before: Token | None, token: Token) -> bool:
    known = _patterns()
    if known["owner"].match(token.text):
        return True
    said = before is not None and known["before_object"].match(before.text) is not None
    return said and known["object"].match(token.text) is not None
