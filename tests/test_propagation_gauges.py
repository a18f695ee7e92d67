"""Gauges that lag behind long steps: the fullest moment is judged, and the scrape waits for it."""

import asyncio
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Say, Status
from fake_server import FakeServer, respond, serve
from metrics_pages import counter, gauge, scrape
from retained_points import point, points
from sweep_records import level

from nlqlib.analysis.samples import Sample
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import propagation_scrape as page
from nlqlib.experiments.path_level import Middle, PathLevel, measure
from nlqlib.experiments.propagation_gauges import inside_by_timers, lags, together
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"


def seen(rows: Sequence[Sequence[float | None]], n: int = 4, **values: float | None) -> Record:
    """A level of `n` in flight whose samples are `rows` of time, running and waiting."""
    found = level(n, 1.0, 4.0, **values)  # type: ignore[arg-type]
    return replace(found, body={**found.body, "results": {"gauges": [list(row) for row in rows]}})


def real(folder: Path, url: str = "http://h/v1") -> Study:
    return Study("04_propagation", open_target(url), "quick", "wire", Store(folder))


# ---- the fullest moment ----------------------------------------------------------------------------------


def test_the_fullest_moment_is_the_most_running_with_the_fewest_waiting() -> None:
    rows = [(0.0, 1, 3), (0.25, 4, 1), (0.5, 4, 0), (0.75, 4, 0), (1.0, 0, 0), (1.25, 4, 0)]
    found = together(seen(rows))
    assert found is not None
    assert (found.running, found.waiting, found.samples, found.of) == (4, 0, 3, 6)
    assert (found.from_s, found.until_s) == (0.5, 0.75)  # the longest time without a break
    assert found.reaches(4)


def test_samples_that_lack_a_value_are_left_out_and_none_at_all_is_missing() -> None:
    found = together(seen([(0.0, None, None), (0.25, 2, 0), (0.5, 9, None)]))
    assert found is not None and (found.running, found.of) == (2, 1)
    assert together(seen([(0.0, None, 0)])) is None
    assert together(seen([])) is None


def test_some_running_and_the_rest_waiting_do_not_run_together() -> None:
    found = together(seen([(0.0, 4, 12)], n=16))
    assert found is not None and not found.reaches(16)


def test_gauges_lag_where_they_show_fewer_than_the_timers_put_inside() -> None:
    record = level(16, 0.65, running=3.4, waiting=0.0)
    told = [{"name": "engine_e2e", "stat": "mean", "unit": "s", "value": 24.3, "n": 32, "tag": "measured"}]
    timed = replace(record, body={**record.body, "metrics": [*record.body["metrics"], *told]})
    assert inside_by_timers(timed) == pytest.approx(15.8, abs=0.01)
    assert lags(timed) is True
    assert lags(record) is None  # without timers nothing can be said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [(0.25, 0, 0), (0.5, 4, 0), (1.0, 4, 0)],
            "2 of 3 samples, for 0.5 s without a break (0.50 to 1.00 s)",
        ),
        ([(0.25, 0, 0), (0.5, 4, 0), (1.0, 4, 0)], "requests reach the scheduler together"),
        ([(0.25, 1, 0), (0.5, 1, 0)], "cannot be told, since gauges may lag"),
    ],
)
def test_the_sentence_says_for_how_long_it_held(
    rows: list[tuple[float, ...]], said: str, tmp_path: Path
) -> None:
    assert said in page.scrape_sentence(seen(rows), real(tmp_path))


def test_gauges_that_do_not_lag_say_that_requests_stay_apart(tmp_path: Path) -> None:
    record = seen([(0.25, 1, 0), (0.5, 1, 0)], running=1.0, waiting=0.0)
    told = [{"name": "engine_e2e", "stat": "mean", "unit": "s", "value": 1.0, "n": 8, "tag": "measured"}]
    timed = replace(record, body={**record.body, "metrics": [*record.body["metrics"], *told]})
    assert "not all requests reach the scheduler" in page.scrape_sentence(timed, real(tmp_path))


# ---- the committed runs of the real engine ---------------------------------------------------------------

LOCAL = [
    *(("04_propagation", f"run-n16-r{r}", 16) for r in (1, 2, 3)),
    ("04_propagation", "scrape-n14", 14),
    ("03_admission", "after-n16", 16),
]


@pytest.mark.parametrize(("notebook", "name", "n"), LOCAL)
def test_on_the_real_engine_everything_in_flight_runs_together_for_seconds(
    notebook: str, name: str, n: int, tmp_path: Path
) -> None:
    record = point("local", notebook, name)
    found = together(record)
    assert found is not None and (found.running, found.waiting) == (n, 0)
    assert found.until_s - found.from_s >= 1.5
    assert lags(record) is True  # on average they show a fifth of what the timers put inside
    said = page.scrape_sentence(record, replace(real(tmp_path), target=open_target("local")))
    assert f"running = {n} and waiting = 0" in said and "requests reach the scheduler together" in said
    assert "The gauges lag" in said


def test_on_the_twin_they_do_not_lag() -> None:
    [record] = points("twin", "04_propagation", "scrape-n28")
    found = together(record)
    assert found is not None and found.reaches(28)
    assert lags(record) is False


# ---- when the scrape is taken ----------------------------------------------------------------------------


@dataclass
class Gauges:
    """Stands for the reader of the metrics: its gauges are `shown`, one after the other."""

    shown: list[float]
    scraped: list[float] = field(default_factory=list)
    now: float = 0.0

    async def sample(self) -> Sample:
        self.now = self.shown.pop(0) if self.shown else self.now
        return Sample(asyncio.get_running_loop().time(), self.now, 0.0)

    async def scrape(self) -> Any:
        self.scraped.append(self.now)
        return scrape(0.0, gauge(RUNNING, self.now))


def taken(shown: list[float], answers_before: int, half: int = 4, full: int = 8) -> float | None:
    """Which gauge the scrape of a level saw: so many answers come first, then the samples."""

    async def go() -> float | None:
        reader = Gauges(list(shown))
        middle = Middle(reader, half, full)  # type: ignore[arg-type]
        for _ in range(answers_before):
            middle.advance()
        for _ in shown:
            await middle.sample()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await middle.page()
        return reader.scraped[-1] if reader.scraped else None

    return asyncio.run(go())


def test_the_scrape_is_taken_when_all_are_running() -> None:
    assert taken([0, 1, 1, 8, 0], answers_before=4) == 8


def test_where_all_never_run_the_scrape_half_way_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlqlib.experiments.path_level.PAUSE_S", 0.0)
    assert taken([1, 1, 1], answers_before=4) == 1


def test_before_half_of_the_answers_nothing_is_scraped() -> None:
    assert taken([8, 8], answers_before=3) is None


# ---- a server whose gauges lag ---------------------------------------------------------------------------

WAVE_S, SET_S = 1.0, 0.55


@dataclass
class Lagging:
    """Answers all in flight together after a second, and counts them in its gauge after 0.55 s.

    Until then it shows what was before the step: nothing, then the one request that came first.
    """

    chat: FakeServer = field(default_factory=lambda: FakeServer(Say(latency_s=WAVE_S)))
    began_s: float | None = None
    finished: int = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        now = asyncio.get_running_loop().time()
        if scope["path"].startswith("/metrics"):
            await respond(send, Status(200, self._page(now)))
            return
        chats = scope["path"].endswith("/chat/completions")
        if chats and (self.began_s is None or now - self.began_s > WAVE_S / 2):
            self.began_s = now
        await self.chat(scope, receive, send)
        self.finished += chats

    def _page(self, now: float) -> str:
        since = None if self.began_s is None else now - self.began_s
        running = 0 if since is None or since < 0.1 or since > WAVE_S else 1 if since < SET_S else 4
        done = counter("vllm:request_success", self.finished, finished_reason="stop")
        return gauge(RUNNING, running) + gauge(WAITING, 0) + done


@pytest.fixture(scope="module")
def lagging() -> Iterator[str]:
    with serve(Lagging()) as url:
        yield url


def test_behind_gauges_that_lag_requests_are_found_together(
    lagging: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METRICS_URL", f"{lagging}/metrics")
    monkeypatch.setenv("TARGET_NAME", "theirs")
    monkeypatch.delenv("MODEL", raising=False)
    study = real(tmp_path, f"{lagging}/v1")
    record = measure(study, PathLevel("scrape", 4, 12, warm=False))
    found = together(record)
    assert found is not None and (found.running, found.waiting) == (4, 0)
    assert record.results["middle"]["running"] == 4  # half-way alone it would be 1
    mean = record.value("running", "mean")
    assert mean is not None and mean < 3
    assert "requests reach the scheduler together" in page.scrape_sentence(record, study)
