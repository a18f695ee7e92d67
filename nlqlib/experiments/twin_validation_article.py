"""The twin against the article: its ten throughput rows and their p95, its token times, and what was fitted.

Throughput and p95 are measured as a study measures them, through the whole client path in virtual time and
over the whole run; token times, which the article read off its server, on the engine alone.
"""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from nlqlib.analysis.latency import latency_summary, throughput_run
from nlqlib.article import claim
from nlqlib.experiments.twin_validation_check import Check, Tag, holds, shown, within
from nlqlib.experiments.twin_validation_path import Way, good, level, output_tokens, warm_up
from nlqlib.load.closed_loop import LoadRun
from nlqlib.serving.target import Target, open_target
from nlqlib.twin import model
from nlqlib.twin.calibrate import Prediction, deviation, predict

ROWS_GROUP = "article's throughput"
FIT_GROUP = "used to fit"
TOKEN_GROUP = "ITL and TTFT"
SAME_GROUP = "determinism"

ROWS = {
    **dict.fromkeys((1, 8, 16, 18, 24), "dense"),
    **dict.fromkeys((12, 20), "repeated"),
    **dict.fromkeys((32, 40, 48), "saturation"),
}
"""Concurrency of each distinct row, and the sweep it is claimed in; a row measured twice spans both."""
PLATEAU = (40, 48)
ROW_BOUND, MEAN_BOUND, PLATEAU_BOUND, P95_BOUND = 0.05, 0.025, 0.02, 0.06
ITL_BOUND, TTFT_BOUND, WARM_TTFT_BOUND_S = 0.03, 0.08, 0.005
LENGTH, SPREAD = 115.0, 3.0
OUTSIDE_S, OUTSIDE_BOUND_S = 0.070, 0.005
FITTED_ROWS, FITTED_PREFILLS = 3, 2


@dataclass(frozen=True)
class Row:
    """One level through the client path."""

    concurrency: int
    throughput: float | None
    p95_s: float | None
    run: LoadRun


def enough(concurrency: int) -> int:
    """Requests of a row: at least 150, and twenty waves."""
    return max(150, 20 * concurrency)


def row(concurrency: int, n: int, words: str = "synthetic", output_tokens: float = LENGTH) -> Row:
    """`n` requests at `concurrency` on a fresh, warm engine."""
    flags = {"output_tokens": output_tokens, "output_sd": SPREAD} if words == "synthetic" else {}
    with closing(open_target("twin").engine(twin=model.DEFAULT, words=words, **flags)) as target:
        found = target.run(_warm_level(target, concurrency, n))
    summary = latency_summary(found.completions)
    return Row(concurrency, throughput_run(found.completions), summary.p95_s, found)


async def _warm_level(target: Target, concurrency: int, n: int) -> LoadRun:
    await warm_up(target)
    return await level(target, concurrency, n, Way())


def row_checks(n_of: Callable[[int], int] = enough, rows: Sequence[int] = tuple(sorted(ROWS))) -> list[Check]:
    """Every throughput row and its p95, with synthetic lengths; recorded ones beside it."""
    fitted = _fitted()
    measured = [row(n, n_of(n)) for n in rows]
    errors = [_error("throughput", r.concurrency, r.throughput) for r in measured]
    checks = [_throughput(r, e, fitted) for r, e in zip(measured, errors, strict=True)]
    checks.append(_mean(errors))
    checks += [
        _plateau(r, e, fitted) for r, e in zip(measured, errors, strict=True) if r.concurrency in PLATEAU
    ]
    checks += [_p95(r) for r in measured]
    checks += [_requests(measured), _lengths(measured), _outside(), _all_good(measured)]
    return checks + [_recorded(row(n, n_of(n), "recordings")) for n in rows]


def _fitted() -> set[str]:
    return {seen.name for seen in model.load().observations if seen.fit}


def _error(quantity: str, concurrency: int, value: float | None) -> float | None:
    told = claim(f"{ROWS[concurrency]}.{quantity}.{concurrency}")
    return None if value is None else deviation(value, told.low, told.high)


def _tag(name: str, fitted: set[str]) -> Tag:
    return "fitted" if name in fitted else "predicted"


def _throughput(r: Row, error: float | None, fitted: set[str]) -> Check:
    tag = _tag(f"throughput at {r.concurrency}", fitted)
    return within(ROWS_GROUP, f"throughput at {r.concurrency}", error, ROW_BOUND, tag)


def _mean(errors: Sequence[float | None]) -> Check:
    known = [abs(e) for e in errors if e is not None]
    mean = float(np.mean(known)) if len(known) == len(errors) else None
    return within(ROWS_GROUP, f"mean absolute error of {len(errors)} rows", mean, MEAN_BOUND, "predicted")


def _plateau(r: Row, error: float | None, fitted: set[str]) -> Check:
    tag = _tag(f"throughput at {r.concurrency}", fitted)
    return within(ROWS_GROUP, f"plateau at {r.concurrency}", error, PLATEAU_BOUND, tag)


def _p95(r: Row) -> Check:
    error = _error("p95", r.concurrency, r.p95_s)
    return within(ROWS_GROUP, f"p95 at {r.concurrency}", error, P95_BOUND, "predicted")


def _requests(rows: Sequence[Row]) -> Check:
    fewest = min(rows, key=lambda r: len(r.run.completions) / enough(r.concurrency))
    n, bound = len(fewest.run.completions), f"≥ {enough(fewest.concurrency)}"
    ok = n >= enough(fewest.concurrency)
    return holds(ROWS_GROUP, f"requests at {fewest.concurrency}, whole run", bound, n, ok, "counted")


def _lengths(rows: Sequence[Row]) -> Check:
    drawn = np.array(output_tokens([r.run for r in rows]))
    mean, spread = float(drawn.mean()), float(drawn.std())
    ok = abs(mean - LENGTH) <= 0.5 and abs(spread - SPREAD) <= 0.3
    bound, told = f"{LENGTH:g} ± {SPREAD:g} tokens", f"{mean:.2f} ± {spread:.2f}"
    return holds(ROWS_GROUP, "synthetic output lengths", bound, told, ok, "counted")


def _outside() -> Check:
    outside = model.load().outside_s
    ok = abs(outside - OUTSIDE_S) <= OUTSIDE_BOUND_S
    bound = f"{1e3 * OUTSIDE_S:.0f} ± {1e3 * OUTSIDE_BOUND_S:.0f} ms"
    return holds(ROWS_GROUP, "outside the engine", bound, f"{1e3 * outside:.1f} ms", ok, "by construction")


def _all_good(rows: Sequence[Row]) -> Check:
    bad = [f"{sum(not c.ok for c in r.run.completions)} at {r.concurrency}" for r in rows if not good(r.run)]
    return holds(ROWS_GROUP, "failed requests", "0", ", ".join(bad) or 0, not bad, "counted")


def _recorded(r: Row) -> Check:
    error = _error("throughput", r.concurrency, r.throughput)
    what = f"throughput at {r.concurrency}, recorded lengths"
    return shown(ROWS_GROUP, what, "missing" if error is None else f"{error:+.2%}", "predicted")


# --- what was fitted --------------------------------------------------------------------------------------


def fit_checks() -> list[Check]:
    """How many rows the stored twin was fitted on, and that its residual has a name."""
    fitted = sorted(_fitted())
    rows = [name for name in fitted if name.startswith("throughput")]
    prefills = [name for name in fitted if name.startswith(("prefill", "TTFT"))]
    tails = [name for name in fitted if name.startswith("p95")]
    outside = {
        name: told["origin"] for name, told in model.document()["coefficients"].items() if name in OUTSIDE
    }
    unused = "throughput at 32" not in fitted
    return [
        _few("throughput rows", rows, FITTED_ROWS),
        holds(FIT_GROUP, "throughput at 32", "never", "not used" if unused else "used", unused, "counted"),
        _few("p95 rows", tails, 0),
        _few("TTFT and prefill points", prefills, FITTED_PREFILLS),
        holds(
            FIT_GROUP, "client minus server", "a named term", " + ".join(outside), bool(outside), "counted"
        ),
    ]


OUTSIDE = ("network_s", "frontend_s")


def _few(what: str, used: Sequence[str], most: int) -> Check:
    return holds(FIT_GROUP, what, f"≤ {most}", len(used), len(used) <= most, "counted", ", ".join(used))


# --- token times ------------------------------------------------------------------------------------------


def token_checks() -> list[Check]:
    """Gap between tokens and time to first token, as the article's server told them."""
    twin = model.load()
    wanted = [seen for seen in twin.observations if seen.quantity in ("itl_s", "ttft_s", "prefill_s")]
    return [check for p in predict(twin.limits, twin.step_time, wanted) for check in _token(p)]


def _token(p: Prediction) -> list[Check]:
    seen, tag = p.observation, _tag(p.observation.name, _fitted())
    if seen.quantity == "prefill_s":
        return [shown(TOKEN_GROUP, seen.name, "missing" if p.error is None else f"{p.error:+.2%}", tag)]
    bound = ITL_BOUND if seen.quantity == "itl_s" else TTFT_BOUND
    checks = [within(TOKEN_GROUP, seen.name, p.error, bound, tag)]
    if seen.name == "TTFT, warm" and p.value is not None:
        off = p.value - seen.low
        limit = f"≤ {1e3 * WARM_TTFT_BOUND_S:g} ms"
        ok = abs(off) <= WARM_TTFT_BOUND_S
        checks.append(holds(TOKEN_GROUP, f"{seen.name}, absolute", limit, f"{1e3 * off:+.2f} ms", ok, tag))
    return checks


# --- determinism ------------------------------------------------------------------------------------------


def digest(concurrency: int = 16, n: int = 160) -> str:
    """sha256 over every field of every request of a fresh run, times to the last bit."""
    completions = row(concurrency, n).run.completions
    return hashlib.sha256("\n".join(repr(c) for c in completions).encode()).hexdigest()


def same_checks(n: int = 160) -> list[Check]:
    """Two runs in this process, and one in another whose hashes are salted differently, byte by byte."""
    first, again, elsewhere = digest(n=n), digest(n=n), _digest_elsewhere(n)
    return [_same("two runs", first, again), _same("another process", first, elsewhere)]


def _digest_elsewhere(n: int) -> str:
    code = f"from {__name__} import digest; print(digest(n={n}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def _same(what: str, first: str, second: str) -> Check:
    ok = first == second
    told = first[:8] if ok else f"{first[:8]} and {second[:8]}"
    return holds(SAME_GROUP, f"per-request times, {what}", "byte-identical", told, ok, "counted")
