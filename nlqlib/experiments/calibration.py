"""A twin of any endpoint, from at most eight short points, and how wrong it is on points it never saw."""

import dataclasses
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.calibration_fit import Engine, calibrated, document
from nlqlib.experiments.probes import PROBES, Probe, Probed, measure
from nlqlib.experiments.study import Spec, Study
from nlqlib.records import Json, Metric, ServerIdentity
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.target import Target
from nlqlib.twin.calibrate import CalibrationError
from nlqlib.twin.limits import EngineLimits, version_defaults

MODULES = ("nlqlib.experiments.calibration", "nlqlib.twin.app")
ASSUMED_BLOCKS = 20_000
"""Where the endpoint does not say: plenty, so that no point ever waits for a block."""
CPU = "vllm-cpu"
SPEC = Spec(
    "calibration",
    {"output_tokens": 16, "probes": [dataclasses.asdict(p) for p in PROBES]},
    MODULES,
    kind="calibration",
    requests=sum(p.requests + bool(p.shared_tokens) for p in PROBES),
    concurrency=4,
)


def engine_of(target: Target, server: ServerIdentity) -> Engine:
    """What the endpoint says of its engine, and which limits had to be assumed."""
    return engine_for(server, target.speaker)


def engine_for(server: ServerIdentity, speaker: str | None = None) -> Engine:
    """The same from the identity alone; `speaker` is the model where the server names none."""
    told = server.engine_args
    version = (server.engine_version or "").removeprefix("v")
    flags = version_defaults(version) if version[:1].isdigit() and server.engine != "twin" else {}
    if server.engine == CPU:
        flags["async_scheduling"] = False  # a CPU engine plans one step at a time
    default = EngineLimits(ASSUMED_BLOCKS)
    known: dict[str, Any] = {"max_model_len": server.max_model_len}
    assumed = []
    for name in ("num_gpu_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens"):
        if told.get(name) is None:
            assumed.append(f"{name} ({getattr(default, name)})")
        known[name] = int(told.get(name) or getattr(default, name))
    return Engine(
        model=server.model or speaker or "the model served",
        version=version or "unknown",
        accelerator=server.accelerator or ("a CPU" if server.engine == CPU else "an unknown accelerator"),
        limits=EngineLimits(**known, **flags),
        assumed=tuple(assumed),
    )


async def probe_all(
    target: Target, probes: Iterable[Probe], seed: int, tell: Callable[[str], None]
) -> tuple[ServerIdentity, list[Probed]]:
    """The server's identity, and what each probe measured. Raises `ProbeError`."""
    server = await identify(target)
    there = target.connection
    client = target.client("wire")
    reader = metrics_reader(there) if there.metrics_urls else None
    found = []
    try:
        for probe in probes:
            found.append(await measure(client, reader, probe, seed))
            tell(f"calibrate: {probe.name} ({probe.use}) … {_seen(found[-1])}")
    finally:
        await client.aclose()
        if reader:
            await reader.aclose()
    return server, found


def _seen(p: Probed) -> str:
    itl = "" if p.itl_s is None else f", {1000 * p.itl_s:.1f} ms between tokens"
    return f"TTFT {p.ttft_s or 0:.3f} s{itl}, {p.throughput_run or 0:.3f} req/s"


def seed_of(target: Target) -> int:
    """Words nobody has sent before to a real endpoint, whose cache may hold earlier probes."""
    return 0 if target.kind == "twin" else random.SystemRandom().randrange(1 << 30)


def calibrate(
    target: Target, name: str, probes: Sequence[Probe] = PROBES, tell: Callable[[str], None] = print
) -> tuple[Json, list[Probed], ServerIdentity]:
    """The document of a twin of `target`, the measurements behind it, and who was measured."""
    server, probed = target.run(probe_all(target, probes, seed_of(target), tell))
    engine = engine_of(target, server)
    fitted, way = calibrated(engine, probed)
    return document(name, engine, fitted, way), probed, server


@lru_cache(maxsize=4)
def _results(path: str, digest: str, name: str, speaker: str | None) -> Json:
    del digest  # tells another content of the same file apart
    kept = load_record(Path(path))
    server = kept.server
    if server is None:
        raise CalibrationError(f"{path} does not say who was measured; calibrate again")
    probed = [Probed(**row) for row in kept.samples()]
    engine = engine_for(server, speaker)
    found = document(name, engine, *calibrated(engine, probed))
    return {"document": found, "predictions": predictions(found)}


def results_of(kept: Record, speaker: str | None = None) -> Json:
    """Document and predictions from what a retained calibration *measured*, by today's fit.

    The measurement is kept for good; what is made of it is not, so that a better model needs no new
    measurement and an old prediction is never shown for a new one. About ten seconds, once a process.
    """
    told = kept.body["samples"]
    if not told:
        return kept.results
    name = f"{kept.body['target']}-calibrated"
    return _results(str(kept.path), str(told["sha256"]), name, speaker)


def record(study: Study) -> Record:
    """The calibration of the study's target, as a retained point."""

    def measure_now() -> Measured:
        began = time.time()
        name = f"{study.target.name}-calibrated"
        found, probed, server = calibrate(study.target, name, tell=lambda line: print(line, flush=True))
        rows = predictions(found)
        return Measured(
            server=server,
            requests={"total": SPEC.requests, "ok": SPEC.requests},
            metrics=[_worst(rows, "fitted"), _worst(rows, "predicted")],
            results={"document": found, "predictions": rows},
            samples=[dataclasses.asdict(p) for p in probed],
            interval_s=(began, time.time()) if study.target.kind != "twin" else None,
        )

    return study.point(SPEC, measure_now)


def predictions(found: Json) -> list[Json]:
    """One row for each observation of the document: measured, the twin's value, its relative error, tag."""
    return [
        {
            "name": row["name"],
            "quantity": row["quantity"],
            "concurrency": row["load"]["concurrency"],
            "measured": row["low"],
            "value": row["value"],
            "error": row["error"],
            "tag": row["tag"],
        }
        for row in found["observations"]
    ]


def _worst(rows: Sequence[Json], tag: Literal["fitted", "predicted"]) -> Metric:
    errors = [abs(row["error"]) for row in rows if row["tag"] == tag and row["error"] is not None]
    return Metric(f"{tag} error", "share", "max", max(errors) if errors else None, len(errors), tag)
