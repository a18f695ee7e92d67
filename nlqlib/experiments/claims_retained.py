"""What a target's folder of artifacts holds, by notebook, with a study of it that can send nothing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

from nlqlib import paths
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record, Store
from nlqlib.experiments.study import Profile, Study
from nlqlib.serving.target import Kind, Target, TargetError

FIRST = ("twin", "local")
"""The order of targets; then the others by name."""
MODEL, ACCELERATOR = "Qwen2.5-3B-Instruct", "L4"
"""What an endpoint must serve, and on what, for its speeds to be the article's."""
CAN: Mapping[Kind, frozenset[str]] = {
    "twin": frozenset({"restart", "set_limits", "reset_cache", "metrics"}),
    "local": frozenset({"restart", "set_limits", "reset_cache", "metrics"}),
    "url": frozenset({"metrics"}),
}


@dataclass(frozen=True)
class Retained:
    """The points that one notebook retained of one target, and the study they belong to."""

    study: Study
    records: tuple[Record, ...]

    def named(self, *patterns: str) -> list[Record]:
        """The points whose name fits one of `patterns`, by concurrency and repeat where they have them."""
        found = [r for r in self.records if any(fnmatchcase(r.body["point"], p) for p in patterns)]
        return sorted(found, key=_order)


def _order(record: Record) -> tuple[int, int, str]:
    asked = record.params
    return int(asked.get("concurrency") or 0), int(asked.get("repeat") or 0), str(record.body["point"])


def target_names(root: Path = paths.ARTIFACTS) -> tuple[str, ...]:
    """The targets of which something is retained; twin and local first, and always."""
    found = {p.name for p in root.glob("*") if any(p.glob("*/*.json"))}
    return (*FIRST, *sorted(found - set(FIRST)))


def targets(first: str, root: Path = paths.ARTIFACTS) -> tuple[str, ...]:
    """All targets with the one named `first` in front; for a URL, the name that its runs are kept under."""
    name = os.environ.get("TARGET_NAME") or "endpoint" if "://" in first else first
    return tuple(dict.fromkeys([name, *target_names(root)]))


def retained(target: str, root: Path = paths.ARTIFACTS) -> dict[str, Retained]:
    """Notebook → its points of `target`. Contacts nothing. Raises `ArtifactError` for a damaged file.

    Of each point the newest success, and of a notebook that ran in both profiles the full one alone.
    """
    folders = sorted(p for p in (root / target).glob("*") if p.is_dir())
    found = {folder.name: _newest(folder) for folder in folders}
    return {
        name: Retained(_study(name, target, records, root), records)
        for name, records in found.items()
        if records
    }


def comparable_as(target: str, records: Sequence[Record]) -> str:
    """The name to judge `target` by: `l4` for an endpoint that says it is what the article measured."""
    servers = [r.server for r in records if r.server is not None]
    same = any(MODEL in (s.model or "") and ACCELERATOR in (s.accelerator or "").split() for s in servers)
    return "l4" if same and target not in FIRST else target


def _newest(folder: Path) -> tuple[Record, ...]:
    every = [load_record(p) for p in sorted(folder.glob("*.json")) if not p.name.endswith(".run.json")]
    done = [r for r in every if r.status == "success"]
    profiles = {r.params.get("profile") for r in done}
    kept = [r for r in done if "full" not in profiles or r.params.get("profile") != "quick"]
    by_point = {r.body["point"]: r for r in sorted(kept, key=lambda r: str(r.run.get("completed_at") or ""))}
    return tuple(by_point.values())


def _study(notebook: str, target: str, records: Sequence[Record], root: Path) -> Study:
    quick = all(r.params.get("profile") == "quick" for r in records)
    profile: Profile = "quick" if quick else "full"
    client: Any = records[0].params.get("client") or "wire"
    return Study(notebook, _silent(target, dict(records[0].body["identity"])), profile, client, Store(root))


def _silent(name: str, declared: dict[str, Any]) -> Target:
    """The target as it declared itself, without a way to reach it."""
    kinds: Mapping[str, Kind] = {"twin": "twin", "local": "local"}
    kind = kinds.get(name, "url")

    def refuse() -> NoReturn:
        raise TargetError(f"{name} is only read from its artifacts here: nothing may be sent to it")

    return Target(
        name=name,
        kind=kind,
        clock="virtual" if kind == "twin" else "real",
        can=CAN[kind],
        declared=declared,
        speaker=declared.get("model"),
        connect=refuse,
    )
