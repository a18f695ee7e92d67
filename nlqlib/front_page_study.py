"""What a target's study found, on its first screen: diagnosis, operating point, cost, and what nobody saw.

Pure: everything is lifted from the executed notebooks; where one was not run, its command stands.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nlqlib.front_page_lift import LiftedTable, as_myst, cells, sentence, table
from nlqlib.site_reader import boxed

ADMISSION, KNEE, SUMMARY = "03_admission", "05_knee", "99_summary"
MODEL = "twin"
UNSEEN = ("not observable", "not observed", "cannot tell")


def opening(loaded: Mapping[str, Any], target: str, suite: Sequence[str]) -> str:
    """The findings on `target` as MyST."""
    parts = [*_diagnosis(loaded, target), *_operating(loaded, target), *_unobserved(loaded, target, suite)]
    return "\n\n".join(parts)


def _diagnosis(loaded: Mapping[str, Any], target: str) -> Iterator[str]:
    verdict = _table(loaded, target, ADMISSION, "verdicts_table")
    yield "### Diagnosis"
    if verdict is None:
        yield _not_run(target, "Where concurrency is lost", ADMISSION)
        return
    reading = verdict.reading[:1].upper() + verdict.reading[1:]
    yield f"**{as_myst(reading)}** {_link(verdict.page)}"
    if remedy := _table(loaded, target, ADMISSION, "remedy_table"):
        yield framed(remedy)
    if evidence := _table(loaded, target, ADMISSION, "evidence_table"):
        unfolded = target != MODEL  # of a real endpoint a reader wants to see it at once
        yield folded("The evidence, and what to try next", [evidence, verdict], unfolded)


def _operating(loaded: Mapping[str, Any], target: str) -> Iterator[str]:
    policies = _table(loaded, target, KNEE, "policy_rows")
    yield "### Where to operate, and what it costs"
    if policies is None:
        yield _not_run(target, "The operating point and its cost", KNEE)
        return
    knee = sentence(loaded[policies.page], "bend_figure")
    cost = sentence(loaded[policies.page], "efficiency_figure")
    yield f"{as_myst(policies.reading)} {_link(policies.page)}"
    yield framed(policies)
    yield " ".join(as_myst(text) for text in (knee, cost) if text)


def _unobserved(loaded: Mapping[str, Any], target: str, suite: Sequence[str]) -> Iterator[str]:
    yield "### What could not be observed"
    evidence = _table(loaded, target, ADMISSION, "evidence_table")
    lines = [as_myst(evidence.reading)] if evidence and evidence.reading else []
    pages = {
        page: count for page in loaded if page.startswith(f"{target}/") and (count := _unseen(loaded[page]))
    }
    if pages:
        named = ", ".join(f"{_link(page)} ({count})" for page, count in pages.items())
        lines.append(f"Cells that are empty for want of a signal, by page: {named}.")
    missing = [name for name in suite if f"{target}/{name}" not in loaded]
    if missing:
        lines.append(f"Not run on this target: {', '.join(f'`{name}`' for name in missing)}.")
    yield "\n\n".join(lines or ["Every signal that the notebooks ask for was there."])


def _unseen(nb: Any) -> int:
    """Table cells of an executed notebook that say that something could not be seen."""
    shown = (str(o.get("data", {}).get("text/html", "")).lower() for c in cells(nb) for o in c.outputs)
    return sum(text.count(f">{words}") for text in shown for words in UNSEEN)


def summary(loaded: Mapping[str, Any], target: str) -> str:
    """The counts of the claims table and where it is; what to run where it was not."""
    counts = _table(loaded, target, SUMMARY, "counts_table")
    if counts is None:
        return _not_run(target, "The claims table", SUMMARY)
    page = f"{target}/{SUMMARY}"
    return f"{framed(counts)}\n\nThe whole table, differences first, with filters: [{page}]({page}.ipynb)."


def framed(found: LiftedTable) -> str:
    """A lifted table in a box of its own, which scrolls where the screen is narrow."""
    return _raw(boxed(found.html))


def folded(summary: str, tables: Sequence[LiftedTable], unfolded: bool = False) -> str:
    """Lifted tables that can be folded away."""
    body = "\n".join(boxed(found.html) for found in tables)
    return _raw(f"<details{' open' if unfolded else ''}>\n<summary>{summary}</summary>\n{body}\n</details>")


def _raw(markup: str) -> str:
    lines = "\n".join(line for line in markup.splitlines() if line.strip())
    return f"```{{raw}} html\n{lines}\n```"


def _table(loaded: Mapping[str, Any], target: str, notebook: str, made_by: str) -> LiftedTable | None:
    page = f"{target}/{notebook}"
    return table(loaded[page], page, made_by) if page in loaded else None


def _link(page: str) -> str:
    return f"[{page.partition('/')[2]}]({page}.ipynb)"


def _not_run(target: str, what: str, notebook: str) -> str:
    """What is missing, and the command that measures it; an endpoint is found again by its name alone."""
    known = {MODEL: "", "local": " TARGET=local"}
    chosen = known.get(target, f" TARGET=https://… TARGET_NAME={target}")
    again = "" if target in known else ", with the same key, metrics and profile settings as before"
    command = f"`make reproduce{chosen} NOTEBOOKS={notebook[:2]}`"
    return f"{what}: not run yet on this target: {command}{again}."
