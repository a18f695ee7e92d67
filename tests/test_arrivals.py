"""Plans of arrivals: their rate, their spread, and trace files with their mistakes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.load.arrivals import TraceError, check_arrivals, constant, gamma, poisson, trace


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def cv_of(arrivals: np.ndarray) -> float:  # type: ignore[type-arg]
    gaps = np.diff(arrivals, prepend=0.0)
    return float(gaps.std() / gaps.mean())


def test_constant_arrivals_are_one_over_the_rate_apart_from_zero_on() -> None:
    assert constant(10.0, 4).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_poisson_arrivals_have_their_rate_and_gaps_as_spread_as_their_mean() -> None:
    arrivals = poisson(5.0, 40_000, rng())
    assert len(arrivals) / arrivals[-1] == pytest.approx(5.0, rel=0.02)
    assert cv_of(arrivals) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("cv", [0.2, 1.0, 3.0])
def test_gamma_arrivals_have_their_rate_and_the_spread_asked_for(cv: float) -> None:
    arrivals = gamma(5.0, 60_000, cv, rng())
    assert len(arrivals) / arrivals[-1] == pytest.approx(5.0, rel=0.05)
    assert cv_of(arrivals) == pytest.approx(cv, rel=0.05)


def test_the_same_seed_gives_the_same_plan_and_another_gives_another() -> None:
    assert poisson(5.0, 10, rng(3)).tolist() == poisson(5.0, 10, rng(3)).tolist()
    assert poisson(5.0, 10, rng(3)).tolist() != poisson(5.0, 10, rng(4)).tolist()


@given(st.floats(0.01, 1e4), st.integers(1, 200), st.floats(0.05, 5.0), st.integers(0, 2**32))
def test_every_plan_can_be_kept(rate: float, n: int, cv: float, seed: int) -> None:
    for plan in (constant(rate, n), poisson(rate, n, rng(seed)), gamma(rate, n, cv, rng(seed))):
        assert len(check_arrivals(plan)) == n


@pytest.mark.parametrize(("rate", "n"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (float("inf"), 1), (1.0, 0)])
def test_impossible_rates_and_numbers_are_refused(rate: float, n: int) -> None:
    for make in (constant, lambda r, k: poisson(r, k, rng()), lambda r, k: gamma(r, k, 1.0, rng())):
        with pytest.raises(ValueError, match="positive rate"):
            make(rate, n)


@pytest.mark.parametrize("cv", [0.0, -1.0, float("nan")])
def test_an_impossible_spread_is_refused(cv: float) -> None:
    with pytest.raises(ValueError, match="coefficient of variation"):
        gamma(1.0, 1, cv, rng())


@pytest.mark.parametrize("bad", [[], [-0.1, 1], [0.2, 0.1], [0.0, float("nan")], [float("inf")]])
def test_a_plan_that_cannot_be_kept_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="arrival"):
        check_arrivals(bad)


GOOD = {
    "numbers.jsonl": "0\n0.5\n0.5\n2\n",
    "objects.jsonl": '{"arrival_s": 0, "id": "a"}\n\n{"arrival_s": 0.5}\n{"arrival_s": 0.5}\n'
    '{"arrival_s": 2e0}\n',
    "column.csv": "0\n0.5\n0.5\n2\n",
    "header.csv": "arrival_s\n0\n0.5\n0.5\n2\n",
    "columns.csv": 'id,arrival_s\r\n"a, b",0\r\nc,0.5\r\nd,0.5\r\ne,2\r\n',
    "bom.csv": "\ufeffarrival_s\n0\n0.5\n0.5\n2\n",
    "objects.txt": '{"arrival_s": 0}\n{"arrival_s": 0.5}\n{"arrival_s": 0.5}\n{"arrival_s": 2}\n',
}


@pytest.mark.parametrize("name", GOOD)
def test_a_trace_is_read_from_json_lines_or_csv(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(GOOD[name], "utf-8")
    assert trace(tmp_path / name).tolist() == [0.0, 0.5, 0.5, 2.0]


def test_recorded_times_of_day_can_be_counted_from_the_first(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1764500000.0\n1764500000.5\n1764500002.0\n")
    assert trace(tmp_path / "t.csv", from_first=True).tolist() == [0.0, 0.5, 2.0]


BAD = {
    "empty.csv": ("", "holds no arrival"),
    "blank.jsonl": ("\n\n", "holds no arrival"),
    "header_only.csv": ("arrival_s\n", "holds no arrival"),
    "day.csv": ("1764500000.0\n", "time of day.*from_first=True"),
    "backwards.csv": ("0\n2\n1.5\n", "line 3: 1.5 s is before the arrival at 2 s"),
    "negative.jsonl": ("-1\n0\n", "line 1: -1 s is negative"),
    "word.csv": ("arrival_s\n0\nsoon\n", "line 3: 'soon' is not a time in seconds"),
    "nan.csv": ("0\nnan\n", "line 2: nan is not a time"),
    "null.jsonl": ('{"arrival_s": null}\n', "line 1: None is not a time"),
    "true.jsonl": ("true\n", "line 1: True is not a time"),
    "cut.jsonl": ('{"arrival_s": 0}\n{"arriv', "line 2 is not JSON"),
    "key.jsonl": ('{"arrival": 0}\n', "line 1 has no 'arrival_s', only 'arrival'"),
    "header.csv": ("time,id\n0,a\n", "column named 'arrival_s'; its header has 'time', 'id'"),
    "short.csv": ("id,arrival_s\na,0\nb\n", "line 3 has no column 'arrival_s'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_in_a_trace_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    content, says = BAD[name]
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(TraceError, match=f"{name}.*{says}"):
        trace(tmp_path / name)


def test_a_trace_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.csv", "binary.csv"):
        with pytest.raises(TraceError, match=f"{name} cannot be read"):
            trace(tmp_path / name)
