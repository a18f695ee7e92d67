"""A question as words with places: folded, and without what only looks like a part of it.

Case, accents, curly quotes and punctuation are gone after this; what carries meaning (numbers, currency and
percent signs, comparison signs, a dash between two dates) is a word of its own. SQL, markup, JSON and
sentences that give orders to a model are blanked before: they are no part of what is asked.
"""

import re
import unicodedata
from dataclasses import dataclass, replace

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_SHORT = r"jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec"
_DATELIKE = rf"\d|q[1-4]\b|h[12]\b|(?:{'|'.join(MONTHS)}|{_SHORT})\b"
_WORD = re.compile(
    rf"""
    (?P<iso>\d{{4}}-(?:\d\d-\d\d|\d\d|q[1-4])(?![\d-])|\d{{1,2}}/\d{{1,2}}/\d{{4}})
  | (?P<to>\.\.\.?(?=\s*\d) | (?<=\w)\s*[-–—]\s*(?={_DATELIKE}))
  | (?P<yy>(?<![\w'])'(?:1[5-9]|2\d|3[0-5])(?![\w'%.,]*\w))
  | (?P<number>(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?|\.\d+)
  | (?P<part>q[1-4]|h[12])(?![a-z])
  | (?P<word>[^\W\d_]+(?:'[^\W\d_]+)*'?)
  | (?P<sign>>=|<=|[$€£%<>≥≤=&+#])
    """,
    re.X,
)
TITLES = frozenset({"st", "dr", "mr", "mrs", "ms", "mt", "ft", "prof"})
"""Abbreviations whose full stop ends no sentence: they begin a name."""
_BEFORE_DASH = re.compile(rf"(?:\d|q[1-4]|h[12]|\b(?:{'|'.join(MONTHS)}|{_SHORT}))\s*$")


@dataclass(frozen=True)
class Token:
    """One word: its folded `text`, and where it stands in the question (characters, end exclusive)."""

    text: str
    start: int
    end: int
    base: str = ""
    """The text without a possessive: `year` of `year's`; empty where there is none."""
    apart: bool = False
    """Does a comma, a colon or the end of a sentence stand before it?"""
    mark: str = ""
    """The signs between it and the word before, without spaces."""


def tokens(question: str, mixed: bool = False) -> tuple[Token, ...]:
    """The words of `question`, in order; what `blanked` takes away has none."""
    text, places = _folded(blanked(question, mixed))
    found: list[Token] = []
    last = 0
    for match in _WORD.finditer(text):
        token = _token(match, text, places)
        if token is not None:
            signs = text[last : match.start()]
            mark = "".join(c for c in signs if c == "\n" or not c.isspace())
            title = mark == "." and bool(found) and found[-1].text in TITLES
            apart = any(c in signs for c in ",;:.?!\n") and not title
            found.append(replace(token, apart=apart, mark=mark))
            last = match.end()
    return tuple(found)


def _folded(question: str) -> tuple[str, list[int]]:
    """`question` in lower case without accents, and for each character its place in the original."""
    out: list[str] = []
    places: list[int] = []
    for place, char in enumerate(question):
        plain = {"’": "'", "‘": "'", "`": "'", "´": "'", "\u00ad": ""}.get(char, char)
        for c in unicodedata.normalize("NFKD", plain).casefold():
            if not unicodedata.combining(c):
                out.append(c)
                places.append(place)
    return "".join(out), [*places, len(question)]


def _token(match: re.Match[str], text: str, places: list[int]) -> Token | None:
    kind, word = match.lastgroup, match[0]
    start, end = match.span()
    if kind == "to":
        if "." not in word and not _BEFORE_DASH.search(text[max(0, start - 12) : start]):
            return None
        word = "to"
    base = ""
    if kind == "yy":  # '24
        word = f"20{word[1:]}"
    if kind == "word":
        base = word.removesuffix("'").removesuffix("'s") if "'" in word else ""
        word = word.replace("'", "")
    return Token(word.replace(",", ""), places[start], places[end - 1] + 1, base)


_MARKUP = (
    re.compile(r"```.*?(?:```|$)", re.S),
    re.compile(r"<(script|style|system|instructions?|prompt)\b[^>]*>.*?(?:</\1\s*>|$)", re.S | re.I),
    re.compile(r"<!--.*?(?:-->|$)|/\*.*?(?:\*/|$)", re.S),
    re.compile(r"</?[a-zA-Z!|][^<>]{0,200}>"),
    re.compile(r"\[/?(?:INST|SYS|system)\]|<<?/?SYS>>?|<\s*\|[^|]*\|\s*>", re.I),
    re.compile(r"\{[^{}]*:[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"),
)
_SQL = re.compile(
    r"""(?:['"`;)\s]*)\b(?:
      select\s+(?:\*|[\w.,()*\s]{1,80}?)\s+from\s+\w+
    | drop\s+(?:table|database|schema|view)\b | delete\s+from\s+\w+ | insert\s+into\s+\w+ | truncate\s+table\b
    | update\s+\w+\s+set\b | alter\s+table\b | union\s+(?:all\s+)?select\b | (?:or|and)\s+'?1'?\s*=\s*'?1'?
    | (?:group|order)\s+by\s+\d+\b
    )[^.?!;\n]*;?""",
    re.X | re.I,
)
_COMMENT = re.compile(r"--\s*(?:$|\n)|;\s*--.*$")
_SENTENCE = re.compile(r"[^.?!;\n]+(?:[.](?=\d)[^.?!;\n]+)*[.?!;\n]*")
_ORDER = re.compile(
    r"""\b(?:
      (?:ignor\w+|disregard\w*|forget\w*|overrid\w+|bypass\w*|neglect)\s+(?:\w+\s+){0,4}?
        (?:instructions?|prompts?|rules?|guidelines?|guardrails?|schema|context|(?:the\s+)?(?:above|previous)\b)
    | you\s+are\s+(?:now\s+)?(?:an?|the|in)\b | act\s+as\b | pretend\b | jailbreak | system\s+prompt
    | (?:system|assistant|developer|admin)\s*:
    | (?:respond|reply|answer)\s+(?:only\s+)?(?:with|in|as)\b | query_?type | top_n_by_metric | time_series
    | (?:reveal|print|repeat|output)\s+(?:your|the)\s+(?:system|prompt|instructions?|rules?)
    | (?:new|updated?)\s+(?:instructions?|rules?)\s*: | as\s+an?\s+ai\b
    )""",
    re.X | re.I,
)
_RESUMED = re.compile(r"\b(?:and|then|but)\b|[,:]", re.I)


def blanked(question: str, mixed: bool = False) -> str:
    """`question`, of the same length, with markup, SQL, JSON and orders to a model replaced by spaces.

    A sentence with an order in it goes as a whole, or, when `mixed`, without what follows the order.
    """
    text = question
    for pattern in (*_MARKUP, _SQL, _COMMENT):
        text = pattern.sub(_spaces, text)
    if mixed:
        return _SENTENCE.sub(_without_order, text)
    return _SENTENCE.sub(lambda m: _spaces(m) if _ORDER.search(m[0]) else m[0], text)


def _spaces(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _without_order(match: re.Match[str]) -> str:
    """A sentence without the order in it, up to where something else begins."""
    order = _ORDER.search(match[0])
    if order is None:
        return match[0]
    resumed = _RESUMED.search(match[0], order.end())
    if resumed is None:
        return match[0][: order.start()] + " " * (len(match[0]) - order.start())
    return match[0][: order.start()] + " " * (resumed.end() - order.start()) + match[0][resumed.end() :]
