"""The remedy in the words of the platform that may stand there: which setting to change.

Names as documented by Baseten (concurrency), Ray Serve (deployment configuration), Knative and KServe
(concurrency limits), Envoy (circuit breakers), nginx (upstream and limit_conn modules) and vLLM (engine
arguments).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nlqlib.analysis.diagnosis_cause import Cause
from nlqlib.analysis.diagnosis_layers import LayerName


@dataclass(frozen=True)
class Setting:
    """One setting of one platform; `{k}` is the limit found and `{n}` the concurrency wanted."""

    platform: str
    text: str


ROUTER: tuple[Setting, ...] = (
    Setting(
        "Baseten",
        "`concurrency_target` of the deployment's autoscaling settings (default 1): requests sent to one "
        "replica; set it to {n}",
    ),
    Setting(
        "Knative",
        "annotation `autoscaling.knative.dev/target` is the autoscaler's soft target; it must not lie above "
        "`containerConcurrency`",
    ),
    Setting(
        "Envoy",
        "`circuit_breakers.thresholds`: `max_connections`, `max_requests` and `max_pending_requests` of the "
        "cluster (1024 each by default); at least {n}",
    ),
    Setting(
        "nginx",
        "`max_conns` of the upstream's `server` lines (0: no limit) and any `limit_conn`; at least {n}",
    ),
)
REPLICA: tuple[Setting, ...] = (
    Setting(
        "Baseten",
        "`runtime.predict_concurrency` in config.yaml (default 1; Python models only): set it to {n}",
    ),
    Setting("Ray Serve", "`max_ongoing_requests` of the deployment (default 5): set it to {n}"),
    Setting(
        "KServe",
        "`spec.predictor.containerConcurrency` (0: no limit): set it to {n} or 0",
    ),
    Setting(
        "Knative",
        "`spec.template.spec.containerConcurrency` (0: no limit): set it to {n} or 0",
    ),
)
ENGINE: tuple[Setting, ...] = (
    Setting("vLLM", "`--max-num-seqs` (now {k} at once): set it to {n} or more and watch the KV cache"),
)
MEMORY: tuple[Setting, ...] = (
    Setting(
        "vLLM",
        "the KV cache is full: raise `--gpu-memory-utilization`, or lower `--max-model-len` and the tokens "
        "asked for; `--max-num-seqs` is not the limit",
    ),
)
BUDGET: tuple[Setting, ...] = (
    Setting(
        "vLLM",
        "`--max-num-batched-tokens`, the tokens of one step: raise it; else shorten the prompts, or let them "
        "share a beginning (`--enable-prefix-caching`); `--max-num-seqs` is set higher than what ran",
    ),
)
RATE: tuple[Setting, ...] = (
    Setting("nginx", "the rate of `limit_req_zone` and the `burst` of `limit_req`, if it is a rate"),
    Setting("Envoy", "the `token_bucket` of the `local_ratelimit` filter, if it is a rate"),
)
CLIENT: tuple[Setting, ...] = (
    Setting(
        "openai, httpx",
        "`http_client` with `limits=Limits(max_connections=…, max_keepalive_connections=…)` of at least {n}",
    ),
    Setting("aiohttp", "`TCPConnector(limit=0)`, or at least {n} (default 100)"),
    Setting("any client", "more processes, each with connections of its own; no lock around the request"),
)
BY_LAYER: Mapping[LayerName, tuple[Setting, ...]] = {
    "router": ROUTER,
    "replica": REPLICA,
    "client": CLIENT,
}


def remedies(cause: Cause, largest: int, memory: bool = False, spare: bool = False) -> dict[str, str]:
    """Platform → what to set, for the layer found or for every layer it may be; empty if nothing limits.

    `largest`: the largest concurrency that was wanted. `memory`: the KV cache is what is full.
    `spare`: the server declares more sequences than ever ran, so that they are not the limit.
    """
    if cause.kind in ("batching works", "cannot tell"):
        return {}
    engine = BUDGET if spare else ENGINE
    if memory:
        chosen = MEMORY
    elif cause.layer is not None:
        chosen = engine if cause.layer == "engine" else BY_LAYER[cause.layer]
    elif cause.refuses:
        chosen = ROUTER + REPLICA + RATE
    else:
        chosen = ROUTER + REPLICA if cause.seen else ROUTER + REPLICA + engine
    found: dict[str, str] = {}
    for setting in chosen:
        text = setting.text.format(k=cause.limit if cause.limit is not None else "?", n=largest)
        before = found.get(setting.platform)
        found[setting.platform] = f"{before}; and {text}" if before else text
    return found
