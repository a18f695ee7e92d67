"""How the prefix page reads its cells: prices, the difference taken apart, figures, and the article."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import prefix_world
import pytest
from matplotlib.figure import Figure

from nlqlib.artifacts import Record, Store
from nlqlib.experiments import prefix_article, prefix_cost, prefix_figures, prefix_price
from nlqlib.experiments import prefix_page as page
from nlqlib.experiments.prefix_counted import HITS_AS_PLANNED
from nlqlib.experiments.prompt_variants import COLD, DIVERSE, LEADING, PARTIAL, SCENARIOS, SHORT, WARM
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target
from nlqlib.twin.model import load


@pytest.fixture(scope="module")
def twin() -> Study:
    return prefix_world.twin()


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(prefix_world.records())


@pytest.fixture
def local(tmp_path: Path) -> Study:
    return Study("08_prefix_cache", open_target("local"), "quick", "wire", Store(tmp_path))


def texts(figure: Figure) -> str:
    return " | ".join(t.get_text() for ax in figure.axes for t in ax.texts)


# ---- tables ----------------------------------------------------------------------------------------------


def test_every_cell_agrees_and_the_table_says_so(records: list[Record]) -> None:
    table = page.rates_table(records)
    assert list(table.index) == [*SCENARIOS, SHORT]
    assert set(table["equal"]) == {"yes"}
    assert page.rates_sentence(records).startswith("6 of 6 cells")
    assert table.loc[COLD, "hit rate, counted"] == "0.00%"
    assert table.loc[COLD, "article"] == "—"


def test_latencies_are_shown_for_the_five_scenarios_alone(records: list[Record]) -> None:
    cells = page.study_cells(records)
    assert list(page.latency_table(cells).index) == list(SCENARIOS)
    assert "TTFT rises from" in page.latency_sentence(cells)
    assert "only the client's latency" in page.latency_sentence([])


def test_the_page_says_which_requests_find_nothing(records: list[Record]) -> None:
    assert page.prompts_sentence(records).startswith("Two ways to a lower hit rate")
    found = {page.scenario(r): page.whole(r) for r in records}
    assert found[COLD] == (40, 40) and found[DIVERSE][0] == 0 and found[WARM][0] == 0
    none, n = found[LEADING]
    assert n / 2 < none < n


def test_the_workload_says_what_is_drawn_and_what_is_scaled_down(
    records: list[Record], twin: Study, local: Study
) -> None:
    assert "drawn (modelled)" in page.workload_sentence(twin, records)
    assert "scaled down" in page.workload_sentence(local, records)


def test_rules_are_listed_by_scenario_and_none_is_broken(records: list[Record]) -> None:
    table = page.validity_table(records)
    assert set(table["broken at"]) == {"—"}
    assert table.loc[HITS_AS_PLANNED, "held"] == 6


# ---- the price of a token --------------------------------------------------------------------------------


def test_a_computed_token_costs_about_what_the_article_shows_and_a_cached_one_next_to_nothing(
    records: list[Record], twin: Study
) -> None:
    found = prefix_price.costs(records)
    assert found is not None and found.cached_s is not None
    assert found.computed_s == pytest.approx(117e-6, rel=0.1)
    assert abs(found.cached_s) < 0.05 * found.computed_s
    assert found.cached_interval is not None and found.cached_interval.low < 0 < found.cached_interval.high
    assert len(prefix_cost.cost_table(records, twin)) == 2
    sentence = prefix_cost.cost_sentence(records, twin)
    assert "fitted to the article's prefill" in sentence and WARM in sentence and DIVERSE in sentence


def test_every_prompt_token_costs_its_kv_bytes_in_every_step(records: list[Record]) -> None:
    read = load("l4-qwen2.5-3b").step_time.kv_distinct_s
    found = prefix_price.gap_cost(records)
    assert found is not None and found.told
    assert found.value_s == pytest.approx(read, rel=0.05)


def test_a_cached_tokens_price_is_known_up_to_what_few_computed_ones_cost(records: list[Record]) -> None:
    """A token fewer to compute: it hides behind the weights on the twin, or is worth 117 µs by the line."""
    found = prefix_price.cached_cost(records)
    assert found is not None and found.interval is not None and found.told
    assert found.interval.low < 1.53e-7 < found.value_s < 2.5e-7


def on(records: list[Record], **means: Mapping[str, float]) -> list[Record]:
    """`records` with other means of the server: metric → scenario → value."""
    found = []
    for record in records:
        metrics = [dict(m) for m in record.body["metrics"]]
        for metric in metrics:
            if metric["stat"] == "mean" and metric["name"] in means:
                metric["value"] = means[metric["name"]][page.scenario(record)]
        found.append(replace(record, body={**record.body, "metrics": metrics}))
    return found


SCATTERED = dict(zip((*SCENARIOS, SHORT), (0.1352, 0.1357, 0.1371, 0.1430, 0.1309, 0.1302), strict=True))
"""Seconds between output tokens as two cores showed them: a prompt computed whole has no longer gap."""


def test_gaps_that_scatter_tell_no_price_and_name_no_cause(records: list[Record], twin: Study) -> None:
    sentence = prefix_cost.cost_sentence(on(records, itl=SCATTERED), twin)
    assert "What a longer prompt adds to decode cannot be told from nothing here" in sentence
    assert "attention reads" not in sentence
    assert "attention reads it again for every output token" in prefix_cost.cost_sentence(records, twin)


def test_longer_prompts_with_shorter_gaps_are_laid_to_no_cache(records: list[Record], twin: Study) -> None:
    falling = dict.fromkeys(SCENARIOS, 0.027) | {SHORT: 0.028}
    slightly = {name: gap + i * 1e-7 for i, (name, gap) in enumerate(falling.items())}
    said = prefix_cost.cost_sentence(on(records, itl=slightly), twin)
    assert "something else differs between the cells" in said


def test_without_the_server_no_token_is_priced(local: Study) -> None:
    assert prefix_price.costs([]) is None
    assert prefix_price.cached_cost([]) is None and prefix_price.gap_cost([]) is None
    assert "not observable here" in prefix_cost.cost_sentence([], local)


# ---- the client's difference -----------------------------------------------------------------------------


def test_every_difference_is_the_sum_of_its_parts(records: list[Record]) -> None:
    found = prefix_cost.differences(records)
    assert [a.name for a in found] == [PARTIAL, DIVERSE, LEADING, COLD]
    for apart in found:
        parts = [apart.found.ttft_s, apart.found.decode_s, apart.found.outside_s, apart.found.statistic_s]
        assert sum(p for p in parts if p is not None) == pytest.approx(apart.found.p50_s)


def test_the_median_of_the_mixed_scenario_moves_further_than_the_servers_mean(records: list[Record]) -> None:
    lead = next(a.found for a in prefix_cost.differences(records) if a.name == LEADING)
    assert lead.statistic_s is not None and lead.statistic_s > 0.02


def test_the_articles_own_difference_is_shown_only_where_it_compares(
    records: list[Record], twin: Study, local: Study
) -> None:
    ours = prefix_cost.difference_table(records, twin)
    assert ours.loc[f"article, {DIVERSE}", "client p50 later by (ms)"] == "+353.0"
    assert ours.loc[f"article, {DIVERSE}", "= TTFT, server mean"] == "+172.0"
    assert ours.loc[f"article, {DIVERSE}", "+ median less mean"] == "—"
    assert not any("article" in name for name in prefix_cost.difference_table(records, local).index)
    assert "2.1 and 1.4 times" in prefix_cost.difference_sentence(records, twin)
    assert "article" not in prefix_cost.difference_sentence(records, local)


# ---- figures ---------------------------------------------------------------------------------------------


def test_the_rates_figure_has_a_row_for_each_scenario_and_says_both_rates(
    records: list[Record], twin: Study
) -> None:
    said = texts(prefix_figures.rates_figure(records, twin))
    assert said.count("planned") == 5 and "planned 0.00%, counted 0.00%" in said
    assert "6 of 6 cells" in prefix_figures.rates_alt(records, twin)


def test_the_ttft_figure_draws_the_articles_points_on_the_twin_only(
    records: list[Record], twin: Study, local: Study
) -> None:
    diamonds = [
        [line.get_marker() for line in prefix_figures.ttft_figure(records, s).axes[0].lines].count("D")
        for s in (twin, local)
    ]
    assert diamonds[0] >= 1 and diamonds[1] == 0
    assert "µs of TTFT" in prefix_figures.ttft_alt(records, twin)


def test_without_server_values_the_ttft_figure_says_so(local: Study) -> None:
    assert page.NOT_SEEN in texts(prefix_figures.ttft_figure([], local))


def test_every_request_is_drawn(records: list[Record], twin: Study) -> None:
    frame = prefix_figures.requests_frame(records, twin)
    assert len(frame) == 150 + 60 + 60 + 80 + 40
    assert prefix_figures.requests_figure(records, twin).axes[0].get_xlim()[0] > 2
    assert prefix_figures.requests_alt(records, twin).count(" s") >= 5
    assert "51 of 80" in prefix_figures.requests_reading(records)


def test_each_figure_is_read_in_a_sentence_of_its_own(records: list[Record]) -> None:
    assert prefix_figures.rates_reading(records).startswith("From 99.6% (warm shared prefix) to 0.0%")
    assert "of the line" in prefix_figures.ttft_reading(records)
    assert prefix_figures.ttft_reading([]) == "No time to first token is observable here."


# ---- against the article ---------------------------------------------------------------------------------


def test_every_number_of_both_tables_is_beside_ours(records: list[Record], twin: Study) -> None:
    table = prefix_article.against_article(records, twin).set_index("claim")
    assert len(table) == 22
    assert "not measured" not in set(table["verdict"])


def test_predictions_keep_the_bounds_and_what_was_fitted_is_named(records: list[Record], twin: Study) -> None:
    table = prefix_article.against_article(records, twin).set_index("claim")
    predicted = table[table["tag"] == "predicted"]
    assert {"prefix.diverse.ttft", "prefix.leading_unique.ttft", "prefix.leading_unique.prefill"} <= set(
        predicted.index
    )
    assert set(predicted["verdict"]) == {"reproduced"}
    assert set(table.loc[["prefix.shared.prefill", "prefix.diverse.prefill"], "tag"]) == {"fitted"}
    assert set(table.loc[[i for i in table.index if "hit_rate" in i], "verdict"]) == {"not comparable"}


def test_a_measured_endpoint_has_nothing_fitted(local: Study) -> None:
    assert prefix_article.how(local, WARM, "ttft") == "measured"
    assert not prefix_article.fitted(local, WARM, "prefill")


def test_the_sentence_says_what_a_verdict_on_the_twin_means(
    records: list[Record], twin: Study, local: Study
) -> None:
    said = prefix_article.article_sentence(records, twin)
    assert "They are predictions" in said
    assert "prefill would be 286 ms, +10.3% from the article's 259 ms" in said
    assert prefix_article.article_sentence(records, local).startswith("No number")
