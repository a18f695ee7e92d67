"""The roofline of decode as the page shows it: each arm's mean step under both roofs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.kv import InFlight, ModelShape, blocks
from nlqlib.analysis.roofline import DecodeStep, attainable, ceilings, place, ridge
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.kv_page import load_of
from nlqlib.experiments.model_data import Machine
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, told

READ = {"once": "shared KV read once", "each": "KV read by each request"}
"""The two bounds of what a step moves."""


@dataclass(frozen=True)
class Point:
    """The mean decode step of an arm."""

    concurrency: int
    gap_s: float
    steps: dict[str, DecodeStep]
    """By the keys of `READ`."""


def points(records: Records) -> list[Point]:
    """The arms whose gap between tokens and running requests are known."""
    found = (_point(r) for r in records)
    return [p for p in found if p is not None]


def _point(record: Record) -> Point | None:
    gap, running, load = record.value("itl", "mean"), record.value("running", "mean"), load_of(record)
    if not gap or not running or load is None:
        return None
    running = max(1.0, running)  # a token comes from a step with at least one; idle moments have none
    context = running * load.context_tokens
    shared = _held_tokens(load, record)
    steps = {
        "once": DecodeStep(running, context, min(shared, context)),
        "each": DecodeStep(running, context, context),
    }
    return Point(int(record.params["concurrency"]), gap, steps)


def _held_tokens(load: InFlight, record: Record) -> float:
    """KV tokens that the requests in flight hold together."""
    return blocks(load, 1, not record.params.get("unshared")).total


def roofline_table(records: Records, shape: ModelShape | None, machine: Machine | None) -> pd.DataFrame:
    """Each arm: what its mean step does and moves, the least time of both roofs, and what they explain."""
    rows = {}
    for p in points(records) if shape else ():
        rows[f"{p.concurrency} in flight"] = _row(p, shape, machine)  # type: ignore[arg-type]
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def _row(p: Point, shape: ModelShape, machine: Machine | None) -> dict[str, str]:
    model, once = shape.transformer, p.steps["once"]
    found = {
        "running, mean": f"{once.sequences:.1f}",
        "gap between tokens (ms)": f"{1e3 * p.gap_s:.2f}",
        "decode tokens/s": f"{once.sequences / p.gap_s:,.0f}",
        "FLOP/byte": _both(p, lambda s: s.intensity(model), ".1f"),
        "GB/s moved": _both(p, lambda s: s.bytes_moved(model) / p.gap_s / 1e9, ".0f"),
        "GFLOP/s done": f"{once.flops(model) / p.gap_s / 1e9:,.0f}",
    }
    if machine is None:
        return found
    roofs = ceilings(once, model, machine.peaks)
    return found | {
        "memory roof (ms)": _both(p, lambda s: 1e3 * ceilings(s, model, machine.peaks).memory_s, ".1f"),
        "compute roof (ms)": f"{1e3 * roofs.compute_s:.2f}",
        "memory roof (tokens/s)": _both(
            p, lambda s: ceilings(s, model, machine.peaks).memory_tokens_per_s, ",.0f"
        ),
        "gap explained by memory": _both(
            p, lambda s: place(s, model, machine.peaks, p.gap_s).bandwidth_share, ".0%"
        ),
        "by arithmetic": f"{place(once, model, machine.peaks, p.gap_s).compute_share:.1%}",
    }


def _both(p: Point, of: Callable[[DecodeStep], float], form: str) -> str:
    """A value under both bounds of what is read, or once where they agree."""
    low, high = (told(of(p.steps[k]), form) for k in READ)
    return low if low == high else f"{low} to {high}"


def roofline_sentence(records: Records, shape: ModelShape | None, machine: Machine | None, why: str) -> str:
    """How near the steps are to which roof, in one sentence."""
    found = points(records)
    if shape is None or not found:
        return "Neither the model's shape nor its gap between tokens is known here: no step can be placed."
    model, last = shape.transformer, found[-1]
    if machine is None:
        moved = last.steps["once"].bytes_moved(model) / last.gap_s / 1e9
        return (
            f"At {last.concurrency} in flight a step moves at least {moved:.0f} GB/s. How near that is to a "
            f"roof cannot be said: {why}."
        )
    shares = {
        (p.concurrency, k): place(s, model, machine.peaks, p.gap_s) for p in found for k, s in p.steps.items()
    }
    first, once, each = shares[found[0].concurrency, "once"], *(shares[last.concurrency, k] for k in READ)
    return (
        f"Every step lies on the memory side of the ridge ({ridge(machine.peaks):.0f} FLOP/byte): at "
        f"{found[0].concurrency} in flight moving bytes explains {first.bandwidth_share:.0%} of the gap "
        f"between tokens, at {last.concurrency} between {once.bandwidth_share:.0%} (shared KV read once) "
        f"and {each.bandwidth_share:.0%} (read by each request), arithmetic {once.compute_share:.1%}. The "
        "rest is neither roof: work per step and per sequence."
    )


def roofline_alt(
    records: Records, study: Study, shape: ModelShape | None, machine: Machine | None, why: str
) -> str:
    """Alternative text of `roofline_figure`."""
    sentence = roofline_sentence(records, shape, machine, why)
    return f"Roofline of decode on {named(study)}: FLOP/s over FLOP per byte, log axes. {sentence}"


def roofline_figure(
    records: Records, study: Study, shape: ModelShape | None, machine: Machine | None, why: str
) -> Figure:
    """FLOP/s over intensity with both roofs, where they are known, and every arm under both bounds."""
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=8.4, height_in=4.6)
    ax.set_xscale("log")
    ax.set_yscale("log")
    if machine is None:
        ax.text(0.02, 0.96, f"no roof: {why}", transform=ax.transAxes, va="top", fontsize=9, wrap=True)
    else:
        _roofs(ax, machine)
    found = points(records) if shape else []
    for p in found:
        _draw(ax, p, shape, p is found[-1])  # type: ignore[arg-type]
    plots.name_axes(ax, "intensity", "arithmetic done", x_unit="FLOP per byte", y_unit="FLOP/s")
    return fig


def _roofs(ax: Axes, machine: Machine) -> None:
    edge = ridge(machine.peaks)
    x = np.geomspace(0.4, 4 * edge, 200)
    ax.plot(x, [attainable(i, machine.peaks) for i in x], color="black", lw=1.6, marker="")
    rates = machine.peaks
    memory = f"memory roof, {rates.bandwidth / 1e9:.0f} GB/s"
    ax.text(0.09 * edge, 1.15 * attainable(0.1 * edge, rates), memory, fontsize=9.5, ha="right")
    compute = f"compute roof, {rates.flops / 1e12:.0f} TFLOP/s"
    ax.text(0.9 * edge, 1.25 * rates.flops, compute, fontsize=9.5, ha="right")
    ax.set_ylim(top=4 * machine.peaks.flops)
    ax.axvline(edge, color=plots.GREY, lw=0.9, ls=":")
    ax.annotate(f"ridge {edge:.0f}", (edge, 0.04), (4, 0), xycoords=("data", "axes fraction"),
                textcoords="offset points", color=plots.GREY, fontsize=9.5)  # fmt: skip


LEGEND = " (● shared KV read once, ○ by each)"


def _draw(ax: Axes, p: Point, shape: ModelShape, last: bool) -> None:
    model = shape.transformer
    xs = [p.steps[k].intensity(model) for k in ("each", "once")]
    ys = [p.steps[k].flops(model) / p.gap_s for k in ("each", "once")]
    ax.plot(xs, ys, color=plots.PALETTE[0], lw=1.2, marker="")
    ax.plot(xs[1], ys[1], "o", color=plots.PALETTE[0])
    ax.plot(xs[0], ys[0], "o", mfc="white", color=plots.PALETTE[0])
    label = f"{p.concurrency} in flight" + LEGEND * last
    ax.annotate(label, (xs[1], ys[1]), (8, -4), textcoords="offset points", fontsize=9.5)


def peaks(found: Machine | None, why: str) -> str:
    """The accelerator's peaks in words, or why there are none."""
    if found is None:
        return f"no roof: {why}"
    bandwidth, flops = found.peaks.bandwidth / 1e9, found.peaks.flops / 1e12
    return f"{found.name}: {bandwidth:.0f} GB/s and {flops:.0f} TFLOP/s by its data sheet"
