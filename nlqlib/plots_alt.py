"""What an alternative text must say: enough, and the figure's main number or that there is none to see."""

import re

MIN_ALT_CHARS = 30  # shorter cannot say what is drawn and its main number
NAME = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*|\d+(?:\.\d+)?B\b")
"""A digit in a name (`p95`, `qwen2.5-3b`, `3B`) is no number of the figure."""
KIND_OF_INTERVAL = re.compile(r"\b95\s?%\s+intervals?")
NUMBER = re.compile(r"\d")
UNSEEN = re.compile(
    r"\b(?:not|no|none|nothing)\b[^.;]*\b(?:observ|measur|compar|answer|shown|seen)", re.IGNORECASE
)
"""`not observable here`, `no level was measured`, `nothing to compare`: there is no main number."""


def problem(alt: str) -> str | None:
    """What is wrong with the alternative text `alt`, and what it should say; `None` where nothing is."""
    alt = " ".join(alt.split())
    if len(alt) < MIN_ALT_CHARS:
        return (
            f"alt text of {len(alt)} characters: say what the figure shows and its main number "
            f"(at least {MIN_ALT_CHARS} characters), for readers who cannot see it"
        )
    if not states_a_number(alt) and not UNSEEN.search(alt):
        return "alt text without a number: say the figure's main number, or that it is not observable here"
    return None


def states_a_number(alt: str) -> bool:
    """Whether `alt` has a number that is neither part of a name nor the usual width of an interval."""
    return bool(NUMBER.search(NAME.sub("", KIND_OF_INTERVAL.sub("", alt))))
