"""Repeats of levels: their spread says how large a gain is one; they are taken only where it is open."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nlqlib.analysis.diagnosis import diagnose
from nlqlib.analysis.diagnosis_burst import Burst
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.diagnosis_repeats import agreed, bursts, noise, pooled
from nlqlib.artifacts import Store
from nlqlib.experiments import diagnose as experiment
from nlqlib.experiments import diagnose_limits
from nlqlib.experiments.diagnose import Plan, pass_order, sweep
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target

SLOW = {1: (0.300, 0.270, 0.315), 4: (0.330, 0.290, 0.301)}
"""Requests per second of a serial endpoint on a machine that drifts by ten percent, three times each."""


def row(n: int, x: float, ends: tuple[float, ...] = (), **more: Any) -> SweepLevel:
    mean = n / x
    told = {"throughput_window": x, "throughput_run": x, "mean_s": mean, "p95_s": mean, **more}
    return SweepLevel(n, n=24, ok=24, sd_s=0.05 * mean, burst_s=ends, **told)


def serial(n: int, x: float) -> SweepLevel:
    """A level of a serial endpoint; its burst is answered in an order that the way has shuffled."""
    ends = tuple(k / x for k in (2, 1, 4, 3)) if n == 4 else ()
    return row(n, x, ends)


def levels(repeats: int) -> list[SweepLevel]:
    return [serial(n, xs[r]) for r in range(repeats) for n, xs in SLOW.items()]


# ---- the spread of repeats -------------------------------------------------------------------------------


def test_noise_is_half_a_t_interval_of_one_measurement() -> None:
    assert noise([row(1, x) for x in (0.9, 1.0, 1.1)]) == pytest.approx(0.1 * 4.303 / 2, rel=1e-3)
    assert noise([row(1, 1.0), row(4, 2.0)]) is None


def test_spreads_of_several_levels_are_pooled() -> None:
    both = [row(n, n * x) for n in (1, 4) for x in (0.9, 1.0, 1.1)]
    assert noise(both) == pytest.approx(0.1 * 2.776 / 2, rel=1e-3)


def test_a_gain_within_the_noise_of_repeats_is_no_gain() -> None:
    found = diagnose(levels(3))
    assert found.verdict == "serialised upstream" and not found.repeats_decide


def test_a_gain_beyond_the_noise_of_repeats_is_one() -> None:
    rows = [row(n, 0.3 * x * f) for f in (0.98, 1.0, 1.02) for n, x in ((1, 1), (2, 1.9), (4, 3.7), (8, 7))]
    assert diagnose(rows).verdict == "batching works"


def test_repeats_estimated_in_different_ways_count_alike() -> None:
    window, run = row(16, 0.3), row(16, 0.2, throughput_window=None)
    [one] = pooled([window, run, run])
    assert one.throughput == pytest.approx(0.7 / 3) and one.repeats == 3
    [same] = pooled([run, run])
    assert same.throughput_window is None and same.throughput == pytest.approx(0.2)


# ---- bursts ----------------------------------------------------------------------------------------------


def read(verdict: Any, at_once: int | None = None) -> Burst:
    return Burst(verdict, 8, 1.0, at_once, verdict)


def test_each_burst_of_the_widest_level_is_read_with_the_narrower_ones() -> None:
    rows = [row(4, 1.0, (1.0,) * 4), row(8, 1.0, (2.0,) * 8), row(8, 1.0, (3.0,) * 8), row(1, 1.0)]
    assert bursts(rows) == [[(1.0,) * 4, (2.0,) * 8], [(1.0,) * 4, (3.0,) * 8]]
    assert bursts([row(1, 1.0)]) == []


def test_the_clear_bursts_outvote_the_unclear_ones_and_count_the_step() -> None:
    found = agreed([read("unclear"), read("steps", 4), read("steps"), read("steps", 4)])
    assert found is not None and (found.verdict, found.at_once) == ("steps", 4)
    assert agreed([]) is None


def test_bursts_that_disagree_are_unclear() -> None:
    found = agreed([read("steps", 1), read("together")])
    assert found is not None and (found.verdict, found.at_once) == ("unclear", None)
    assert "disagree" in found.reason


# ---- the sweep takes repeats only where the verdict is open ----------------------------------------------


def study(folder: Path, **limits: int) -> Study:
    target = open_target("twin")
    return Study("diagnose", target.limited(**limits) if limits else target, "quick", "wire", Store(folder))


def places(records: Any) -> list[tuple[int, int]]:
    return [(int(r.params["concurrency"]), int(r.params["repeat"])) for r in records]


def test_a_verdict_that_is_clear_takes_no_repeats(tmp_path: Path) -> None:
    found = sweep(study(tmp_path, router=1), Plan((1, 4, 8), repeats=2))
    assert places(found.records) == [(1, 0), (4, 0), (8, 0)]


def open_until(passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict stays open for noise until every level was measured `passes` times."""
    real = experiment.verdict

    def verdict(swept: Any, *rest: Any) -> Any:
        many = len(swept.records) // 3
        return replace(real(swept, *rest), repeats_decide=many < passes)

    monkeypatch.setattr(experiment, "verdict", verdict)


def test_noise_is_answered_by_repeats_in_shuffled_order_until_it_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_until(2, monkeypatch)
    told: list[str] = []
    found = sweep(study(tmp_path, router=1), Plan((1, 2, 4), 12, repeats=4), told.append)
    assert sorted(places(found.records)) == sorted([(n, r) for n in (1, 2, 4) for r in (0, 1)])
    assert any("once more (1 of at most 4)" in line for line in told)
    assert {r.params["seed"] for r in found.records} == {0, 1}
    assert experiment.of_records(found.records).verdict == "serialised upstream"


def test_repeats_end_at_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_until(99, monkeypatch)
    found = sweep(study(tmp_path), Plan((1, 2, 4), 4, repeats=2))
    assert len(found.records) == 9


def test_the_order_of_repeats_follows_from_the_seed() -> None:
    plan = Plan((1, 2, 4, 8, 16))
    assert pass_order(plan, 0) == [1, 2, 4, 8, 16]
    assert pass_order(plan, 1) == pass_order(plan, 1) != pass_order(plan, 2)
    assert sorted(pass_order(plan, 1)) == [1, 2, 4, 8, 16]


def test_repeats_that_may_be_sent_count_against_the_limits(tmp_path: Path) -> None:
    once, more = Plan((1, 4)), Plan((1, 4), repeats=2)
    here = study(tmp_path)
    assert diagnose_limits.sends(here, more) == 3 * diagnose_limits.sends(here, once)
    assert diagnose_limits.most_tokens(here, more) == 3 * diagnose_limits.most_tokens(here, once)


def test_the_plan_says_target_profile_requests_and_duration(tmp_path: Path) -> None:
    here = study(tmp_path)
    said = diagnose_limits.planned(here, Plan((1, 4), repeats=2))
    sent = diagnose_limits.sends(here, Plan((1, 4)))
    assert said.startswith(f"target twin, profile quick: {sent} requests in 2 levels")
    assert f"up to {3 * sent} requests if noise" in said and "about" in said
    assert "noise" not in diagnose_limits.planned(here, Plan((1, 4)))
