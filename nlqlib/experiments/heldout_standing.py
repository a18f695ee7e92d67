"""Which question sets may be called held out, and on what ground: as a table and in words."""

from collections.abc import Iterable, Sequence

import pandas as pd

from nlqlib.experiments.heldout_sets import Standing, counts_as, missing, standings


def standing_table(sets: Sequence[str]) -> pd.DataFrame:
    """What each set counts as, and the log of looks that this rests on."""
    words = {None: "no hash was written down", True: "as written", False: "CHANGED since"}
    table = {
        one.name: {
            "questions": one.questions,
            "counts as": one.words,
            "file": words[one.unchanged],
            "looks": "; ".join(f"{look.date}: {look.event}" for look in one.looks) or "free to look at",
        }
        for one in standings(sets).values()
    }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("set")


def standing_sentence(sets: Sequence[str]) -> str:
    """Every set by what it counts as; what cannot be called held out any more, and why."""
    found = list(standings(sets).values())
    lost = [one for one in found if one.since is not None]
    because = (
        "A set counts as development as a whole once a rule or a prompt was changed after a look at it. "
        if lost
        else ""
    )
    absent = missing(sets)
    return (
        f"{_each(found)} {because}Whatever is chosen on this page is chosen on "
        f"{_names(one for one in found if one.chosen_on) or 'nothing'} alone."
        + (f" Not there, and left out: {', '.join(absent)}." if absent else "")
    )


def standing_note(sets: Iterable[str]) -> str:
    """What the sets of a table count as, in few words, by the names that tables give them."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(sets):
        alike.setdefault(counts_as(name), []).append(name)
    return "Counts as: " + "; ".join(f"{', '.join(names)}: {words}" for words, names in alike.items()) + "."


def _each(found: Sequence[Standing]) -> str:
    held = _names(one for one in found if one.held_out) or "none of these sets"
    others = "; ".join(f"{one.name}: {one.words}" for one in found if not one.held_out)
    return f"Held out: {held}. " + (f"Not held out: {others}." if others else "")


def _names(found: Iterable[Standing]) -> str:
    return ", ".join(one.name for one in found)
