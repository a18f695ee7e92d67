"""Signals of KV pressure that are unseen, gauges that lag, and which saving is the larger one."""

import pytest
from arm_records import arm

from nlqlib.experiments import kv_savings, kv_signals


def test_a_run_of_which_one_signal_is_unseen_rules_nothing_out() -> None:
    half = arm(16, preemptions__count=0, kv_usage__max=0.04)
    said = kv_signals.signals_sentence(half)
    assert said.startswith(
        "KV pressure does not show, but is partly unseen: nothing was preempted and the cache"
    )
    assert "not told is whether requests wait for room in the KV cache" in said
    one = kv_signals.signals_sentence(arm(16, preemptions__count=0))
    assert "nothing was preempted;" in one and "whether the KV cache is nearly full and whether" in one
    assert "ruled out" not in said + one


def test_a_run_whose_signals_are_all_silent_rules_it_out_with_each_of_them() -> None:
    quiet = arm(16, preemptions__count=0, kv_usage__max=0.04, waiting=0.0)
    said = kv_signals.signals_sentence(quiet)
    assert "ruled out: nothing was preempted, the cache was never nearly full and nothing waited" in said


def apart_word(**values: float | None) -> str:
    return kv_signals.judged(kv_signals.EXPLANATIONS[-1], arm(16, **values))  # type: ignore[arg-type]


def test_the_fullest_moment_and_not_the_mean_says_whether_requests_meet() -> None:
    """The real engine at 16: the gauges show 3.4 on average and 16 at most, the timers 16."""
    met = {"running": 3.4, "waiting": 0.0, "running__max": 16.0, "waiting__max": 0.0}
    assert apart_word(**met) == "rejected"
    held = {"running": 3.9, "waiting": 0.0, "running__max": 4.0}
    assert apart_word(**held, throughput_run=0.25, engine_e2e=16) == "NOT rejected"


def test_where_the_gauges_lag_and_never_show_all_nobody_can_tell() -> None:
    lagging = {
        "running": 3.4,
        "waiting": 0.0,
        "running__max": 9.0,
        "throughput_run": 0.65,
        "engine_e2e": 24.3,
    }
    assert apart_word(**lagging) == kv_signals.UNSEEN
    assert apart_word() == kv_signals.UNSEEN


def test_which_saving_is_larger_follows_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The article credits the attention; sharing saves more." in kv_savings.savings_sentence()
    sizes = dict(
        zip(kv_savings.TITLES.values(), ((1.0, 0.1), (4.0, 0.4), (8.0, 0.8), (32.0, 3.2)), strict=True)
    )
    monkeypatch.setattr(kv_savings, "savings", lambda *_: sizes)
    assert "it does save more than sharing" in kv_savings.savings_sentence()
