"""Planned and counted prefix-cache tokens of one cell, side by side: results, columns, rules. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from nlqlib.analysis.prefix_cache import hit_rate
from nlqlib.analysis.window import Window
from nlqlib.artifacts import Measured
from nlqlib.experiments.prompt_variants import Schedule
from nlqlib.records import Completion, Json, Metric, Rule, ServerIdentity

BLOCK = 16
"""Where the server does not say its block size: vLLM's default on a GPU."""
QUERIES_AS_PLANNED = "prompt tokens looked up, as planned"
HITS_AS_PLANNED = "prompt tokens found, as planned"
OUR_TOKENS = "prompt tokens by the server, as by our tokenizer"
FIT = "blocks of the cell, at most the engine's"


def block_size(server: ServerIdentity) -> int:
    """Tokens in one KV block, as `/metrics` says them, else `BLOCK`."""
    return int(server.engine_args.get("block_size") or BLOCK)


def with_plan(
    found: Measured, done: Sequence[Completion], planned: Schedule, seen: Window, server: ServerIdentity
) -> Measured:
    """`found` with planned and counted tokens: as results, a metric, columns of its rows, and rules."""
    tokens: Json = {
        "planned_queries": sum(f.tokens for f in planned.lookups),
        "planned_hits": sum(f.hits for f in planned.lookups),
        "queries": _whole(seen.queries),
        "hits": _whole(seen.hits),
        "block_size": block_size(server),
        "block_size_told": bool(server.engine_args.get("block_size")),
        "blocks": planned.blocks,
    }
    rows = [
        row | {"planned_tokens": f.tokens, "planned_hits": f.hits}
        for row, f in zip(found.samples, planned.lookups, strict=True)
    ]
    rate = Metric(
        "planned_hit_rate", "share", "mean", hit_rate(planned.lookups), len(rows), "by construction"
    )
    return replace(
        found,
        server=server,
        metrics=[*found.metrics, rate],
        samples=rows,
        validity=[*found.validity, *plan_rules(tokens, done, planned, server)],
        results={**found.results, "tokens": tokens},
    )


def plan_rules(
    tokens: Json, done: Sequence[Completion], planned: Schedule, server: ServerIdentity
) -> list[Rule]:
    """Whether the counters are the planned ones.

    Where the server's tokenizer is another, its tokens are not ours and nothing can be decided; nor where a
    request failed, of which nobody knows how far it came.
    """
    told = [(c.prompt_tokens, f.tokens) for c, f in zip(done, planned.lookups, strict=True)]
    counted = [n for n, _ in told if n is not None]
    wanted = [ours for n, ours in told if n is not None]
    same = bool(counted) and counted == wanted
    whole = same and len(counted) == len(done)
    room = server.engine_args.get("num_gpu_blocks")
    return [
        Rule(OUR_TOKENS, sum(counted) if counted else None, sum(wanted) or None, same or None),
        _equal(QUERIES_AS_PLANNED, tokens["queries"], tokens["planned_queries"], whole),
        _equal(HITS_AS_PLANNED, tokens["hits"], tokens["planned_hits"], whole),
        Rule(FIT, planned.blocks, room, None if room is None else planned.blocks <= int(room)),
    ]


def _equal(name: str, value: int | None, wanted: int, decidable: bool) -> Rule:
    return Rule(name, value, wanted, value == wanted if decidable and value is not None else None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
