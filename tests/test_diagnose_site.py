"""As a user would: an endpoint behind a limit of one, `reproduce` on its URL, and the site of that study."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_server import serve

from nlqlib import paths
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.twin_target import TwinSettings, twin_app

FASTER = 10
"""The twin's steps take a tenth of their time: what is said of the endpoint does not hang on its speed."""
SETTINGS = (
    "TARGET",
    "PROFILE",
    "NOTEBOOKS",
    "CLIENT",
    "MODEL",
    "API_KEY",
    "METRICS",
    "MAX_",
    "NLQLIB",
    "REMEASURE",
)


def fast_twin(folder: Path) -> str:
    """The path of a twin document like the default one, with shorter steps."""
    found = json.loads((paths.DATA / "twins" / "l4-qwen2.5-3b.json").read_text("utf-8"))
    for part in ("step_time", "outside"):
        timed = {k: v / FASTER for k, v in found[part].items() if isinstance(v, float)}
        found[part] |= timed
    path = folder / "fast.json"
    path.write_text(json.dumps(found), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with artifacts and build of its own."""
    home = tmp_path_factory.mktemp("user")
    shutil.copytree(paths.ROOT / "nlqlib", home / "nlqlib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(paths.NOTEBOOKS, home / "notebooks")
    (home / "data").symlink_to(paths.DATA)
    return home


def command(home: Path, root: str, *arguments: str) -> str:
    """What `python -m nlqlib` printed in that checkout, for the endpoint at `root`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    mine = {"TARGET": f"{root}/v1", "TARGET_NAME": "mine", "METRICS_URL": f"{root}/metrics"}
    env = kept | mine | {"PROFILE": "quick", "PYTHONPATH": str(home)}
    call = [sys.executable, "-m", "nlqlib", *arguments]
    done = subprocess.run(call, cwd=home, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def front(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The words of the published front page."""
    engine = twin_app(TwinSettings(twin=fast_twin(tmp_path_factory.mktemp("twin")), words="synthetic"))
    with serve(Gateway(engine, replica=1)) as root:
        command(home, root, "reproduce", "--notebooks", "00,03")
        command(home, root, "site")
    page = (home / "build/site/index.html").read_text("utf-8")
    text = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("’", "'")
    yield re.sub(r"\s+", " ", text)


def test_the_site_says_that_concurrency_is_lost_before_the_scheduler(front: str) -> None:
    assert "Serialised upstream, so concurrency is lost before the engine's scheduler:" in front
    assert re.search(
        r"at 16 in flight \d+% of the latency is waiting at the replica, which lets 1 through", front
    )


def test_the_site_shows_the_evidence(front: str) -> None:
    assert re.search(r"throughput by concurrency, req/s .*? no further growth from [14] on", front)
    wait = r"mean wait at the replica, 16 in flight .*? a queue; lets about (0\.9|1\.\d) through at once"
    assert re.search(wait, front)
    assert re.search(r"running in the engine, 16 in flight 1\b.*? fewer than are in flight", front)


def test_the_site_names_what_to_change(front: str) -> None:
    assert "predict_concurrency" in front and "max_ongoing_requests" in front
    assert "containerConcurrency" in front and "set it to 16" in front
    assert "concurrency_target" not in front.split("What could not be observed")[0]


def test_neither_host_nor_path_of_the_machine_is_published(home: Path, front: str) -> None:
    for page in (home / "build/site").rglob("*.html"):
        text = page.read_text("utf-8")
        assert "127.0.0.1" not in text and str(home) not in text
