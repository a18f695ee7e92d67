"""Who answers: model, engine, version and window, as the endpoint itself says.

What an endpoint does not say is `None`. Nothing here measures; each page is fetched once.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from nlqlib.records import Json, ServerIdentity
from nlqlib.serving.inprocess import AsgiTransport
from nlqlib.serving.target import Connection, Target, TargetError

PATIENCE_S = 10.0


@contextlib.asynccontextmanager
async def reader(there: Connection) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client for the endpoint's small pages; it follows no proxy and no redirect."""
    endpoint = there.endpoint
    headers = dict(endpoint.headers)
    if (authorization := endpoint.authorization()) is not None:
        headers["authorization"] = authorization
    transport = AsgiTransport(there.app) if there.app is not None else None
    async with httpx2.AsyncClient(
        base_url=endpoint.base_url,
        headers=headers,
        transport=transport,
        verify=endpoint.tls_context() or True,
        trust_env=False,
        timeout=PATIENCE_S,
    ) as client:
        yield client


async def identify(target: Target) -> ServerIdentity:
    """The identity of `target`'s server. Raises `TargetError` when it is not there or not as declared."""
    there = target.connection
    async with reader(there) as client:
        card = await _model_card(client, there)
        version = await _json(client, _root(there) + "/version")
        config = await _cache_config(client, there)
    engine = there.engine
    return ServerIdentity(
        model=card.get("id"),
        revision=engine.get("revision"),
        engine=engine.get("engine") or ("vllm" if version else None),
        engine_version=engine.get("version") or (version or {}).get("version"),
        engine_args={**engine.get("args", {}), **config},
        accelerator=engine.get("accelerator"),
        max_model_len=card.get("max_model_len"),
    )


async def sole_model(there: Connection) -> str:
    """The name of the only model served. Raises `TargetError` where there are several or none."""
    async with reader(there) as client:
        return str((await _model_card(client, there))["id"])


def _root(there: Connection) -> str:
    return there.endpoint.base_url.rstrip("/").removesuffix("/v1")


async def _model_card(client: httpx2.AsyncClient, there: Connection) -> Json:
    """The card of the declared model, or of the only one served."""
    wanted = there.endpoint.model
    page = await _json(client, there.endpoint.base_url.rstrip("/") + "/models", required=True)
    cards = {card["id"]: card for card in (page or {}).get("data", [])}
    if wanted is None and len(cards) == 1:
        return dict(next(iter(cards.values())))
    if wanted is None:
        raise TargetError(
            f"the endpoint serves several models: set MODEL to one of {', '.join(sorted(cards))}"
        )
    if wanted not in cards:
        raise TargetError(
            f"the endpoint does not serve {wanted}: set MODEL to one of {', '.join(sorted(cards))}"
        )
    return dict(cards[wanted])


async def _json(client: httpx2.AsyncClient, url: str, required: bool = False) -> Json | None:
    """The JSON object at `url`, or `None` where there is none and it is not `required`."""
    try:
        response = await client.get(url)
    except httpx2.TransportError as error:
        if required:
            raise TargetError(f"the endpoint cannot be reached ({error!s}): is it running?") from error
        return None
    if required and response.status_code in (401, 403):
        raise TargetError(
            f"the endpoint refuses the key (HTTP {response.status_code}): name its variable in API_KEY_ENV"
        )
    if response.status_code != 200:
        if required:
            raise TargetError(
                f"the endpoint answers /models with HTTP {response.status_code}: is the URL right?"
            )
        return None
    return _object(response, required)


def _object(response: httpx2.Response, required: bool) -> Json | None:
    try:
        page = response.json()
    except ValueError as error:
        if required:
            raise TargetError("the endpoint's /models is not JSON: is the URL that of the API?") from error
        return None
    return page if isinstance(page, dict) else None


async def _cache_config(client: httpx2.AsyncClient, there: Connection) -> Json:
    """`num_gpu_blocks` and `block_size` as `/metrics` gives them; empty where there is no such page."""
    for url in there.metrics_urls:
        with contextlib.suppress(httpx2.TransportError):
            response = await client.get(url)
            if response.status_code == 200:
                return cache_config(response.text)
    return {}


def cache_config(exposition: str) -> Json:
    """KV-cache settings from the text of `/metrics` (vLLM: labels of `vllm:cache_config_info`)."""
    wanted = ("num_gpu_blocks", "block_size", "enable_prefix_caching", "gpu_memory_utilization")
    for family in text_string_to_metric_families(exposition):
        if family.name == "vllm:cache_config_info":
            labels: dict[str, Any] = family.samples[0].labels
            return {k: labels[k] for k in wanted if labels.get(k) not in (None, "None")}
    return {}


async def server_token_count(target: Target, messages: Sequence[Mapping[str, str]]) -> int | None:
    """Prompt tokens of `messages` by the server's own `/tokenize`; `None` where it has none."""
    there = target.connection
    body = {"model": there.endpoint.model, "messages": [dict(m) for m in messages]}
    async with reader(there) as client:
        try:
            response = await client.post(_root(there) + "/tokenize", json=body)
        except httpx2.TransportError:
            return None
    page = _object(response, required=False) if response.status_code == 200 else None
    count = (page or {}).get("count")
    return count if isinstance(count, int) else None
