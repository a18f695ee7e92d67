"""What a condition takes and costs, beside what it gets right: from the answers the page was judged on."""

import pytest
from test_heldout import found, study

from nlqlib.experiments import heldout_served as served
from nlqlib.experiments.heldout import Found, rows
from nlqlib.experiments.study import Study

__all__ = ["found", "study"]


def test_every_condition_that_must_answer_and_asks_a_model_has_a_row(found: Found, study: Study) -> None:
    names = served.served_table(found, study).index.get_level_values("condition")
    assert set(names) == set(found["dev"]) - {"clarifier", "rules_only", "majority"}


def test_kinds_rows_recall_times_tokens_and_cut_answers_are_those_of_the_report(
    found: Found, study: Study
) -> None:
    table = served.served_table(found, study)
    row = table.loc[("dev", "guardrail")]
    # everything is taken for a ranking: one of the four is one, and the guard can reach one breakdown more
    assert row["raw kind"].endswith("1 of 4") and row["recall over fixable"].endswith("1 of 2")
    assert row["cut answers"] == 0
    tokens = [r["output_tokens"] for r in rows(found["dev"]["guardrail"])]
    assert row["output tokens"] == f"{sum(tokens) / 4:.0f}"
    assert 0 < float(row["p50 (s)"]) <= float(row["p95 (s)"])
    # one prompt was asked once: its conditions share what the answers took
    shared = ["p50 (s)", "p95 (s)", "output tokens", "cut answers", "USD per 1,000"]
    assert (row[shared] == table.loc[("dev", "baseline"), shared]).all()


def test_the_cost_is_that_of_the_accelerator_at_the_measured_concurrency(found: Found, study: Study) -> None:
    cost = float(served.served_table(found, study).loc[("dev", "baseline"), "USD per 1,000"])
    spent = [r["requests"][0]["end_s"] - r["requests"][0]["start_s"] for r in rows(found["dev"]["baseline"])]
    assert cost == pytest.approx(sum(spent) / 4 / 2 / 3600 * 1000, rel=0.01)  # 2 in flight, a dollar an hour
    assert "2 in flight" in served.served_sentence(found, study)


def test_another_machine_than_the_one_priced_has_no_cost(found: Found) -> None:
    assert served.service_cost(served.service_here(), found["dev"]["baseline"], "local").value is None


def test_the_table_names_how_its_times_came_about_and_what_its_sets_count_as(
    found: Found, study: Study
) -> None:
    told = served.served(found, study).table
    assert "modelled times" in told.caption and "Counts as: dev: development." in told.reading
