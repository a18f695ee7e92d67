"""Retained runs made by hand, for the claims table: sweeps of a twin, a local engine and endpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweep_records import ARTICLE, NAMES, REPEATED

from nlqlib.artifacts import Measured, PointKey, Record, Store
from nlqlib.records import Json, Metric, Rule, ServerIdentity, Workload

IDENTITY: Mapping[str, Json] = {
    "twin": {"name": "twin", "twin": "l4-qwen2.5-3b", "model": "Qwen/Qwen2.5-Coder-1.5B-Instruct"},
    "local": {"name": "local", "model": "Qwen/Qwen2.5-Coder-1.5B-Instruct"},
}
SERVER = {
    "twin": ServerIdentity("Qwen/Qwen2.5-3B-Instruct", engine="twin"),
    "local": ServerIdentity("Qwen/Qwen2.5-Coder-1.5B-Instruct", engine="vllm-cpu"),
    "l4": ServerIdentity("Qwen/Qwen2.5-3B-Instruct", engine="vllm", accelerator="NVIDIA L4"),
    "other": ServerIdentity("Some/Model-7B", engine="vllm", accelerator="NVIDIA L40S"),
}


def keep(
    root: Path,
    target: str,
    notebook: str,
    point: str,
    metrics: Mapping[tuple[str, str], float | None] | None = None,
    *,
    server: ServerIdentity | None = None,
    results: Json | None = None,
    rules: tuple[Rule, ...] = (),
    workload: str = "dev",
    tag: Any = "",
    identity: Json | None = None,
    samples: list[Json] | None = None,
    **params: Any,
) -> Record:
    """One retained point of `target`; parameters decide its fingerprint."""
    own: Any = tag or ("modelled" if target == "twin" else "measured")
    found = [Metric(n, "", s, v, 3, own) for (n, s), v in (metrics or {}).items()]
    asked = {"profile": "full", "client": "wire", **params}
    about = Workload(workload, "0" * 64, 20)
    declared = identity or dict(IDENTITY.get(target, {"name": target, "model": None}))
    key = PointKey(target, notebook, point, "point", asked, about, declared, "1")
    done = Measured(
        server=server or SERVER.get(target),
        requests={"total": 150, "ok": 150},
        metrics=found,
        samples=samples or [],
        validity=list(rules),
        results=results or {},
    )
    return Store(root).measure(key, lambda: done)


def level(root: Path, target: str, notebook: str, sweep: str, n: int, repeat: int = 0, **more: Any) -> Record:
    """One level of a sweep; `more` holds values by columns of `sweep_rows.rows`, and parameters."""
    values = {c: more.pop(c) for c in NAMES if c in more and c != "output_tokens"}
    metrics = {NAMES[c][:2]: v for c, v in values.items()}
    point = f"{sweep}-n{n:02d}" + (f"-r{repeat}" if repeat else "")
    return keep(root, target, notebook, point, metrics, sweep=sweep, concurrency=n, repeat=repeat, **more)


def knee(root: Path, target: str, faster: float = 1.0, **more: Any) -> None:
    """The article's own two sweeps as runs of `target`, `faster` times its throughput."""
    for n, (x, p95) in ARTICLE.items():
        level(root, target, "05_knee", "dense", n, x_run=x * faster, p95=p95, **more)
    for n, (x, p95) in REPEATED.items():
        for r in (1, 2, 3):
            off = faster * (1 + 0.001 * (r - 2))
            level(root, target, "05_knee", "repeated", n, r, x_run=x * off, p95=p95, **more)
