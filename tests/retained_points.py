"""Points that are retained in this repository: what tests of the published pages rest on."""

from nlqlib import paths
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record


def points(target: str, notebook: str, begins: str = "") -> list[Record]:
    """The points of a target's notebook whose name begins so, by name; of one measured again the latest."""
    folder = paths.ARTIFACTS / target / notebook
    every = [load_record(p) for p in folder.glob("*-????????.json")]
    found = {r.body["point"]: r for r in sorted(every, key=lambda r: str(r.run.get("completed_at") or ""))}
    return [found[name] for name in sorted(found) if name.startswith(begins)]


def point(target: str, notebook: str, name: str) -> Record:
    """The one point of that name."""
    [found] = [r for r in points(target, notebook, name) if r.body["point"] == name]
    return found
