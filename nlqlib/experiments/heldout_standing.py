"""Which question sets may be called held out, and on what ground."""

from collections.abc import Sequence

import pandas as pd

from nlqlib.experiments.heldout import Standing, standing


def standing_table(sets: Sequence[str]) -> pd.DataFrame:
    """Which sets count as held out, and the log of looks that this rests on."""
    found = [standing(source) for source in sets]
    words = {None: "no hash was written down", True: "as written", False: "CHANGED since"}
    table = {
        one.name: {
            "questions": one.questions,
            "counts as": "development" if one.development else _held_out(one),
            "file": words[one.unchanged],
            "looks": "; ".join(f"{date}: {event}" for date, event in one.looks) or "free to look at",
        }
        for one in found
    }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("set")


def standing_sentence(sets: Sequence[str]) -> str:
    """Development and held-out sets by name."""
    found = [standing(source) for source in sets]
    tuned = [one.name for one in found if one.development]
    held = [one.name for one in found if not one.development]
    read = [f"{one.read} of {one.questions} in {one.name}" for one in found if one.read]
    known = (
        f"Not held out any more are {' and '.join(read)}: answered wrongly and then read, before rules were "
        "changed for what they show. Without them every figure here can be lower by that many. "
    )
    return (
        f"Development: {', '.join(tuned) or 'none'}. Held out: {', '.join(held) or 'none'}. "
        f"{known if read else ''}Whatever is chosen on this page is chosen on development questions."
    )


def _held_out(one: Standing) -> str:
    return f"held out, but for {one.read} of its questions" if one.read else "held out"
