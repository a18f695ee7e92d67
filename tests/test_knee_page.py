"""Tables, figures and sentences of the pages on knee and saturation, on levels made by hand."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from sweep_records import ARTICLE, dense, level, repeated

from nlqlib import article, plots
from nlqlib.artifacts import Store
from nlqlib.experiments import (
    bend_page,
    knee_article,
    knee_page,
    operating_page,
    saturation_page,
    sweep_page,
)
from nlqlib.experiments.captions import captioned
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import WINDOW_LENGTH, broken, places, rows
from nlqlib.serving.target import open_target


@pytest.fixture
def twin(tmp_path: Path) -> Study:
    return Study("05_knee", open_target("twin"), "full", "wire", Store(tmp_path))


@pytest.fixture
def local(tmp_path: Path) -> Study:
    return Study("05_knee", open_target("local"), "quick", "wire", Store(tmp_path))


def texts(figure: Figure) -> str:
    return " | ".join(t.get_text() for ax in figure.axes for t in ax.texts)


# ---- levels ----------------------------------------------------------------------------------------------


def test_repeats_are_pooled_with_a_t_interval() -> None:
    [place] = places([r for r in repeated() if r.params["concurrency"] == 12])
    assert (place.concurrency, place.runs) == (12, 3)
    assert place.x_run == pytest.approx(3.19)
    # t(0.975, 2) = 4.303, sd = 0.0319
    assert place.x_run_interval.high - place.x_run == pytest.approx(4.3027 * 0.0319 / 3**0.5, rel=1e-3)


def test_two_repeats_have_no_interval() -> None:
    [place] = places([level(8, 2.2, repeat=1), level(8, 2.3, repeat=2)])
    assert place.x_run == pytest.approx(2.25)
    assert place.x_run_interval is None


def test_a_steady_throughput_missing_in_one_repeat_is_missing_in_their_mean() -> None:
    [place] = places([level(8, 2.2, repeat=1, x_window=2.3), level(8, 2.3, repeat=2, x_window=None)])
    assert place.x_window is None
    assert place.x == place.x_run


def test_a_broken_rule_voids_a_level_but_a_short_window_does_not() -> None:
    assert not broken(level(8, 2.2, broken=[WINDOW_LENGTH]))
    [foreign] = broken(level(8, 2.2, broken=["foreign traffic"]))
    assert foreign.rule == "foreign traffic"
    assert not rows([level(8, 2.2, broken=["foreign traffic"])])["valid"].any()


def test_failures_stand_beside_throughput_by_outcome() -> None:
    table = sweep_page.sweep_table([level(8, 2.2, failed={"timeout": 2, "http_503": 1})])
    assert table.loc[8, "failed"] == "2 timeout, 1 http_503"
    assert table.loc[8, "ok"] == 147


def test_a_missing_value_is_a_dash_never_zero() -> None:
    table = sweep_page.sweep_table([level(8, None, None)])
    assert table.loc[8, "X run (req/s)"] == "—"
    assert table.loc[8, "running, mean (max)"] == "— (—)"


def test_a_rule_is_counted_over_levels_and_named_where_it_broke() -> None:
    table = sweep_page.validity_table([level(8, 2.2), level(16, 4.0, broken=["foreign traffic"])])
    assert table.loc["foreign traffic", "broken"] == 1
    assert table.loc["foreign traffic", "broken at"] == "16"
    assert table.loc[WINDOW_LENGTH, "held"] == 2


def test_more_than_linear_growth_breaks_a_rule_of_the_sweep() -> None:
    [rule] = sweep_page.sanity([level(1, 0.3), level(8, 2.8)])
    assert rule.ok is False
    assert rule.value == pytest.approx(2.8 / 2.4)


def test_the_articles_rows_that_break_n_over_x_below_p95_are_exactly_those_with_drain() -> None:
    table = sweep_page.article_sanity(zip(bend_page.ARTICLE_X, bend_page.ARTICLE_P95, strict=True))
    failing = set(table.index[table["N / X ≤ p95"] != "holds"])
    wanted = {"dense.throughput.18", "after.throughput.32"}
    assert failing == wanted | {f"repeated.throughput.{n}" for n in (16, 20, 24)}


# ---- the bend --------------------------------------------------------------------------------------------


def test_the_articles_own_sweeps_bend_near_sixteen() -> None:
    found = bend_page.bend([*dense(), *repeated()])
    assert found.column == "x_window"
    assert found.knee.interval.low <= 16 <= found.knee.interval.high
    assert found.law.sigma == pytest.approx(0.012, abs=0.006)


def test_whole_runs_are_fitted_where_one_level_has_no_steady_window() -> None:
    assert bend_page.bend(dense(windows=False)).column == "x_run"


def test_a_voided_level_is_not_fitted() -> None:
    found = bend_page.bend([*dense(), level(48, 1.0, x_window=1.0, broken=["foreign traffic"])])
    assert found.points["concurrency"].max() == 32


def test_linear_growth_says_no_knee() -> None:
    straight = [level(n, 0.3 * n, x_window=0.3 * n) for n in (1, 4, 8, 16, 24, 32)]
    assert bend_page.bend_sentence(straight).startswith("No knee")
    assert "knee" not in texts(bend_page.bend_figure(straight, _twin()))


def test_too_few_levels_say_cannot_tell() -> None:
    assert bend_page.bend_sentence([level(1, 0.3), level(8, 2.2)]).startswith("Cannot tell")
    assert bend_page.bend_table([]).loc["knee", "steady throughput"] == "cannot tell"


def _twin() -> Study:
    return Study("05_knee", open_target("twin"), "full", "wire", Store(Path("unused")))


def test_the_figure_marks_the_knee_and_names_the_target(twin: Study) -> None:
    both = [*dense(), *repeated()]
    figure = bend_page.bend_figure(both, twin)
    at = bend_page.bend(both).knee.at
    assert f"knee {at:.1f}" in texts(figure)
    assert "article" in texts(figure)
    assert plots.target_note("twin", ["modelled"]) in {t.get_text() for t in figure.texts} | {
        figure._supxlabel.get_text()
    }
    assert f"{at:.1f} requests in flight" in bend_page.bend_alt(both, twin)


def test_the_article_is_not_drawn_over_another_workload(local: Study) -> None:
    figure = sweep_page.load_figure(dense(), local, bend_page.ARTICLE_X, bend_page.ARTICLE_P95)
    assert "article" not in texts(figure)


# ---- efficiency, cost, policies --------------------------------------------------------------------------


def test_efficiency_and_cost_are_the_articles_from_its_own_throughputs() -> None:
    table = operating_page.efficiency_table(dense(), 1.0)
    assert table.loc[16, "efficiency, run"] == "85%"
    assert table.loc[16, "$ per 1,000 valid answers, run"] == "0.066"
    assert operating_page.efficiency_table(dense(), 2.0).loc[16, "$ per 1,000 valid answers, run"] == "0.132"


def test_policies_choose_what_the_article_reads_off_its_curve() -> None:
    both = [*dense(), *repeated()]
    chosen = operating_page.choices(both, [3.0, 4.0, 4.5, 5.0], 1.0)
    told = operating_page.policy_rows(chosen)["operate at"].tolist()
    assert told == ["none meets it", 16, 24, 32, 32, 24]  # three repeats of 24 lie below 5 s to their end


def test_a_careful_policy_judges_by_the_interval_that_the_figures_draw() -> None:
    """Three repeats of 4.2, 4.5 and 4.8 s: t interval up to 5.25 s, though no answer took 5."""
    told = enumerate((4.2, 4.5, 4.8))
    wide = [level(16, 4.0, p95, sweep="repeated", repeat=r, x_window=4.0) for r, p95 in told]
    [point] = operating_page.operating_points(wide, 1.0)
    assert point.p95_s == pytest.approx(4.5)
    assert point.p95_high_s == pytest.approx(4.5 + 4.303 * 0.3 / 3**0.5, abs=0.01)
    assert [c.point is None for c in operating_page.choices(wide, [5.0], 1.0)] == [False, False, True]


def test_one_throughput_serves_all_levels_of_a_policy() -> None:
    some = [level(1, 0.30, x_window=0.31), level(8, 2.2, x_window=2.3), level(32, 6.0)]
    assert [p.throughput for p in operating_page.operating_points(some, 1.0)] == [0.30, 2.2, 6.0]
    assert "window at 32 in flight is too short" in operating_page.throughput_used(some)
    assert [p.throughput for p in operating_page.operating_points(some[:2], 1.0)] == [0.31, 2.3]


def test_the_cautious_policy_needs_an_interval() -> None:
    last = operating_page.choices(dense(), [5.0], 1.0)[-1]
    assert last.point is None
    assert "lack a number" in last.reason


def test_the_policy_sentence_names_what_none_meets() -> None:
    chosen = operating_page.choices(dense(), [3.0, 4.0, 5.0], 1.0)
    said = operating_page.policy_sentence(chosen)
    assert "16 for p95 below 4 seconds" in said
    assert "None meets: p95 below 3 seconds" in said


def test_efficiency_without_a_level_at_one_is_missing() -> None:
    alone = [level(8, 2.2), level(16, 4.2)]
    assert operating_page.efficiency_table(alone, 1.0).loc[8, "efficiency, run"] == "—"
    assert "missing" in operating_page.efficiency_sentence(alone, 1.0)


def test_the_figure_of_cost_draws_the_article_only_at_its_price(twin: Study) -> None:
    at_one = texts(operating_page.efficiency_figure(dense(), twin, 1.0))
    at_two = texts(operating_page.efficiency_figure(dense(), twin, 2.0))
    assert at_one.count("article") == 2
    assert at_two.count("article") == 1


# ---- drain, words, calibrated twin -----------------------------------------------------------------------


def test_drain_is_the_run_over_the_steady_throughput() -> None:
    records = [level(1, 0.31, x_window=0.31), level(32, 6.5, x_window=6.8)]
    short = [level(32, 6.2, sweep="short")]
    table = knee_page.drain_table(records, short)
    assert table.loc[32, "X run / X steady"] == "0.956"
    assert table.loc[32, "X run of 150 requests / X steady"] == "0.912"
    assert "reaches 95.6% of the steady throughput" in knee_page.drain_sentence(records, short)
    assert "31% of linear is lost" in knee_page.drain_sentence(records, short)


def test_without_a_steady_window_nothing_is_said_of_drain() -> None:
    assert "No steady window" in knee_page.drain_sentence(dense(windows=False), [])


def test_words_are_compared_where_there_are_recorded_ones() -> None:
    drawn, recorded = [level(8, 2.2, output_tokens=115.0)], [level(8, 1.4, output_tokens=151.0)]
    assert "2.20 req/s (115 tokens)" in knee_page.words_sentence(drawn, recorded)
    assert "1.40 req/s (151 tokens)" in knee_page.words_sentence(drawn, recorded)
    assert "no recorded lengths" in knee_page.words_sentence(drawn, [])


def test_a_calibrated_twin_stands_beside_with_its_error(local: Study) -> None:
    records = [level(4, 1.0, 4.0), level(16, 2.0, 8.0)]
    says = [(4, {"throughput_run": 1.0, "p95_s": 4.0}, "fitted"), (16, {"throughput_run": 2.1}, "predicted")]
    table = knee_page.calibrated_beside(local, records, says)
    assert table.loc[16, "X run (req/s), error"] == "+5.0%"
    assert table.loc[16, "p95 (s), twin"] == "—"
    assert table.loc[4, "the twin's row is"] == "fitted"
    assert "off by 5.0% on average" in knee_page.calibrated_sentence(says, records)


def test_without_a_calibrated_twin_the_reason_stands_there(local: Study, twin: Study) -> None:
    assert "calibrate" in knee_page.calibrated_beside(local, dense(), None).iloc[0, 0]
    assert "this target is the twin" in knee_page.calibrated_beside(twin, dense(), None).iloc[0, 0]


# ---- against the article ---------------------------------------------------------------------------------


def test_rows_the_twin_was_fitted_on_are_tagged_so(twin: Study, local: Study) -> None:
    assert [knee_article.tag(twin, n) for n in (8, 16, 18, 32, 40)] == [
        *("fitted", "predicted", "fitted", "predicted", "fitted")
    ]
    assert knee_article.tag(twin, 8, "p95_s") == "predicted"
    assert knee_article.tag(local, 8) == "measured"


def test_every_result_the_article_has_for_the_page_is_judged(twin: Study) -> None:
    both = [*dense(), *repeated()]
    chosen = operating_page.choices(both, [4.0, 4.5, 5.0], 1.0)
    table = knee_article.against_article({"dense": dense(), "repeated": repeated()}, twin, chosen)
    wanted = {c.id for c in article.claims() if c.notebook == "05_knee" and c.is_result}
    assert wanted <= set(table["claim"])
    assert set(table["verdict"]) == {"reproduced"}


def test_every_result_beyond_the_limit_is_judged(twin: Study) -> None:
    records = [
        level(n, x, p95, p50=p50, sweep="beyond")
        for n, x, p50, p95 in ((32, 6.63, 4.37, 5.16), (40, 6.94, 4.44, 8.54), (48, 6.93, 4.57, 8.67))
    ]
    table = knee_article.beyond_article(records, twin, 32.0)
    wanted = {c.id for c in article.claims() if c.notebook == "06_saturation" and c.is_result}
    assert set(table["claim"]) == wanted
    assert set(table["verdict"]) == {"reproduced"}


def test_another_engine_is_not_judged_by_the_articles_speed(local: Study) -> None:
    table = knee_article.against_article({"dense": dense(), "repeated": []}, local, ())
    assert set(table["verdict"]) <= {"not comparable"}


# ---- saturation ------------------------------------------------------------------------------------------


def beyond() -> list:
    """24 and 32 still gain, 40 and 48 do not, and wait; three repeats each."""
    shape = {24: (5.5, 4.4, 0, 24), 32: (6.8, 4.8, 0, 32), 40: (6.9, 8.5, 7.8, 32), 48: (6.9, 8.9, 15.6, 32)}
    return [
        level(
            n,
            x + 0.01 * (r - 2),
            p95,
            sweep="beyond",
            repeat=r,
            x_window=x,
            running=running,
            running_max=running,
            waiting=waiting,
            waiting_max=waiting + 0.2,
            queue=waiting / x,
        )
        for n, (x, p95, waiting, running) in shape.items()
        for r in (1, 2, 3)
    ]


def test_saturation_is_where_gains_end_and_p95_still_rises() -> None:
    found = saturation_page.saturated(beyond())
    assert (found.status, found.at) == ("saturated", 40)
    assert "saturated at 40" in saturation_page.verdict_sentence(beyond())


def test_a_single_run_of_each_level_cannot_tell() -> None:
    once = [r for r in beyond() if r.params["repeat"] == 1]
    assert saturation_page.saturated(once).status == "cannot tell"
    assert "cannot tell" in saturation_page.verdict_sentence(once)


def test_the_queue_holds_what_exceeds_the_limit() -> None:
    table = saturation_page.queue_table(beyond(), 32)
    assert table["waiting foretold, at most"].tolist() == [0, 0, 8, 16]
    assert table.loc[40, "X · queue time"] == "7.8"
    assert saturation_page.queue_sentence(beyond(), 32).startswith("Never more than 32 sequences ran")


def test_a_target_without_metrics_says_the_limit_is_not_observable(local: Study) -> None:
    blind = [level(n, 6.9, 8.0) for n in (32, 40)]
    assert "not observable" in saturation_page.queue_sentence(blind, 32)
    assert saturation_page.queue_table(blind, 32).loc[40, "queue time, mean (s)"] == "—"
    assert "not observed" in texts(saturation_page.queue_figure(blind, local, 32))


def test_the_plateau_and_the_tail_are_told_with_their_numbers() -> None:
    said = saturation_page.beyond_sentence(beyond(), 32)
    assert "changes by +1.5%" in said
    assert "1.9 times as long" in said
    assert saturation_page.plateau_table(beyond(), 32).loc[40, "p95 / p95 at 32"] == "1.77"


def test_pages_survive_an_empty_sweep(twin: Study) -> None:
    assert sweep_page.sweep_table([]).empty
    assert sweep_page.validity_table([]).empty
    assert knee_page.repeats_table([]).empty
    assert "No level was repeated" in knee_page.repeats_sentence([], twin)
    assert saturation_page.queue_table([], 32).empty


# ---- captions --------------------------------------------------------------------------------------------


def test_a_caption_names_target_and_tag_and_escapes(twin: Study, local: Study) -> None:
    shown = captioned(sweep_page.sweep_table(dense()), twin, "a < b", "It says so.")
    page = shown._repr_html_()
    assert "<caption>a &lt; b. Target: twin (modelled times).</caption>" in page
    assert "<p>It says so.</p>" in page
    assert str(ARTICLE[16][0]) in page
    assert "Target: local (measured)." in captioned(rows(dense()), local, "x").caption
