"""How the page on KV pressure shows its arms: bytes by the model's shape, usage foretold, what saves memory.

Arithmetic stands beside what was sampled and is named as such; a dash is what was not seen.
"""

from dataclasses import dataclass

import pandas as pd

from nlqlib import article
from nlqlib.analysis.kv import Blocks, InFlight, ModelShape, blocks, blocks_in, usage
from nlqlib.artifacts import Record
from nlqlib.experiments.kv_pressure import ARTICLE_CONCURRENCY, in_flight
from nlqlib.experiments.model_data import machine, model_shape, models
from nlqlib.experiments.propagation_gauges import lags
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import ANSWER_TOKENS
from nlqlib.experiments.sweep_rows import Records, failures, told

ARTICLE_MODEL, ARTICLE_MACHINE = "Qwen/Qwen2.5-3B-Instruct", "NVIDIA L4"
ARTICLE_BLOCK = 16
"""vLLM's default on a GPU; the article does not say."""
UTILISATION = 0.90
"""The article's gpu_memory_utilization: what its engine may take of the card, weights included."""
WINDOW = 4096


def load_of(record: Record) -> InFlight | None:
    """What an arm had in flight, by its own counts; `None` where no answer was counted."""
    out, asked = record.value("output_tokens", "mean"), record.value("prompt_tokens", "mean")
    if out is None:
        return None
    return in_flight(int(record.params["concurrency"]), out, asked)


def short(name: str) -> str:
    """A model's name without its owner."""
    return name.rsplit("/", 1)[-1]


# ---- bytes -----------------------------------------------------------------------------------------------


def bytes_table(served: str) -> pd.DataFrame:
    """KV bytes of a token for every model on file, and of a full window; `served` is marked."""
    rows = {}
    for name, shape in models().items():
        rows[short(name) + (" (here)" if short(name) == short(served) else "")] = {
            "layers": shape.layers,
            "heads": shape.heads,
            "KV heads": shape.kv_heads,
            "head size": shape.head_dim,
            "KV bytes per token": f"{shape.kv_bytes_per_token:,}",
            "with multi-head attention": f"{shape.multi_head.kv_bytes_per_token:,}",
            "GQA saves": f"{shape.gqa_factor:g} ×",
            f"a full window of {WINDOW:,} (MB)": f"{WINDOW * shape.kv_bytes_per_token / 1e6:.0f}",
            "weights (GB)": f"{shape.weight_bytes / 1e9:.2f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def bytes_sentence(shape: ModelShape | None, why: str, study: Study) -> str:
    """The multiplication itself, and on the CPU engine the number of blocks that it foretells."""
    if shape is None:
        return f"Of the model served here no shape is on file: {why}."
    text = (
        f"2 (key and value) × {shape.layers} layers × {shape.kv_heads} KV heads × {shape.head_dim} × "
        f"{shape.value_bytes} bytes = {shape.kv_bytes_per_token:,} bytes per token of {short(why)}."
    )
    space = study.target.declared.get("settings", {}).get("kv_space_gib")
    if space is None:
        return text
    held = float(space) * 2**30 / shape.kv_bytes_per_token
    return f"{text} The {space} GiB that this engine was given for it hold {held:,.0f} tokens."


# ---- usage foretold --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foretold:
    """KV usage at the article's load by arithmetic alone, as shares."""

    usage: float
    """With the blocks that fit beside the weights into the memory the article saw in use."""
    low: float
    """With all that its engine was allowed to take."""
    high: float
    """With 2 GB less than it saw in use, for activations and graphs."""
    blocks: float
    capacity: float


WORKSPACE = 2e9
"""Bytes of activations, graphs and driver at most; what is really taken is not published."""


def foretold() -> Foretold:
    """Blocks of 28 requests in flight by block rules over blocks that fit, no number of it fitted."""
    shape, card = model_shape(ARTICLE_MODEL), machine(ARTICLE_MACHINE)
    used = 1e9 * float(article.claim("kv.gpu_memory").value or 0.0)
    held = blocks(in_flight(ARTICLE_CONCURRENCY, ANSWER_TOKENS), ARTICLE_BLOCK).total
    capacity, most, least = (
        blocks_in(memory, shape, ARTICLE_BLOCK)
        for memory in (used, UTILISATION * card.memory_bytes, used - WORKSPACE)
    )
    return Foretold(usage(held, capacity), usage(held, most), usage(held, least), held, capacity)


def foretold_table() -> pd.DataFrame:
    """The prediction step by step."""
    shape, found = model_shape(ARTICLE_MODEL), foretold()
    load = in_flight(ARTICLE_CONCURRENCY, ANSWER_TOKENS)
    held = blocks(load, ARTICLE_BLOCK)
    memory = float(article.claim("kv.gpu_memory").value or 0.0)
    steps = [
        ("memory in use, as the article saw it", f"{memory:g} GB"),
        ("weights, from the model's shape", f"{shape.weight_bytes / 1e9:.2f} GB"),
        (f"one block of {ARTICLE_BLOCK} tokens", f"{ARTICLE_BLOCK * shape.kv_bytes_per_token / 1e6:.2f} MB"),
        ("blocks that fit beside the weights", f"{found.capacity:,.0f}"),
        ("held by all requests: the common beginning", f"{held.shared:.0f} blocks"),
        (f"held per prompt, {load.distinct} different ones in flight", f"{held.per_prompt:.0f} blocks"),
        (f"held by one request alone, {load.requests} in flight", f"{held.own:.0f} blocks"),
        ("usage foretold", f"{found.usage:.2%}"),
        ("… if the engine took all it may / 2 GB were no KV", f"{found.low:.2%} / {found.high:.2%}"),
    ]
    return pd.DataFrame(steps, columns=["step", "value"]).set_index("step")


def foretold_sentence() -> str:
    """The prediction against the article's number."""
    found, seen = foretold(), float(article.claim("kv.usage").value or 0.0)
    return (
        f"Arithmetic foretells {found.usage:.2%} at {ARTICLE_CONCURRENCY} in flight, the article read "
        f"{seen:.1%}: {100 * abs(found.usage - seen):.2f} points apart, with nothing fitted."
    )


# ---- usage sampled ---------------------------------------------------------------------------------------


def usage_table(records: Records) -> pd.DataFrame:
    """Arm by arm: blocks and usage by arithmetic, and as sampled through the run, four times a second."""
    rows = {}
    for record in records:
        size, there, load = record.results["block_size"], record.results["blocks"], load_of(record)
        shared = not record.params.get("unshared")
        held = blocks(load, size, shared) if load and size else None
        expected = usage(held.total, there) if held and there else None
        mean = record.value("kv_usage", "mean")
        apart = None if expected is None or mean is None else 100 * (mean - expected)
        rows[arm_name(record)] = {
            "n": record.requests.get("total", 0),
            "failed": failures(record.requests),
            "blocks: common + per prompt + own": _parts(held),
            f"of ({size or '—'} tokens each)": told(there, ",.0f"),
            "usage foretold": told(expected, ".2%"),
            "sampled, mean": told(mean, ".2%"),
            "sampled, max": told(record.value("kv_usage", "max"), ".2%"),
            "mean − foretold (points)": told(apart, "+.2f"),
            "hit rate": told(record.value("hit_rate", "mean"), ".1%"),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def _parts(held: Blocks | None) -> str:
    parts = (held.shared, held.per_prompt, held.own) if held else ()
    return " + ".join(f"{value:.0f}" for value in parts) or "—"


def arm_name(record: Record) -> str:
    """`28 in flight`, `28, nothing shared`, `28, 300 blocks`."""
    asked = record.params
    k = int(asked["concurrency"])
    if asked.get("unshared"):
        return f"{k}, nothing shared"
    return f"{k}, {asked['num_blocks']} blocks" if asked.get("num_blocks") else f"{k} in flight"


def usage_sentence(records: Records) -> str:
    """The largest difference between sampled and foretold, or what cannot be seen."""
    apart = []
    for record in records:
        load, size, there = load_of(record), record.results["block_size"], record.results["blocks"]
        mean = record.value("kv_usage", "mean")
        if load and size and there and mean is not None:
            held = blocks(load, size, not record.params.get("unshared")).total
            apart.append((abs(100 * (mean - usage(held, there))), arm_name(record), mean))
    if not apart:
        return "The engine does not say how many blocks it has or uses: usage is not observable here."
    worst, last = max(apart), apart[-1]
    return (
        f"At {last[1]} the engine uses {last[2]:.2%} of its blocks on average; the arithmetic is at most "
        f"{worst[0]:.2f} points off ({worst[1]})."
    )


def unshared_sentence(records: Records) -> str:
    """What the same prompts use when no block serves two requests."""
    found = next((r for r in records if r.params.get("unshared")), None)
    load = load_of(found) if found else None
    used, running = (found.value(m, "mean") if found else None for m in ("kv_usage", "running"))
    size, there = (found.results["block_size"], found.results["blocks"]) if found else (None, None)
    if load is None or not size or not there or used is None:
        return "What nothing shared costs is not observable here: the engine does not say what it uses."
    whole = usage(blocks(load, size, sharing=False).total, there)
    seen = (
        f"its gauges lag and show {told(running, '.1f')} running on average, so the usage is low by as much"
        if found and lags(found)
        else f"only {told(running, '.1f')} run at a time, and who still computes its own holds a part of it"
    )
    return (
        f"With nothing shared, the same {load.requests} in flight use {used:.1%} on average; {whole:.1%} are "
        f"foretold when all of them have their whole prompt, but {seen}."
    )
