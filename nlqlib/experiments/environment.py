"""What is measured: server identity, preflight, token counts, clocks, the layers of the serving path."""

import asyncio
import json
from dataclasses import asdict
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots, tokens
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.environment_machine import machine_row
from nlqlib.experiments.environment_startup import startup_metrics
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.prompt import build_messages
from nlqlib.records import UNCONSTRAINED, ChatRequest, Completion, Json, Metric, OutputContract
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify, server_token_count

MODULES = (
    "nlqlib.experiments.environment",
    "nlqlib.serving.identity",
    "nlqlib.twin.app",
    "nlqlib.nlq.prompt",
)
LAYERS = (
    ("Client", "Are requests really issued at the same time?", "client timestamps", True),
    (
        "Transport",
        "Do connections, pools or proxies serialise them?",
        "connections open, time to connect",
        True,
    ),
    ("Router", "How many in flight are sent to one replica?", "x-router-queue-ms, router metrics", False),
    ("Replica admission", "How many does the container accept at once?", "x-replica-queue-ms", False),
    (
        "Engine scheduler",
        "How many sequences are active in a batch?",
        "running and waiting on /metrics",
        None,
    ),
    ("Autoscaler", "Does scale-out hide what one replica can do?", "number of replicas over time", False),
)
"""Layer, question, signal, and whether this suite sees it: yes, no, or where the target has `/metrics`."""


IDENTITY = Spec("identity", {}, MODULES)


def preflight_spec() -> Spec:
    """The preflight: three exchanges on the first development question."""
    return Spec("preflight", {}, MODULES, question_workload("dev", n=1), requests=3)


def token_spec() -> Spec:
    """The prompt lengths: nothing is generated."""
    return Spec("prompt_tokens", {"prompt": "baseline"}, MODULES, question_workload("dev"))


def specs(study: Study, params: Json) -> list[Spec]:
    """Every point of the notebook under its `params`."""
    return [IDENTITY, preflight_spec(), token_spec()]


def identity(study: Study) -> Record:
    """The server's identity, and how long it took to start where we saw it, as a retained point."""

    def measure() -> Measured:
        server = study.run(identify(study.target))
        return Measured(server=server, metrics=startup_metrics(study.target))

    return study.point(IDENTITY, measure)


def identity_table(record: Record) -> pd.DataFrame:
    """What the endpoint says of itself, a dash where it says nothing; and the machine of the run."""
    told = asdict(record.server) if record.server else {}
    arguments = told.pop("engine_args", {})
    rows = {**told, **{f"engine: {k}": v for k, v in sorted(arguments.items())}, **machine_row(record)}
    shown = {k.replace("_", " "): "—" if v is None else _short(v) for k, v in rows.items()}
    return pd.DataFrame({"says": shown}).rename_axis("property")


def _short(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def preflight(study: Study) -> Record:
    """A few exchanges that the later pages rely on, each with what was found."""

    def measure() -> Measured:
        return study.run(_preflight(study))

    return study.point(preflight_spec(), measure)


async def _preflight(study: Study) -> Measured:
    server = await identify(study.target)
    question = load_questions("dev")[0].question
    messages = build_messages(question, study.catalog)
    client = study.target.client(study.client)
    try:
        asked = {name: _request(name, contract, messages) for name, contract in _arms(study).items()}
        answers = {name: await client.complete(request) for name, request in asked.items()}
        streamed = await _streamed(client, messages)
    finally:
        await client.aclose()
    checks = [*_checks(answers), _stream_check(streamed)]
    total = len(answers) + 1
    ok = sum(c.ok for c in (*answers.values(), streamed))
    return Measured(server=server, requests={"total": total, "ok": ok}, results={"checks": checks})


def _arms(study: Study) -> dict[str, OutputContract]:
    known = contracts(study.catalog)
    return {"plain": UNCONSTRAINED, "structured_outputs": known["structured_outputs"]}


def _request(name: str, contract: OutputContract, messages: Any) -> ChatRequest:
    return ChatRequest(f"preflight-{name}", tuple(messages), contract=contract)


async def _streamed(client: Client, messages: Any) -> Completion:
    return await client.complete(ChatRequest("preflight-stream", tuple(messages), stream=True))


def _checks(answers: dict[str, Completion]) -> list[Json]:
    plain, shaped = answers["plain"], answers["structured_outputs"]
    return [
        _check("a chat completion comes back", plain.outcome, plain.ok),
        _check("token usage is reported", _usage(plain), plain.output_tokens is not None),
        _check("structured output is honoured", _form(shaped), _is_object(shaped)),
    ]


def _stream_check(streamed: Completion) -> Json:
    found = streamed.outcome if not streamed.ok else f"{streamed.output_tokens} tokens"
    return _check(
        "streaming works and ends with usage", found, streamed.ok and streamed.output_tokens is not None
    )


def _check(what: str, found: str, ok: bool) -> Json:
    return {"check": what, "found": found, "ok": ok}


def _usage(completion: Completion) -> str:
    return f"{completion.prompt_tokens} prompt, {completion.output_tokens} output tokens"


def _form(completion: Completion) -> str:
    if not completion.ok:
        return f"{completion.outcome}: {completion.error}"
    return "a JSON object" if _is_object(completion) else "prose: the server ignores the field"


def _is_object(completion: Completion) -> bool:
    try:
        return isinstance(json.loads(completion.text or ""), dict)
    except ValueError:
        return False


def preflight_table(record: Record) -> pd.DataFrame:
    """One row for each check."""
    rows = [{**c, "ok": "yes" if c["ok"] else "NO"} for c in record.results["checks"]]
    return pd.DataFrame(rows).set_index("check")


def preflight_sentence(record: Record) -> str:
    """What the preflight says in one sentence."""
    failed = [c["check"] for c in record.results["checks"] if not c["ok"]]
    n = len(record.results["checks"])
    if not failed:
        return f"All {n} checks passed: the path works for one request at a time."
    return (
        f"{len(failed)} of {n} checks failed: {'; '.join(failed)}. Later pages that rely on them will say so."
    )


def token_counts(study: Study) -> Record:
    """Prompt tokens of the development questions: ours, and the server's own count."""

    def measure() -> Measured:
        return study.run(_token_counts(study))

    return study.point(token_spec(), measure)


async def _token_counts(study: Study) -> Measured:
    asked = {q.id: build_messages(q.question, study.catalog) for q in load_questions("dev")}
    ours = {i: tokens.count_chat(m) for i, m in asked.items()}
    theirs = await asyncio.gather(*(server_token_count(study.target, m) for m in asked.values()))
    rows = [
        {"id": i, "prompt_tokens": ours[i], "server_tokens": n} for i, n in zip(asked, theirs, strict=True)
    ]
    counts = pd.Series(list(ours.values()))
    metrics = [
        Metric("prompt_tokens", "tokens", "mean", float(counts.mean()), len(counts), "counted"),
        Metric("prompt_tokens", "tokens", "min", float(counts.min()), len(counts), "counted"),
        Metric("prompt_tokens", "tokens", "max", float(counts.max()), len(counts), "counted"),
    ]
    return Measured(metrics=metrics, samples=rows)


def token_table(record: Record) -> pd.DataFrame:
    """Mean and range of the prompt tokens, and how many counts the server agrees with."""
    rows = pd.DataFrame(record.samples())
    seen = rows.dropna(subset=["server_tokens"])
    agreed = (
        f"{(seen.prompt_tokens == seen.server_tokens).sum()} of {len(seen)}"
        if len(seen)
        else "not observable here"
    )
    shown = {stat: f"{record.value('prompt_tokens', stat):,.0f}" for stat in ("min", "mean", "max")}
    return pd.DataFrame({"prompt tokens": {**shown, "equal to the server's count": agreed}})


def token_figure(record: Record, study: Study) -> Figure:
    """The prompt lengths in the window, as a strip."""
    rows = pd.DataFrame(record.samples()).assign(set="dev")
    name, kind = study.target.name, study.target.tag
    return plots.strip(rows, "prompt_tokens", by="set", target=name, kind=kind, unit="tokens", x="prompt")


def token_alt(record: Record, study: Study) -> str:
    """Alternative text of `token_figure`."""
    low, mean, high = (record.value("prompt_tokens", s) or 0 for s in ("min", "mean", "max"))
    return (
        f"Prompt lengths of the 20 development questions on target {study.target.name}: "
        f"{low:,.0f} to {high:,.0f} tokens, mean {mean:,.0f}."
    )


def token_sentence(record: Record) -> str:
    """The spread in one sentence: how much of the prompt is shared."""
    low, high = (record.value("prompt_tokens", s) or 0 for s in ("min", "max"))
    return (
        f"Prompts differ by at most {high - low:.0f} tokens, all of them in the question at the end: "
        f"at least {100 * (1 - (high - low) / high):.1f} % of a prompt is the same for every question."
    )


def clock_table(study: Study) -> pd.DataFrame:
    """Which clock each quantity is read from on this target."""
    clock = {"virtual": "virtual time", "real": "event loop, real time", None: "none: missing"}[
        study.target.clock
    ]
    rows = {
        "latency (TTFT, ITL, E2E)": clock,
        "server-side phases": "the engine's own histograms" if "metrics" in study.target.can else "missing",
        "when a run happened": "UTC wall clock, once per point, kept beside the artifact",
    }
    return pd.DataFrame({"read from": rows}).rename_axis("quantity")


def layer_table(study: Study) -> pd.DataFrame:
    """The layers of the serving path, the question each raises, and what this target shows of it."""
    metrics = "metrics" in study.target.can
    rows = [
        {
            "layer": layer,
            "diagnostic question": question,
            "signal": signal,
            "visible here": "yes" if (metrics if seen is None else seen) else "not observable here",
        }
        for layer, question, signal, seen in LAYERS
    ]
    return pd.DataFrame(rows).set_index("layer")


ARTICLE = {
    "model": "Qwen/Qwen2.5-3B-Instruct",
    "engine version": "0.12.0",
    "accelerator": "NVIDIA L4",
    "window (tokens)": "4,096",
    "prompt (tokens)": "about 3,300",
}
"""The article's configuration, from "The Workload" and "Tracing Concurrency Through the Serving Path"."""


def against_article(identity: Record, counts: Record, study: Study) -> pd.DataFrame:
    """The article's configuration beside what answers here; a dash where the endpoint does not say."""
    told = identity.server
    mean = counts.value("prompt_tokens", "mean")
    here = {
        "model": told.model if told else None,
        "engine version": told.engine_version if told else None,
        "accelerator": told.accelerator if told else None,
        "window (tokens)": f"{told.max_model_len:,}" if told and told.max_model_len else None,
        "prompt (tokens)": f"{mean:,.0f}" if mean is not None else None,
    }
    column = f"target {study.target.name}"
    rows = {k: {"article": v, column: here[k] or "—"} for k, v in ARTICLE.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("property")
