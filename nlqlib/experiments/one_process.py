"""How far one process goes: both clients against a server that is parallel by construction.

What a single process loses there is its own: the server has no limit. The point is the same for every target,
since no request of it reaches the endpoint.
"""

from collections.abc import Sequence

from nlqlib.analysis.latency import outcome_counts, throughput_run
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.semantics import CONDITIONS, requests
from nlqlib.experiments.study import Spec, Study
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.progress import progress
from nlqlib.records import ChatRequest, Json, Metric
from nlqlib.serving.client import ClientKind, Endpoint, make_client
from nlqlib.serving.control_server import control, endpoint
from nlqlib.serving.running import run

SERVICE_S = 0.5
IN_FLIGHT = (32, 128)
WAVES = 2
CLIENTS: tuple[ClientKind, ...] = ("wire", "openai")
SAME_WITHIN = 0.25
"""A busy machine takes that much from a client at the smaller load; at the larger one it takes anything."""
SHARE = "achieved / ideal"
WARM_UP = 1
"""Waves before the measured ones: connections are made, and what is first used is loaded."""
SPEC = Spec(
    "one-process",
    {"service_s": SERVICE_S, "in_flight": list(IN_FLIGHT), "waves": WAVES},
    ("nlqlib.experiments.one_process", "nlqlib.serving.control_server"),
    about_s=8.0,
)


def record(study: Study) -> Record:
    """The point, retained already or measured now."""
    return study.point(SPEC, lambda: _measure(study))


def _measure(study: Study) -> Measured:
    asked = requests(load_questions("dev"), CONDITIONS["baseline"], study.catalog)
    with control("parallel", SERVICE_S) as server, progress(4, "one process") as bar:
        there, found = endpoint(server), []
        for kind in CLIENTS:
            for n in IN_FLIGHT:
                found.append((kind, n, run(_load(there, asked, kind, n))))
                bar.advance(f"{kind}, {n} in flight")
    return measured(found)


async def _load(there: Endpoint, asked: Sequence[ChatRequest], kind: ClientKind, n: int) -> LoadRun:
    client = make_client(kind, there)
    try:
        return await closed_loop(client, cycled(asked), n, WAVES * n, lead_in=WARM_UP * n)
    finally:
        await client.aclose()


def measured(found: Sequence[tuple[ClientKind, int, LoadRun]]) -> Measured:
    """The point of these runs: what share of the possible throughput each reached."""
    done = [c for _, _, of in found for c in of.completions]
    metrics = [m for kind, n, of in found for m in _metrics(kind, n, of)]
    within = {
        f"{m.name} {m.stat}": SAME_WITHIN
        for m in metrics
        if m.stat == SHARE and m.name.endswith(f"_{IN_FLIGHT[0]}")
    }
    return Measured(
        requests={"total": len(done), **({"ok": 0} | outcome_counts(done))},
        metrics=metrics,
        results={"clock": "real", "rows": [_row(*one) for one in found], "reproduced_if": {"within": within}},
    )


def _metrics(kind: ClientKind, n: int, of: LoadRun) -> list[Metric]:
    x = throughput_run(of.completions)
    share = None if x is None else x * SERVICE_S / n
    return [
        Metric(f"{kind}_{n}", "share", SHARE, share, len(of.completions), "measured"),
        Metric(f"{kind}_{n}", "share", "processor", of.health.cpu_share, None, "measured"),
        Metric(f"{kind}_{n}", "s", "loop lag p99", of.health.loop_lag_p99_s, None, "measured"),
    ]


def _row(kind: ClientKind, n: int, of: LoadRun) -> Json:
    return {"client": kind, "in_flight": n, "peak": of.health.peak_in_flight}
