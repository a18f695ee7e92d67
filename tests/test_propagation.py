"""The page on propagation: three runs that differ, a scrape in the middle, tokens presented and computed."""

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_records import level

from nlqlib import plots
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import propagation, propagation_page, propagation_scrape, token_rates
from nlqlib.experiments.propagation import asked
from nlqlib.experiments.study import Study
from nlqlib.serving.target import TargetError, open_target


def study_of(folder: Path, target: str = "twin", profile: str = "full") -> Study:
    return Study("04_propagation", open_target(target), profile, "wire", Store(folder))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("propagation"))


@pytest.fixture(scope="module")
def runs(twin: Study) -> list[Record]:
    return propagation.runs(twin, asked(twin, 0, 0, 3, 0, 0))


@pytest.fixture(scope="module")
def scrape(twin: Study) -> Record:
    return propagation.scraped(twin, asked(twin, 0, 0, 3, 0, 0))


@pytest.fixture(scope="module")
def before(twin: Study) -> Record:
    found = propagation.before(twin, asked(twin, 0, 0, 3, 0, 0))
    assert found is not None
    return found


# ---- what is measured ------------------------------------------------------------------------------------

PARAMS = {"concurrency": 0, "scraped": 0, "runs": 3, "n_requests": 0, "seed": 0}


def test_the_articles_counts_are_planned_on_the_twin(twin: Study) -> None:
    found = {s.name: s.params for _, s in propagation.points(twin, PARAMS)}
    assert set(found) == {"run-n32-r1", "run-n32-r2", "run-n32-r3", "scrape-n28", "before-n32"}
    assert {p["requests"] for p in found.values()} == {150}
    assert [found[f"run-n32-r{r}"]["seed"] for r in (1, 2, 3)] == [1, 2, 3]


def test_a_real_engine_is_asked_for_little_in_the_quick_profile(tmp_path: Path) -> None:
    found = [s for _, s in propagation.points(study_of(tmp_path, "local", "quick"), PARAMS)]
    assert sum(s.params["requests"] for s in found) == 3 * 32 + 28 + 8
    assert {s.params["output_tokens"] for s in found} == {16}


def test_behind_limits_that_are_not_ours_there_is_no_before(tmp_path: Path) -> None:
    theirs = study_of(tmp_path, "http://h/v1")
    wanted = asked(theirs, 0, 0, 3, 0, 0)
    assert propagation.before(theirs, wanted) is None
    names = {s.name for _, s in propagation.points(theirs, PARAMS)}
    assert not any(n.startswith("before") for n in names)
    assert {s.params["cell"] for _, s in propagation.points(theirs, PARAMS)} == {""}
    assert "not observable" in propagation_page.gain_sentence([level(32, 6.8)], None)


def test_no_runs_are_refused(twin: Study) -> None:
    with pytest.raises(TargetError, match="runs"):
        asked(twin, 32, 28, 0, 150, 0)


def test_the_plan_names_the_points_that_are_measured(
    twin: Study, runs: list[Record], scrape: Record, before: Record
) -> None:
    assert [s.name for where, s in propagation.points(twin, PARAMS) if not where.retained(s)] == []


# ---- the twin --------------------------------------------------------------------------------------------


def test_three_runs_of_different_seeds_differ_in_length_and_agree_within_one_per_cent(
    twin: Study, runs: list[Record]
) -> None:
    found = propagation_page.throughput(runs)
    assert found.n == 3
    assert found.cv is not None and 0 < found.cv < 0.01
    assert found.mean == pytest.approx(6.87, rel=0.05)
    assert propagation_page.tail(runs).mean == pytest.approx(4.6, rel=0.06)
    same = propagation_page.alike(runs)
    assert same is not None and same < 0.1
    assert "below 1 %" in propagation_page.variation_sentence(runs, twin)


def test_the_scrape_shows_everything_in_flight_running(twin: Study, scrape: Record) -> None:
    middle = scrape.results["middle"]
    assert middle["in_flight"] == 28
    assert middle["running"] == pytest.approx(28, abs=1)
    assert middle["waiting"] == pytest.approx(0, abs=1)
    assert 0 < middle["kv_usage"] < 0.05
    assert b"vllm:num_requests_running" in scrape.scrapes()["middle"]
    assert "by construction" in propagation_scrape.scrape_sentence(scrape, twin)
    assert set(propagation_scrape.scrape_table(scrape, twin)["how it came about"][:3]) == {"by construction"}


def test_lifting_the_limits_gains_some_twenty_times(runs: list[Record], before: Record) -> None:
    assert propagation_page.gain(runs, before) == pytest.approx(22, rel=0.06)
    assert "times as much" in propagation_page.gain_sentence(runs, before)


def test_rates_of_server_and_answers_agree_and_few_prompt_tokens_are_computed(runs: list[Record]) -> None:
    for kind in ("output", "prompt, presented"):
        assert token_rates.rate(runs[0], kind) == pytest.approx(token_rates.client_rate(runs[0], kind))
    assert token_rates.rates(runs, "output").mean == pytest.approx(790, rel=0.05)
    assert token_rates.rates(runs, "prompt, presented").mean == pytest.approx(22_700, rel=0.05)
    computed = token_rates.rates(runs, "prompt, computed").mean
    assert computed is not None and 0 < computed < 0.01 * 22_700


def test_against_the_article_what_holds_by_construction_has_no_verdict(
    twin: Study, runs: list[Record], scrape: Record, before: Record
) -> None:
    table = propagation_page.against_article(runs, scrape, before, twin).set_index("claim")
    reproduced = {c for c in table.index if table.loc[c, "verdict"] == "reproduced"}
    assert reproduced == {
        *("after.throughput.32", "after.cv", "after.p95.32"),
        *("after.derived.gain", "after.derived.output_rate", "after.derived.presented_rate"),
    }
    assert table.loc["scrape.running", "verdict"] == "not comparable"
    assert "by construction" in table.loc["scrape.waiting", "reason"]


def test_every_figure_is_drawn_and_says_its_target(twin: Study, runs: list[Record], scrape: Record) -> None:
    for figure, alt in (
        (propagation_scrape.scrape_figure(scrape, twin), propagation_scrape.scrape_alt(scrape, twin)),
        (token_rates.rates_figure(runs, twin), token_rates.rates_alt(runs, twin)),
    ):
        assert len(plots.png(figure)) > 8_000
        assert "twin (modelled times)" in alt


def test_the_table_of_runs_names_seeds_and_lengths(runs: list[Record]) -> None:
    table = propagation_page.runs_table(runs)
    assert list(table["seed"]) == [1, 2, 3]
    assert all(" to " in text for text in table["output tokens, mean (least to most)"])


def test_on_the_twin_what_could_not_come_out_otherwise_is_listed(twin: Study, tmp_path: Path) -> None:
    modelled = propagation_page.construction_table(twin)["how"]
    assert modelled["running = N, waiting = 0"] == "by construction"
    assert modelled["throughput and p95"] == "predicted"
    real = propagation_page.construction_table(study_of(tmp_path, "local", "full"))["how"]
    assert real["running = N, waiting = 0"] == "measured"
    assert real["output tokens per answer"] == "measured"


# ---- made by hand ----------------------------------------------------------------------------------------


def by_hand(**values: float | None) -> Record:
    found = level(32, 5.0, output_tokens=100.0)
    metrics = [
        *found.body["metrics"],
        *(
            {"name": n, "stat": "count", "unit": "tokens", "value": v, "n": None, "tag": "measured"}
            for n, v in values.items()
        ),
    ]
    return replace(found, body={**found.body, "metrics": metrics, "results": {}})


def test_a_rate_is_the_counter_over_the_time_of_the_run() -> None:
    record = by_hand(generation_tokens=15_000.0)  # 150 requests at 5 req/s: 30 s
    assert token_rates.rate(record, "output") == 500
    assert token_rates.client_rate(record, "output") == 500


def test_without_counters_the_answers_say_what_they_can_and_computed_is_missing(twin: Study) -> None:
    record = by_hand(generation_tokens=None)
    assert token_rates.rate(record, "output") is None
    assert token_rates.rates([record], "output").mean == 500
    assert token_rates.rates([record], "prompt, computed").mean is None
    assert "cannot be seen" in token_rates.rates_sentence([record])
    assert token_rates.rates_table([record]).loc["prompt, computed", "tok/s, by the server"] == "—"
    assert len(plots.png(token_rates.rates_figure([record], twin))) > 5_000


def test_without_metrics_the_scrape_is_not_observable(twin: Study) -> None:
    record = by_hand()
    assert "not observable" in propagation_scrape.scrape_sentence(record, twin)
    table = propagation_scrape.scrape_table(record, twin)
    assert set(table["one scrape"]) == {"—"}
    assert set(table["how it came about"]) == {"missing"}


def test_one_run_has_no_variation(twin: Study) -> None:
    assert "no variation" in propagation_page.variation_sentence([level(32, 6.8)], twin)


def test_another_concurrency_is_not_compared_and_says_why(tmp_path: Path) -> None:
    local = study_of(tmp_path, "local", "quick")
    few = [replace(r, body={**r.body, "results": {}}) for r in (level(16, 1.5), level(16, 1.6))]
    table = propagation_page.against_article(few, few[0], None, local).set_index("claim")
    assert table.loc["after.cv", "verdict"] == "not measured"
    assert "at 16 in flight here, not at 32" in table.loc["after.cv", "reason"]
