"""The built site as one archive: the same pages give the same bytes, whenever they are packed."""

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nlqlib.files import write_atomic
from nlqlib.site import OURS

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip archive can hold: no clock of ours is in it
UNIX, MODE = 3, 0o100644  # what zip calls the system that made it, and a plain file's mode


class PublishError(Exception):
    """There is nothing to publish; the message says what to run."""


@dataclass(frozen=True)
class Published:
    """The archive that was written."""

    path: Path
    size_bytes: int
    files: int
    sha256: str


def publish(site: Path, out: Path) -> Published:
    """Pack the site in the folder `site` into the archive `out`; raises `PublishError`."""
    if not all((site / name).is_file() for name in (*OURS, "index.html")):
        raise PublishError(f"{site} holds no site built here: run `make site` first")
    files = sorted(path for path in site.rglob("*") if path.is_file())
    content = packed(site, files)
    write_atomic(out, content)
    return Published(out, len(content), len(files), hashlib.sha256(content).hexdigest())


def packed(site: Path, files: Sequence[Path]) -> bytes:
    """A zip archive of `files` under their names in `site`, in the order of those names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted((path.relative_to(site).as_posix(), path) for path in files):
            entry = zipfile.ZipInfo(f"site/{name}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = UNIX, MODE << 16
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()
