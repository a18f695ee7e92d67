"""How the page's requests are sent to an endpoint that does not take every field of them.

A server ignores a field that it does not know with HTTP 200, or it refuses the whole request. Refused fields
would fail every request of the page, so an endpoint that is not ours is asked beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from nlqlib.artifacts import Record
from nlqlib.experiments.contract_basis import contract_sentence
from nlqlib.experiments.output_contracts import PRETTY
from nlqlib.experiments.prompt_variants import Chat, Making
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Client
from nlqlib.serving.target import TargetError

SALT, EOS = "cache_salt", "ignore_eos"
INSTEAD = {
    SALT: "a line of its own before every prompt stands in for the salt",
    EOS: "answers end where the model ends them",
}
"""Field → what the page does without it."""
MARK = 6
"""Characters of a salt that is spelled out: few enough to share a block of 16 tokens with what follows."""


@dataclass(frozen=True)
class Sending:
    """How requests are sent."""

    contract: str = PRETTY.contract
    """By which contract an intent is asked for."""
    refused: tuple[str, ...] = ()
    """Fields that are left out."""


USUAL = Sending()


async def refused(client: Client, probe: ChatRequest) -> tuple[str, ...]:
    """Which of `probe.extra` the endpoint refuses; a single request where it takes them all.

    Raises `TargetError` where it refuses the request without any of them too.
    """
    if not turned_away(await client.complete(probe)):
        return ()
    bare = replace(probe, extra={})
    done = await client.complete(bare)
    if turned_away(done):
        raise TargetError(
            f"the endpoint refuses a plain chat completion ({done.error}): see to that first; "
            "nothing was retained"
        )
    alone = {name: replace(bare, extra={name: value}) for name, value in probe.extra.items()}
    return tuple([name for name, asked in alone.items() if turned_away(await client.complete(asked))])


def turned_away(done: Completion) -> bool:
    """Did the endpoint refuse the request itself? A failure that may pass says nothing about its fields."""
    return done.outcome == "http_4xx"


class SpelledOut(Making):
    """Salts as a short line before every prompt: apart by its first block, as a salt would keep it."""

    def chat(self, system: str, question: str, salt: str = "") -> Chat:
        """`question` under `system`, led by what the salt comes to."""
        salted = super().chat(system, question, salt)
        head, *others = salted.messages
        return Chat(({**head, "content": f"{mark(salted.salt)}\n{head['content']}"}, *others), "")


def mark(salt: str) -> str:
    """`salt` as a few characters of a prompt."""
    return sha256(salt.encode()).hexdigest()[:MARK]


def sent(record: Record) -> Sending:
    """How the requests of a cell were sent."""
    told = record.results
    return Sending(told.get("contract", PRETTY.contract), tuple(told.get("refused", ())))


def sent_sentence(records: Sequence[Record]) -> str:
    """What the page does otherwise than usual on this endpoint; empty where it does nothing."""
    ways = [sent(record) for record in records]
    names = dict.fromkeys(name for way in ways for name in way.refused)
    other = dict.fromkeys(way.contract for way in ways if way.contract != PRETTY.contract)
    told = [f"This endpoint refuses `{name}`: {INSTEAD[name]}." for name in names]
    return " ".join([*told, *map(contract_sentence, other)])
