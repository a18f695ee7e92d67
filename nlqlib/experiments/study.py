"""A notebook's own view of the suite: its target, its client, and the points it retains."""

import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import pandas as pd
from IPython.display import Markdown, display

from nlqlib.artifacts import Measured, PointKey, Record, Store, source_digest
from nlqlib.fingerprint import Kind
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.records import Json, Workload
from nlqlib.serving.client import ClientKind
from nlqlib.serving.target import MEASUREMENT_VERSION, Target, TargetError, open_target

T = TypeVar("T")
Profile = Literal["full", "quick"]
Heard = Literal["replayed", "drawn"]
LENGTHS = "drawn at 115 ± 3 tokens as the article reports"
ANSWERS = {
    frozenset({"replayed"}): "words replayed from recordings of {speaker}",
    frozenset({"drawn"}): f"of answers only the lengths count, {LENGTHS}",
    frozenset({"replayed", "drawn"}): "some answers replayed from recordings of {speaker}; of the others "
    f"only the lengths count, {LENGTHS}, or fixed",
}
"""How the twin answers on a page, as its banner says it."""


@dataclass(frozen=True)
class Spec:
    """One point as it is planned: what decides it, and what it sends."""

    name: str
    params: Json
    modules: tuple[str, ...]
    """What the measurement runs through: on the twin an edit of any of them voids the point, on a real
    endpoint only a new `MEASUREMENT_VERSION` does."""
    workload: Workload | None = None
    kind: Kind = "point"
    requests: int = 0
    concurrency: int = 1
    about_s: float | None = None
    """Wall time in seconds, where more than its requests decides it; `None`: the plan counts those."""


@dataclass(frozen=True)
class Study:
    """One notebook against one target."""

    notebook: str
    target: Target
    profile: Profile
    client: ClientKind
    store: Store
    contract: str = "structured_outputs"
    """By which field an intent is asked for; `contract_basis.page_contract` says what an endpoint honours."""

    @classmethod
    def open(cls, notebook: str, target: str = "", profile: str = "", client: ClientKind = "wire") -> "Study":
        """The study of `target` for `notebook`; contacts nothing. Raises `TargetError`."""
        pd.set_option("display.max_colwidth", None)  # a cut question or statement cannot be read
        opened = open_target(target)
        chosen: Any = profile or os.environ.get("PROFILE") or opened.profile
        if chosen not in ("full", "quick"):
            raise TargetError(f"unknown profile {chosen!r}: use full or quick")
        return cls(notebook, opened, chosen, client, Store.from_environment())

    @property
    def quick(self) -> bool:
        return self.profile == "quick"

    @property
    def catalog(self) -> Catalog:
        return load_catalog()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine` on the target's loop."""
        return self.target.run(coroutine)

    def measured(self, coroutine: Coroutine[Any, Any, Measured]) -> Measured:
        """What `coroutine` measured on the target's loop, with when it did (Unix s) on a real one.

        The wall clock only says when, to tell runs apart that overlapped.
        """
        began = time.time()
        found = self.run(coroutine)
        return found if self.target.kind == "twin" else replace(found, interval_s=(began, time.time()))

    def key(self, spec: "Spec") -> PointKey:
        """The identity of the point `spec` on this target."""
        real = self.target.kind != "twin"
        return PointKey(
            target=self.target.name,
            notebook=self.notebook,
            point=spec.name,
            kind=spec.kind,
            params={"profile": self.profile, "client": self.client, **spec.params},
            workload=spec.workload,
            identity=self.target.declared,
            source=MEASUREMENT_VERSION if real else source_digest(spec.modules, follow=True),
        )

    def point(self, spec: "Spec", measure: Callable[[], Measured]) -> Record:
        """The point `spec`: retained already, or measured now by `measure` and retained."""
        real = self.target.kind != "twin"
        there = self.target
        held = {"endpoint": there.instance, "lock": there.lock_id} if real else {}
        return self.store.measure(self.key(spec), measure, **held)

    def retained(self, spec: "Spec") -> bool:
        """Whether `spec` would be reused: decided from files alone."""
        return self.store.has(self.key(spec))

    def banner(self, *heard: Heard) -> None:
        """Show what this page's numbers are; `heard`: how the twin answers on it (default: `replayed`)."""
        say(f"*{self.statement(*heard)}*")

    def statement(self, *heard: Heard) -> str:
        """One sentence: the target, and how its numbers came about.

        `heard`: how the twin answers on the page; elsewhere the model that is served does.
        Raises `ValueError` for anything but replayed, drawn, or both.
        """
        if self.target.kind != "twin":
            speaker = f"model {self.target.speaker}" if self.target.speaker else "the model is what it serves"
            return f"target {self.target.name} ({self.profile} profile): everything measured; {speaker}"
        answers = ANSWERS.get(frozenset(heard or ("replayed",)))
        if answers is None:
            raise ValueError(f"a page's answers are replayed, drawn, or both, not {', '.join(heard)}")
        told = answers.format(speaker=self.target.speaker)
        return f"target twin: times modelled ({self.target.models}, in virtual time); {told}"

    def provenance(self, *records: Record) -> pd.DataFrame:
        """Where the given points are kept, when they were measured and with which code."""
        return pd.DataFrame([_origin(r) for r in records]).set_index("point")


def _origin(record: Record) -> Json:
    told = record.run.get("provenance") or {}
    commit = told.get("git_commit") or ""
    return {
        "point": record.body["point"],
        "measured at (UTC)": str(record.run.get("completed_at") or "")[:19],
        "code": commit[:10] + (" + changes" if told.get("git_dirty") else ""),
        "fingerprint": record.body["fingerprint"][:8],
        "artifact": record.path.name,
    }


def say(text: str) -> None:
    """Show `text` as prose in a notebook: a sentence that reads a table or a figure."""
    display(Markdown(text))
