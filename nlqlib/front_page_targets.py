"""What every page says of the site's targets: who answered, whether it was measured, and when."""

from collections.abc import Mapping
from typing import Any

from nlqlib.site_reader import banner, kinds_of


def targets_of(loaded: Mapping[str, Any]) -> list[str]:
    """The targets of the pages in `loaded`, in their order."""
    return list(dict.fromkeys(page.split("/")[0] for page in loaded))


def about_target(loaded: Mapping[str, Any], target: str) -> str:
    """A box that names `target`, how its numbers came about, and when its pages were run."""
    pages = [nb for page, nb in loaded.items() if page.startswith(f"{target}/")]
    about = [{"target": target, **nb["metadata"].get("nlqlib", {})} for nb in pages]
    kinds = sorted({kind for a in about for kind in kinds_of(a)})
    said = sorted((a for a in about if a.get("what")), key=lambda a: -len(kinds_of(a)))  # most kinds first
    what = said[0]["what"] if said else None
    return banner({"target": target, "kinds": kinds, "what": what, "run": _runs(pages)})


def _runs(pages: list[Any]) -> str:
    """`of 11 notebooks, 2026-11-30 09:32 to 10:50 UTC`."""
    begun = sorted(str(t)[:16].replace("T", " ") for nb in pages if (t := _start(nb)))
    when = f", {begun[0]}" + (f" to {begun[-1]}" if begun[-1] != begun[0] else "") + " UTC" if begun else ""
    return f"of {len(pages)} notebook" + ("s" if len(pages) != 1 else "") + when


def _start(nb: Any) -> str | None:
    return nb["metadata"].get("papermill", {}).get("start_time")
