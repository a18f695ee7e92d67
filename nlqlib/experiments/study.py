"""A notebook's own view of the suite: its target, its client, and the points it retains."""

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

from nlqlib.artifacts import Measured, PointKey, Record, Store, source_digest
from nlqlib.fingerprint import Kind
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.records import Json, Workload
from nlqlib.serving.client import ClientKind
from nlqlib.serving.running import run
from nlqlib.serving.target import MEASUREMENT_VERSION, Target, TargetError, open_target

T = TypeVar("T")
Profile = Literal["full", "quick"]


@dataclass(frozen=True)
class Study:
    """One notebook against one target."""

    notebook: str
    target: Target
    profile: Profile
    client: ClientKind
    store: Store

    @classmethod
    def open(cls, notebook: str, target: str = "", profile: str = "", client: ClientKind = "wire") -> "Study":
        """The study of `target` for `notebook`; contacts nothing. Raises `TargetError`."""
        opened = open_target(target)
        if profile not in ("", "full", "quick"):
            raise TargetError(f"unknown profile {profile!r}: use full or quick")
        chosen: Any = profile or opened.profile
        return cls(notebook, opened, chosen, client, Store.from_environment())

    @property
    def quick(self) -> bool:
        return self.profile == "quick"

    @property
    def catalog(self) -> Catalog:
        return load_catalog()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine` on the target's loop."""
        return run(coroutine)

    def point(
        self,
        name: str,
        measure: Callable[[], Measured],
        *,
        params: Json,
        modules: Sequence[str],
        workload: Workload | None = None,
        kind: Kind = "point",
    ) -> Record:
        """The point `name`: retained already, or measured now by `measure` and retained.

        `modules` are those the measurement runs through: on the twin an edit of any of them voids the point;
        on a real endpoint only a new `MEASUREMENT_VERSION` does.
        """
        real = self.target.kind != "twin"
        key = PointKey(
            target=self.target.name,
            notebook=self.notebook,
            point=name,
            kind=kind,
            params={"profile": self.profile, "client": self.client, **params},
            workload=workload,
            identity=self.target.declared,
            source=MEASUREMENT_VERSION if real else source_digest(modules, follow=True),
        )
        return self.store.measure(key, measure, endpoint=self.target.instance if real else None)

    def banner(self) -> None:
        """Print what this page's numbers are, and whose words are heard."""
        print(self.statement())

    def statement(self) -> str:
        """One sentence: the target, and how its numbers came about."""
        speaker = self.target.speaker or "the model the endpoint serves"
        if self.target.kind == "twin":
            return (
                f"target twin: answers replayed from recordings of {speaker}; "
                "the twin has no clock yet, so every latency is missing"
            )
        return f"target {self.target.name} ({self.profile} profile): everything measured; model {speaker}"

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


def canonical(value: Any) -> str:
    """`value` as canonical JSON text, for hashes and comparisons."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
