"""Two windows compared run by run: the drift of a machine may not pass for what a window costs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from context_world import answer, local_study, point

from nlqlib.artifacts import Record
from nlqlib.experiments import context_difference_page as difference
from nlqlib.experiments.context import Deployment, Design

WINDOWS = (4096, 8192)


def _swept(
    window: int, latency_s: float, failed: int = 0, drift: Sequence[float] = (0.0, 0.001, 0.002)
) -> Deployment:
    """Levels of 1 and 4, as many runs as `drift` has shares of more latency."""

    def one(n: int, repeat: int, more: float) -> Record:
        each = latency_s * (1 + more)
        rows = [
            answer(
                f"{i}", "length" if i < failed else "ok", start_s=(i // n) * each, end_s=(i // n + 1) * each
            )
            for i in range(20)
        ]
        return point(rows, concurrency=n, repeat=repeat, window=window)

    return Deployment(window, tuple(one(n, r, more) for r, more in enumerate(drift) for n in (1, 4)))


def test_a_window_that_costs_is_found(tmp_path: Path) -> None:
    local, plan = local_study(tmp_path), Design(WINDOWS, (1, 4), 20)
    slower = {4096: _swept(4096, 2.0), 8192: _swept(8192, 2.2)}
    text = difference.free_sentence(local, slower, plan)
    assert text.startswith("With the larger window throughput is lower over all 2 concurrencies: -9.1%")
    assert "throughput at 4 is lower" in text and "p95 latency at 4 is higher" in text
    assert "By construction" not in text


def test_the_drift_of_a_machine_is_no_effect_of_the_window(tmp_path: Path) -> None:
    """As it was measured once: 5 % slower from run to run, A B B A."""
    local, plan = local_study(tmp_path), Design(WINDOWS, (1, 4), 20)
    same = {4096: _swept(4096, 2.0, drift=(0.0, 0.15)), 8192: _swept(8192, 2.0, drift=(0.05, 0.10))}
    text = difference.free_sentence(local, same, plan)
    assert "pair by pair -4.8%, +4.5%" in text and "None of 8 comparisons" in text
    table = difference.changes_table(difference.changed(local, same, plan), plan)
    assert set(table["reading"]) <= {"no difference shown", "the pairs disagree"}
    assert list(table.loc["all", "quantity"]) == ["throughput", "mean latency", "p95 latency"]
    assert table.loc["4", "pair by pair"].iloc[0] == "-4.8%, +4.5%"


def test_one_run_of_each_window_says_that_it_cannot_tell(tmp_path: Path) -> None:
    local, plan = local_study(tmp_path), Design(WINDOWS, (1, 4), 20)
    once = {4096: _swept(4096, 2.0, drift=(0.0,)), 8192: _swept(8192, 2.2, drift=(0.0,))}
    text = difference.free_sentence(local, once, plan)
    assert "At 1, 4 in flight there is one run of each window" in text and "lower" not in text
    assert "None of 2 shares of failed requests" in text and "comparisons" not in text
    table = difference.changes_table(difference.changed(local, once, plan), plan)
    timed = table[table["quantity"] != "failed"]
    assert set(timed["reading"]) == {"one run, cannot tell"} and set(timed["95 % interval"]) == {"—"}
    assert "all" not in table.index


def test_a_run_without_its_pair_is_left_out(tmp_path: Path) -> None:
    local, plan = local_study(tmp_path), Design(WINDOWS, (1, 4), 20)
    half = {4096: _swept(4096, 2.0, drift=(0.0, 0.0)), 8192: _swept(8192, 2.0, drift=(0.0, 0.0, 0.5))}
    assert {len(c.by_pair) for c in difference.changed(local, half, plan) if c.quantity != "failed"} == {2}


def test_windows_of_a_single_order_are_said_to_be_confounded_with_drift() -> None:
    def began(window: int, hours: Sequence[int]) -> Deployment:
        swept = _swept(window, 2.0, drift=[0.0] * len(hours)).sweep
        told = [f"2026-11-30T{hours[int(r.params['repeat'])]:02d}:00:00.000+00:00" for r in swept]
        return Deployment(
            window, tuple(replace(r, run={"started_at": t}) for r, t in zip(swept, told, strict=True))
        )

    plan = Design(WINDOWS)
    turns = {4096: began(4096, (9, 12)), 8192: began(8192, (10, 11))}
    assert "In 2 of 4 pairs" in difference.order_sentence(turns, plan)
    row = {4096: began(4096, (9, 10)), 8192: began(8192, (11, 12))}
    assert "the window of 4,096 was measured first" in difference.order_sentence(row, plan)
    back = {4096: began(4096, (11, 12)), 8192: began(8192, (9, 10))}
    assert "the window of 8,192 was measured first" in difference.order_sentence(back, plan)


def test_a_cut_answer_is_a_failure_in_the_comparison(tmp_path: Path) -> None:
    plan = Design(WINDOWS, (1, 4), 20)
    cut = {4096: _swept(4096, 2.0), 8192: _swept(8192, 2.0, failed=10)}
    lost = [c for c in difference.changed(local_study(tmp_path), cut, plan) if c.quantity == "failed"]
    assert [(c.before, c.after, c.reading) for c in lost] == [(0.0, 0.5, "higher")] * 2
