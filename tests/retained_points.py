"""Points that are retained in this repository: what tests of the published pages rest on."""

from nlqlib import paths
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record


def points(target: str, notebook: str, begins: str = "") -> list[Record]:
    """The points of a target's notebook whose name begins so, in the order of their files."""
    folder = paths.ARTIFACTS / target / notebook
    found = [load_record(p) for p in sorted(folder.glob("*-????????.json"))]
    return [r for r in found if str(r.body["point"]).startswith(begins)]


def point(target: str, notebook: str, name: str) -> Record:
    """The one point of that name."""
    [found] = [r for r in points(target, notebook, name) if r.body["point"] == name]
    return found
