"""Several notebooks, so many at a time: started, watched, interrupted and ended."""

import contextlib
import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from nlqlib import notebook_run, paths
from nlqlib.files import WriteError, slug
from nlqlib.locking import utc_now
from nlqlib.notebook_run import Finished, Notebook, Points, Running
from nlqlib.page_inputs import LAST, READS, Page
from nlqlib.records import Json
from nlqlib.remeasured import Comparison
from nlqlib.run_settings import RunSettings, placed
from nlqlib.scratch import scratch_folder

POLL_S = 0.1
UNREADABLE = (OSError, ValueError)
"""What reading a page's inputs may raise: one is gone meanwhile, or its name is no text."""
QUIET_S = 1.0
"""At least so long between two progress lines."""
GRACE_S = 15.0
"""How long an interrupted notebook may take to close its requests and write its point."""


class Batch:
    """Runs notebooks, `lanes` at a time, and keeps what became of them."""

    def __init__(self, settings: RunSettings, build: Path, artifacts: Path = paths.ARTIFACTS) -> None:
        self.settings = settings
        self.build = build
        self.artifacts = artifacts
        self.running: list[Running] = []
        self.done: dict[str, Finished] = {}
        self.pages: dict[str, tuple[Page, str]] = {}
        """Of the running notebooks, with their sources when they began."""
        self.due: Collection[str] = ()
        self._spoken = float("-inf")

    def run(
        self, notebooks: Sequence[Notebook], extra: Mapping[str, str], due: Collection[str] = ()
    ) -> list[Finished]:
        """Run all `notebooks`; after an interrupt the open ones are ended and the rest is not run.

        `due`: those that have something to measure, so that no page of theirs is kept as it is.
        """
        self.due = due
        with scratch_folder(self.build / "driver") as scratch:
            try:
                self._run(list(notebooks), scratch, self._environment(extra))
            except KeyboardInterrupt:
                self.settings.say("interrupted: ending the open notebooks …")
                self._stop()
            finally:
                for left in self.running:
                    left.kill()
                self._collect()
        return self.results(notebooks)

    def results(self, notebooks: Sequence[Notebook]) -> list[Finished]:
        """One outcome per notebook, in order."""
        return [self.done.get(n.name) or Finished(n, "not run") for n in notebooks]

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """What every kernel finds."""
        return placed({**os.environ, **self.settings.environment(), **extra}, self.settings.target)

    def _run(self, waiting: list[Notebook], scratch: Path, environment: Mapping[str, str]) -> None:
        while waiting or self.running:
            while waiting and self._may_start(waiting[0]):
                self._start(waiting.pop(0), scratch, environment)
            time.sleep(POLL_S)
            self._relay()
            self._collect()

    def _may_start(self, notebook: Notebook) -> bool:
        """Is there a lane for it, and has everything ended whose artifacts it reads?"""
        if len(self.running) >= self.settings.lanes:
            return False
        if notebook.name.startswith(LAST):
            return not self.running
        return not any(r.notebook.name in READS.get(notebook.name, ()) for r in self.running)

    def _start(self, notebook: Notebook, scratch: Path, environment: Mapping[str, str]) -> None:
        page = self._page(notebook, environment)
        again = self.settings.remeasure or notebook.name in self.due
        if not again and (kept := page.kept()):
            self.done[notebook.name] = Finished(notebook, "unchanged", Points(reused=kept.points))
            self.settings.say(f"{notebook.name}: unchanged since {kept.since[:16].replace('T', ' ')} UTC")
            return
        log = self.build / "logs" / slug(self.settings.target_name) / f"{notebook.name}.log"
        self.settings.say(f"{notebook.name}: started")
        with contextlib.suppress(*UNREADABLE):
            self.pages[notebook.name] = page, page.sources()
        folder = scratch / notebook.name
        self.running.append(notebook_run.start(notebook, folder, page.executed, log, environment))

    def _page(self, notebook: Notebook, environment: Mapping[str, str]) -> Page:
        target = slug(self.settings.target_name)
        executed = self.build / "executed" / target / notebook.path.name
        note = self.build / "inputs" / target / f"{notebook.name}.json"
        return Page(notebook, executed, note, environment, self.artifacts)

    def _relay(self) -> None:
        """Show comparisons at once, and the newest progress line when it is time."""
        lines = {r.notebook.name: found for r in self.running if (found := r.lines())}
        for running in self.running:
            for event in running.events():
                if event["comparison"]:
                    self.settings.say(f"{event['notebook']} {event['point']}: {_compared(event)}")
        now = time.monotonic()
        if lines and now - self._spoken >= QUIET_S:
            self._spoken = now
            self.settings.say("   ".join(f"{name}: {found[-1]}" for name, found in lines.items()))

    def _collect(self) -> None:
        self._relay()
        for running in list(self.running):
            if finished := running.finished():
                self.running.remove(running)
                self.done[finished.notebook.name] = finished
                if finished.status == "ok" and running.reproduced():
                    self._keep(running, finished.points)
                self.settings.say(f"{finished.notebook.name}: {finished.status}")

    def _keep(self, running: Running, points: Points) -> None:
        """Remember what the page followed from: artifacts measured anew equal the retained ones."""
        touched = {f for f in running.touched() if not f.is_relative_to(self.build)}
        page, begun = self.pages.pop(running.notebook.name, (None, ""))
        with contextlib.suppress(WriteError, *UNREADABLE):  # then it is run again
            if page:
                page.keep(begun, points, touched, utc_now())

    def _stop(self) -> None:
        """Interrupt what runs and wait for it; a second Ctrl-C, or the end of the grace, kills it."""
        for running in self.running:
            running.interrupt()
        deadline = time.monotonic() + GRACE_S
        try:
            while self.running and time.monotonic() < deadline:
                time.sleep(POLL_S)
                self._collect()
        except KeyboardInterrupt:
            return


def _compared(event: Json) -> str:
    return str(Comparison(**event["comparison"]))
