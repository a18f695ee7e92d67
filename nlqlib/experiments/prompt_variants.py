"""Prompts that share their beginnings to a planned degree, all made of the real one.

A prompt stays meaningful in every variant: the same rules and worked examples and one question, and where
something must differ, a line that says which desk asks. Where that line stands decides how much is shared,
because a prefix cache finds everything before the first token that is new, and nothing behind it.

How many tokens are found is planned here, request by request, by the block rules of `analysis.prefix_cache`.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from nlqlib import tokens
from nlqlib.analysis.prefix_cache import Lookup, PlannedCache, Prompt, hit_rate
from nlqlib.article import claim
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.prompt import FOLDER, clean, examples, filled
from nlqlib.records import Message

WARM, PARTIAL, DIVERSE = "warm shared prefix", "partially shared prefix", "diverse prefixes"
LEADING, COLD, SHORT = "leading-unique prompt", "cold cache", "shorter warm prompt"
SCENARIOS = (WARM, PARTIAL, DIVERSE, LEADING, COLD)
"""The five of the study, in the order of their hit rates; `SHORT` is beside them, to price a cached token."""

ARTICLE_RATES = {
    WARM: "prefix.shared.hit_rate",
    PARTIAL: "prefix.partial.hit_rate",
    DIVERSE: "prefix.diverse.hit_rate",
    LEADING: "prefix.leading_unique.hit_rate",
}
"""Scenario → the article's claim of its hit rate; it has no cold cache."""
VARIED = {
    WARM: "one system prompt; every question comes several times, and so is new once",
    PARTIAL: "one system prompt; no question comes twice",
    DIVERSE: "each request has a line of its own in the middle of the system prompt",
    LEADING: "a line of its own desk leads every prompt; some desks ask once, some again",
    COLD: "one system prompt, but no block that an earlier request computed can be used",
    SHORT: "as warm, with a prompt that ends before rules and worked examples",
}
"""Scenario → how its prompts differ, in words."""
WARMING_QUESTION = "Revenue by region"
"""Asked outside the measurement to put the shared beginning into the cache."""
RULES_BEGIN = "# Which query_type"
"""The heading of the first part that the shorter prompt leaves out."""
CUTS_TRIED = 5
"""Places tried for a line in the middle, around the one that is wanted."""
OFFICES = ("Leeds", "Porto", "Ghent", "Turin", "Malmö", "Graz", "Brno", "Cork", "Lyon", "Vigo")
TEAMS = ("pricing", "logistics", "purchasing", "marketing", "finance", "service", "returns", "planning")


@dataclass(frozen=True)
class Chat:
    """The messages of one request and the salt it is sent with."""

    messages: tuple[Message, ...]
    salt: str

    @cached_property
    def prompt(self) -> Prompt:
        """Its tokens, as a server of Qwen2.5 sees them."""
        return Prompt(tuple(tokens.encode(tokens.chat_text(self.messages))), self.salt)


@dataclass(frozen=True)
class Schedule:
    """What a cell sends, in this order, and what the cache should find of it."""

    warming: tuple[Chat, ...]
    """Sent before the measurement."""
    measured: tuple[Chat, ...]
    lookups: tuple[Lookup, ...]
    """Of each measured request."""
    blocks: int
    """Full blocks that the prompts of the cell fill, warming included."""

    @property
    def hit_rate(self) -> float | None:
        """Planned: hit tokens / prompt tokens."""
        return hit_rate(self.lookups)


@dataclass(frozen=True)
class Making:
    """What the prompts of a cell are made of."""

    system: str
    questions: tuple[str, ...]
    requests: int
    block_size: int
    salt: str
    """Keeps the cell apart from everything the server has seen before."""
    seed: int
    """Of the names of desks."""

    def chat(self, system: str, question: str, salt: str = "") -> Chat:
        """`question` under `system`; `salt` is added to the cell's."""
        messages = (
            {"role": "system", "content": system},
            {"role": "user", "content": f"Question: {clean(question)}"},
        )
        return Chat(messages, f"{self.salt}-{salt}" if salt else self.salt)

    def plain(self, i: int, salt: str = "") -> Chat:
        """Request `i` with the unchanged system prompt: the questions in turn."""
        return self.chat(self.system, self.question(i), salt)

    def question(self, i: int) -> str:
        """The `i`-th question, in turn."""
        return self.questions[i % len(self.questions)]

    def warming(self, salt: str = "") -> Chat:
        """What puts the system prompt into the cache."""
        return self.chat(self.system, WARMING_QUESTION, salt)

    def desk(self, i: int) -> str:
        """The line that says which desk asks; no two `i` or seeds give the same."""
        own = random.Random(f"{self.seed} {i}")
        name = f"{own.randrange(16**4):04x}-{i + 1}"
        return (
            f"Desk {name} of the {own.choice(OFFICES)} office asks, {own.choice(TEAMS)} team. "
            "Time, metrics, dimensions and rules are the same for every desk."
        )


def system_prompt(catalog: Catalog, shown: int | None = None) -> str:
    """The `baseline` system prompt with its first `shown` worked examples; `None`: all of them."""
    return filled((FOLDER / "baseline.md").read_text("utf-8"), catalog, examples("baseline")[:shown])


def short_prompt(catalog: Catalog) -> str:
    """The `baseline` system prompt up to its rules: less than half of it."""
    text = (FOLDER / "baseline.md").read_text("utf-8")
    return filled(text[: text.index(RULES_BEGIN)], catalog)


def article_rate(scenario: str) -> float | None:
    """The article's hit rate of `scenario`, a share; `None` where it has none."""
    return claim(ARTICLE_RATES[scenario]).value if scenario in ARTICLE_RATES else None


def schedule(scenario: str, making: Making) -> Schedule:
    """The requests of `scenario`, and what an empty cache of `making.block_size` should find of them."""
    cache = PlannedCache(making.block_size)
    warming, chosen = _MAKERS[scenario](making, cache)
    found = _lookups(warming, chosen, making.block_size)
    for chat in (*warming, *chosen):
        cache.lookup(chat.prompt)
    return Schedule(warming, chosen, found, cache.blocks)


def _lookups(warming: Sequence[Chat], measured: Sequence[Chat], block_size: int) -> tuple[Lookup, ...]:
    cache = PlannedCache(block_size)
    for chat in warming:
        cache.lookup(chat.prompt)
    return tuple(cache.lookup(chat.prompt) for chat in measured)


# ---- scenarios -------------------------------------------------------------------------------------------

Chosen = tuple[tuple[Chat, ...], tuple[Chat, ...]]
"""Warming and measured requests."""


def _warm(making: Making, cache: PlannedCache) -> Chosen:
    return (making.warming(),), tuple(making.plain(i) for i in range(making.requests))


def _partial(making: Making, cache: PlannedCache) -> Chosen:
    """Round by round under a salt of its own, so that no question is known from the round before."""
    rounds = [str(i // len(making.questions)) for i in range(making.requests)]
    warming = tuple(making.warming(salt) for salt in dict.fromkeys(rounds))
    return warming, tuple(making.plain(i, salt) for i, salt in enumerate(rounds))


def _cold(making: Making, cache: PlannedCache) -> Chosen:
    return (), tuple(making.plain(i, str(i)) for i in range(making.requests))


def _diverse(making: Making, cache: PlannedCache) -> Chosen:
    """A line of its own for every request, each time where the article's hit rate is best kept."""
    warming = making.warming()
    cache.lookup(warming.prompt)
    places = _places(making.system)
    rate = article_rate(DIVERSE) or 0.0

    def options(i: int, wanted: float) -> list[Chat]:
        near = sorted(places, key=lambda place: abs(place[1] - wanted))[:CUTS_TRIED]
        return [
            making.chat(inserted(making.system, at, making.desk(i)), making.question(i)) for at, _ in near
        ]

    return (warming,), _steered(making, rate, options, cache)


def _leading(making: Making, cache: PlannedCache) -> Chosen:
    """Either a new desk asks, or one that asked before, each time what keeps the article's hit rate best."""
    desks: list[int] = []

    def options(i: int, _: float) -> list[Chat]:
        new = max(desks, default=-1) + 1
        known = [desks[0]] if desks else []
        return [_led(making, desk, i) for desk in (new, *known)]

    def chosen(at: int) -> None:
        """The desk that asked goes to the end of the line of those that may ask again."""
        desk = max(desks, default=-1) + 1 if at == 0 else desks.pop(0)
        desks.append(desk)

    rate = article_rate(LEADING) or 0.0
    return (), _steered(making, rate, options, cache, chosen)


def _led(making: Making, desk: int, i: int) -> Chat:
    return making.chat(f"{making.desk(desk)}\n\n{making.system}", making.question(i))


_MAKERS: Mapping[str, Callable[[Making, PlannedCache], Chosen]] = {
    WARM: _warm,
    PARTIAL: _partial,
    DIVERSE: _diverse,
    LEADING: _leading,
    COLD: _cold,
    SHORT: _warm,
}


def _steered(
    making: Making,
    rate: float,
    options: Callable[[int, float], Sequence[Chat]],
    cache: PlannedCache,
    chosen: Callable[[int], None] = lambda at: None,
) -> tuple[Chat, ...]:
    """The requests, each that of its `options` after which hits / tokens of all so far is nearest `rate`.

    `options(i, wanted)` is told how many tokens request `i` should find; `chosen` which option was taken.
    """
    about = len(making.plain(0).prompt.ids)
    taken: list[Chat] = []
    length, hits = 0, 0
    for i in range(making.requests):
        offered = options(i, rate * (length + about) - hits)
        found = [cache.peek(chat.prompt) for chat in offered]
        missed = [abs(rate * (length + f.tokens) - hits - f.hits) for f in found]
        at = missed.index(min(missed))
        cache.lookup(offered[at].prompt)
        length, hits = length + found[at].tokens, hits + found[at].hits
        taken.append(offered[at])
        chosen(at)
    return tuple(taken)


# ---- places ----------------------------------------------------------------------------------------------

_PLACE = re.compile(r"^(?=- |# |Question: )", re.MULTILINE)


@lru_cache(maxsize=16)
def _places(system: str) -> tuple[tuple[int, int], ...]:
    """Where a line may stand without tearing anything apart: character, and tokens before it."""
    return tuple(
        (m.start(), len(tokens.encode(f"<|im_start|>system\n{system[: m.start()]}")))
        for m in _PLACE.finditer(system)
        if m.start()
    )


def inserted(system: str, at: int, line: str) -> str:
    """`system` with `line` before character `at`, which begins a line."""
    return f"{system[:at]}{line}\n{system[at:]}"
