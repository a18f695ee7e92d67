"""Studies of the context budget: the twin, an endpoint that is not ours, and records made by hand."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from nlqlib.artifacts import Record, Store
from nlqlib.experiments.study import Study
from nlqlib.serving.target import Connection, Target, open_target

NOTEBOOK = "10_context_budget"


def twin_study(folder: Path) -> Study:
    return Study(NOTEBOOK, open_target("twin"), "full", "wire", Store(folder))


def local_study(folder: Path) -> Study:
    return Study(NOTEBOOK, open_target("local"), "quick", "wire", Store(folder))


def endpoint_study(folder: Path, window: int) -> Study:
    """Somebody's endpoint with a window of its own, which cannot be changed."""
    mine = replace(_served(window), name="mine", kind="url", declared={"name": "mine", "model": None})
    return Study(NOTEBOOK, mine, "full", "wire", Store(folder))


def started_study(folder: Path, told: list[str]) -> Study:
    """An engine of ours that has to be started and ended for each window; `told` lists both, in order."""

    def engine(window: int) -> Target:
        there = _served(window)

        def connect() -> Connection:
            told.append(f"start {window}")
            return replace(there.connect(), close=lambda: told.append(f"end {window}"))

        return replace(
            there,
            name="local",
            kind="local",
            declared={"name": "local", "settings": {"flags": {"max_model_len": window}}},
            connect=connect,
            variant=lambda flags: engine(flags.get("max_model_len", window)),
        )

    return Study(NOTEBOOK, engine(4096), "quick", "wire", Store(folder))


def _served(window: int) -> Target:
    """The twin as an endpoint that nothing can be told about. Each virtual loop has an engine of its own."""
    there = open_target("twin").engine(words="synthetic", output_sd=0, max_model_len=window)
    apps: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        if loop not in apps:
            apps[loop] = there.connect().app
        await apps[loop](scope, receive, send)

    return replace(there, variant=None, connect=lambda: replace(there.connect(), app=app))


def answer(id_: str = "a", outcome: str = "ok", tokens: int | None = 100, **more: Any) -> dict[str, Any]:
    """A row of a limit's point."""
    reason = {"ok": "stop", "length": "length"}.get(outcome)
    return {
        "id": id_,
        "outcome": outcome,
        "note": None,
        "finish_reason": reason,
        "http_status": 200,
        "clamped": False,
        "unknown": False,
        "max_tokens": 256,
        "prompt_tokens": 3300,
        "output_tokens": tokens,
        "took_s": 2.0,
        "text_sha256": f"text of {id_}",
        **more,
    }


class Made(Record):
    """A record whose rows are in memory."""

    def samples(self) -> list[dict[str, Any]]:
        return list(self.body["rows"])


def point(rows: list[dict[str, Any]], **params: Any) -> Record:
    """A point with those rows."""
    counts: dict[str, int] = {"total": len(rows), "ok": 0}
    for row in rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    body = {
        "status": "success",
        "target": "local",
        "point": "made",
        "params": params,
        "requests": counts,
        "metrics": [],
        "validity": [],
        "results": {},
        "rows": rows,
        "samples": None,
        "server": None,
    }
    return Made(Path("made.json"), body, {})
