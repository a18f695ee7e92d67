"""The write-up: executed notebooks to a static site that asks nothing of the network.

`build/executed/<target>/*.ipynb` and `notebooks/{*.md,conf.py,_static}` are copied to `build/site-src`, the
front page is told by what the notebooks of one target found, Sphinx builds with warnings as errors, and only
what passes every check is put in place of the old `build/site`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from nlqlib import front_page, paths, redaction
from nlqlib.site_gate import Problem, check_notebook, ran_to_its_end
from nlqlib.site_html import check_html
from nlqlib.site_signs import typeset
from nlqlib.site_stage import stage

FIRST_TARGETS = ("twin", "local")  # then the others by name
OURS = (".nojekyll", "objects.inv")  # a folder with these files is a site built here, and may be replaced


class SiteError(Exception):
    """The site cannot be built; the message says what to do."""


@dataclass(frozen=True)
class SiteReport:
    """What became of a build; the old site stays in place unless `ok`."""

    out: Path
    pages: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sphinx's warnings, each of which is an error here."""

    @property
    def ok(self) -> bool:
        return not self.problems and not self.warnings


def build_site(
    executed: Path = paths.BUILD / "executed",
    out: Path = paths.BUILD / "site",
    *,
    targets: Sequence[str] | None = None,
    front: str | None = None,
    texts: Mapping[str, str] | None = None,
    partial: bool = False,
    notebooks: Path = paths.NOTEBOOKS,
) -> SiteReport:
    """Build the site of `targets` (default: all that were run) into `out`; raises `SiteError`.

    `front` is the target whose story the front page tells (default: an endpoint that is neither twin nor
    local, else the first). `texts`: further texts by mark, for the prose pages. `partial` leaves out what did
    not run to its end, where it is otherwise a problem; the front page names it as not run.
    """
    loaded = load(executed, targets)
    if partial:
        loaded = {page: nb for page, nb in loaded.items() if ran_to_its_end(nb)}
    if not loaded:
        raise SiteError("no notebook ran to its end: `make reproduce` says why, and goes on where it stopped")
    _check_replaceable(out)
    hidden = redaction.secrets()
    problems = [problem for page, nb in loaded.items() for problem in check_notebook(nb, page, hidden)]
    if problems:
        return SiteReport(out, tuple(loaded), tuple(problems))
    source, work = out.with_name(f"{out.name}-src"), out.with_name(f"{out.name}-work")
    suite = sorted(path.stem for path in notebooks.glob("[0-9]*.ipynb"))
    told = front_page.front(loaded, _front(list(loaded), front), suite)
    marks = {**(texts or {}), **told.texts, "pages": toctrees(list(loaded))}
    stage(loaded, notebooks, source, marks, told.pictures)
    warnings = _sphinx(source, work)
    for template in (work / "html" / "_static").glob("*.html"):
        template.unlink()  # the theme leaves its own Jinja templates among the assets
    problems = [] if warnings else check_html(work / "html")
    if not warnings and not problems:
        _put_in_place(work / "html", out)
    return SiteReport(out, tuple(loaded), tuple(problems), tuple(warnings))


def load(executed: Path = paths.BUILD / "executed", targets: Sequence[str] | None = None) -> dict[str, Any]:
    """Page (`twin/01_pipeline`) → executed notebook, in reading order; raises `SiteError`."""
    return {page: _load(path, page) for page, path in _executed(executed, targets).items()}


def _executed(executed: Path, targets: Sequence[str] | None) -> dict[str, Path]:
    """Page name (`twin/01_pipeline`) → notebook, in reading order."""
    here = sorted({p.parent.name for p in executed.glob("*/*.ipynb")}, key=_target_order)
    unknown = [t for t in targets or () if t not in here]
    if not here or unknown:
        missing = f" of {', '.join(unknown)}" if unknown else ""
        hint = f"run `make reproduce TARGET={unknown[0]}` first" if unknown else "run `make reproduce` first"
        raise SiteError(f"no executed notebooks{missing} in {executed}: {hint}")
    chosen = [t for t in here if t in (targets or here)]
    return {f"{t}/{p.stem}": p for t in chosen for p in sorted((executed / t).glob("*.ipynb"))}


def _front(pages: Sequence[str], wanted: str | None) -> str:
    """The target the front page is about; raises `SiteError` for one that has no page."""
    targets = list(dict.fromkeys(page.split("/")[0] for page in pages))
    if wanted and wanted not in targets:
        raise SiteError(
            f"no executed notebooks of {wanted} for the front page: there are {', '.join(targets)}"
        )
    return wanted or next((t for t in targets if t not in FIRST_TARGETS), targets[0])


def _target_order(target: str) -> tuple[int, str]:
    return (FIRST_TARGETS.index(target) if target in FIRST_TARGETS else len(FIRST_TARGETS), target)


def _load(path: Path, page: str) -> Any:
    """The notebook at `path`, its metadata completed with the name of its folder, its signs set."""
    try:
        nb = nbformat.reads(path.read_text("utf-8"), as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, UnicodeDecodeError) as error:
        raise SiteError(f"{path} is no notebook ({type(error).__name__}): run it again") from error
    started = nb.metadata.get("papermill", {}).get("start_time")
    run = f"of {started[:16].replace('T', ' ')} UTC" if started else None
    about = {"target": page.split("/")[0], "run": run, "what": _statement(nb)}
    nb.metadata["nlqlib"] = {**about, **nb.metadata.get("nlqlib", {})}
    return typeset(nb)


STATEMENT = re.compile(r"^\*target [^:]+: (.+)\*$")
"""What a notebook says of its target in its first output: what is modelled, replayed or measured."""


def _statement(nb: Any) -> str | None:
    """The statement of an executed notebook; `None` where it makes none."""
    shown = (o.get("data", {}).get("text/markdown", "") for c in nb.cells for o in c.get("outputs", ()))
    found = (STATEMENT.match("".join(text).strip()) for text in shown)
    return next((match[1] for match in found if match), None)


def _check_replaceable(out: Path) -> None:
    if out.exists() and any(out.iterdir()) and not all((out / name).is_file() for name in OURS):
        raise SiteError(f"{out} holds something that is not a site built here: choose another --out")


def toctrees(pages: Sequence[str]) -> str:
    """MyST toctrees, one per target, of `pages` in their order."""
    targets = dict.fromkeys(page.split("/")[0] for page in pages)
    return "\n".join(
        f"```{{toctree}}\n:caption: Target {target}\n:maxdepth: 1\n\n"
        + "\n".join(page for page in pages if page.split("/")[0] == target)
        + "\n```\n"
        for target in targets
    )


def _sphinx(source: Path, work: Path) -> list[str]:
    """Build `source` into `work`/html in a process of its own; its warnings and errors, one per entry."""
    shutil.rmtree(work, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-j", "auto", "-b", "html"]
    command += ["-d", str(work / "doctrees"), str(source), str(work / "html")]
    env = {**os.environ, "PYTHONUTF8": "1", "NO_COLOR": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=env, check=False)
    said = [line.replace(f"{source}{os.sep}", "") for line in ran.stderr.splitlines() if line.strip()]
    return (said or [f"Sphinx ended with status {ran.returncode}"]) if ran.returncode else []


def _put_in_place(html: Path, out: Path) -> None:
    (html / ".nojekyll").touch()  # static hosts must serve folders that begin with an underscore
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(html, out)


def main(
    argv: Sequence[str] | None = None, texts: Mapping[str, str] | None = None, began: float | None = None
) -> int:
    """`python -m nlqlib.site`: build, say what was found, 0 only on success. `texts` as in `build_site`.

    `began`: when the command was begun (`time.monotonic`), where it did something before.
    """
    began = time.monotonic() if began is None else began
    parser = argparse.ArgumentParser(prog="python -m nlqlib site", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--executed", type=Path, default=paths.BUILD / "executed", help="executed notebooks")
    parser.add_argument("--out", type=Path, default=paths.BUILD / "site", help="the site's folder")
    parser.add_argument("--target", action="append", help="only this target (repeat for several)")
    parser.add_argument("--front", help="the target of the front page")
    parser.add_argument(
        "--partial", action="store_true", help="leave out notebooks that did not run to the end"
    )
    args = parser.parse_args(argv)
    try:
        report = build_site(
            args.executed, args.out, targets=args.target, front=args.front, texts=texts, partial=args.partial
        )
    except (SiteError, OSError) as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    for line in (*report.problems, *report.warnings):
        print(line, file=sys.stderr)
    if not report.ok:
        count = len(report.problems) + len(report.warnings)
        print(f"nlqlib: no site built: {count} problem(s) above", file=sys.stderr)
        return 1
    print(f"{len(report.pages)} pages in {report.out}: open {report.out / 'index.html'}")
    print(f"built in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
