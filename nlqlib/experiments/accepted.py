"""Requests as an endpoint takes them: the schema asked for by the first contract that it does not refuse.

Servers that are not vLLM, and old or strict ones, answer HTTP 400 to a field they do not know. Where the load
is what counts, a level is not lost for that: a first warm-up request finds the contract, and each level says
by which it asked. Whether a field that is taken is honoured as well, only the probe of pages 08 to 10 tells.
"""

from collections.abc import Sequence
from dataclasses import replace

from nlqlib.artifacts import Measured
from nlqlib.experiments.output_contracts import BASIC
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.pipeline import contracts
from nlqlib.records import UNCONSTRAINED, ChatRequest, Completion, OutputContract, Rule
from nlqlib.serving.client import Client

REFUSALS = (400, 422)
"""HTTP statuses by which a server says that it does not understand a field."""


async def accepted(
    study: Study, client: Client, asked: Sequence[ChatRequest], warming: int
) -> list[ChatRequest]:
    """`asked`, by the first contract of which the endpoint takes the first request; `warming` prompts sent.

    What is found holds for all later levels of the target in this process; until then a contract that is
    refused costs two requests more, the second to be sure. A contract of the caller's own is left as it is,
    and so is everything where every contract is refused, or nothing is warmed up and nothing found yet: each
    request then fails, and says why.
    """
    found, ways = study.target.learnt, _ways(asked[0].contract, study.catalog)
    ways = [way for way in ways if way.name == found.get("contract")] or ways
    if not warming:
        return _by(ways[0], asked) if "contract" in found else list(asked)
    for contract in ways:
        tried = _by(contract, asked)
        if await _taken(client, tried[0]) or await _taken(client, tried[0]):
            if contract.name != asked[0].contract.name:
                found["contract"] = contract.name
            await warm(client, tried[1:warming])
            return tried
    return list(asked)


async def _taken(client: Client, request: ChatRequest) -> bool:
    """Does the endpoint understand the fields of `request`? Whatever else goes wrong says nothing of them."""
    done = (await warm(client, [request]))[0]
    return not (done.outcome == "http_4xx" and done.http_status in REFUSALS)


def _by(contract: OutputContract, asked: Sequence[ChatRequest]) -> list[ChatRequest]:
    return [replace(request, contract=contract) for request in asked]


def _ways(usual: OutputContract, catalog: Catalog) -> list[OutputContract]:
    """`usual`, then the others that ask for the same schema, then none at all."""
    if usual.name not in BASIC.values():
        return [usual]
    known = contracts(catalog)
    others = [known[name] for name in (*BASIC.values(), UNCONSTRAINED.name) if name != usual.name]
    return [usual, *others]


async def warm(client: Client, asked: Sequence[ChatRequest]) -> list[Completion]:
    """Each prompt once, in turn, so that its prefix is cached; one token of answer is enough for that."""
    return [
        await client.complete(replace(request, request_id=f"warm-{request.request_id}", max_tokens=1))
        for request in asked
    ]


def noted(found: Measured, sent: Sequence[ChatRequest], usual: str) -> Measured:
    """`found`, and among its rules by which contract was asked where that was not the `usual` one."""
    name = sent[0].contract.name
    if name == usual:
        return found
    rule = Rule(f"schema asked for by (`{usual}` is refused)", name, usual, None)
    return replace(found, validity=[*found.validity, rule], results={**found.results, "contract": name})
