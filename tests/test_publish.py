"""The archive of a site: the same pages, the same bytes."""

import os
import zipfile
from pathlib import Path

import pytest

from nlqlib.publish import PublishError, publish


def site(
    folder: Path, names: tuple[str, ...] = (".nojekyll", "objects.inv", "index.html", "twin/a.html")
) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"page {name}\n" * 50)
    return folder


def test_the_same_pages_give_the_same_bytes_whenever_and_wherever_they_lie(tmp_path):
    one, other = (
        site(tmp_path / "one"),
        site(tmp_path / "two" / "deep", ("twin/a.html", "index.html", "objects.inv", ".nojekyll")),
    )
    os.utime(other / "index.html", (1, 1))
    first, second = publish(one, tmp_path / "1.zip"), publish(other, tmp_path / "2.zip")
    assert (
        first.sha256 == second.sha256
        and (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    )


def test_another_page_gives_another_hash(tmp_path):
    folder = site(tmp_path / "s")
    before = publish(folder, tmp_path / "s.zip").sha256
    (folder / "index.html").write_text("other")
    assert publish(folder, tmp_path / "s.zip").sha256 != before


def test_every_file_is_in_it_under_one_folder_and_its_size_is_told(tmp_path):
    made = publish(site(tmp_path / "s"), tmp_path / "s.zip")
    with zipfile.ZipFile(made.path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "site/.nojekyll",
            "site/index.html",
            "site/objects.inv",
            "site/twin/a.html",
        ]
    assert (made.files, made.size_bytes) == (4, made.path.stat().st_size)


def test_a_folder_that_is_no_site_is_refused_with_the_command_to_run(tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    with pytest.raises(PublishError, match="run `make site` first"):
        publish(tmp_path, tmp_path / "s.zip")
    assert not (tmp_path / "s.zip").exists()
