"""How far a long step has come: a bar in JupyterLab, plain lines under the batch driver.

Under the driver the lines go to a file that it shows, not into the notebook, where they would be published.
"""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tqdm import tqdm

from nlqlib.files import append_line

PROGRESS = "NLQLIB_PROGRESS"
"""Environment variable naming the file for plain lines; `-` is standard error. Unset: a bar in Jupyter."""
PAUSE_S = 1.0
"""At least so long between two lines."""


@dataclass
class Progress:
    """Counts `total` steps of `what`; use in a `with` block and call `advance` after each step."""

    total: int
    what: str
    done: int = field(default=0, init=False)
    _started: float = field(default_factory=time.monotonic, init=False, repr=False)
    _shown: float | None = field(default=None, init=False, repr=False)
    _bar: "tqdm[None] | None" = field(default=None, init=False, repr=False)

    def __enter__(self) -> "Progress":
        if not os.environ.get(PROGRESS) and _in_jupyter():
            self._bar = tqdm(total=self.total, desc=self.what, leave=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, label: str = "") -> None:
        """One step more is done; `label` says which."""
        self.done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(label, refresh=False)
            self._bar.update()
        elif self._due():
            _emit(self.line(label))

    def line(self, label: str = "") -> str:
        """`[3/12] concurrency 8 … 41 s`."""
        elapsed = time.monotonic() - self._started
        return f"[{self.done}/{self.total}] {self.what} {label}".rstrip() + f" … {elapsed:.0f} s"

    def _due(self) -> bool:
        now = time.monotonic()
        if self._shown is not None and now - self._shown < PAUSE_S and self.done < self.total:
            return False
        self._shown = now
        return True


def progress(total: int, what: str) -> Progress:
    """A counter of `total` steps of `what`: `with progress(12, "concurrency") as bar: … bar.advance("8")`."""
    return Progress(total, what)


def _emit(text: str) -> None:
    place = os.environ.get(PROGRESS) or "-"
    if place == "-":
        print(text, file=sys.stderr, flush=True)
    else:
        append_line(Path(place), text)


def _in_jupyter() -> bool:
    """Whether this is a Jupyter kernel, without importing IPython where it is not loaded."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"
