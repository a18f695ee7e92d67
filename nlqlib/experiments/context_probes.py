"""Requests at the edge of the window: what is refused before generation, and what is shortened silently.

vLLM 0.12 refuses a request whose prompt and `max_tokens` exceed the window together (HTTP 400). Newer ones
(0.32) refuse only a prompt that is too long by itself, and shorten `max_tokens` of the others silently.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from nlqlib import tokens
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import warm
from nlqlib.experiments.context_caps import questions, sample
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import session
from nlqlib.load.batch import complete_all
from nlqlib.records import ChatRequest, Json
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Connection
from nlqlib.twin import model as twins
from nlqlib.twin.app import create_app

MODULES = ("nlqlib.experiments.context_probes",)
ROOM, LAST_ROOM, LAST_WANTED = 512, 6, 16
"""The article's `max_tokens` that did not fit; a prompt that leaves room for 6 tokens of 16 asked for."""
CLAMPING = "0.32.0"
FILLER = " and"
"""One token, however often it stands there."""
PROBE_SECONDS = 12.0
"""Of one probe on a real engine on two cores: some hundred tokens to compute, as many to generate."""


@dataclass(frozen=True)
class Probe:
    """A request whose prompt has `prompt_tokens`, asking for `max_tokens`."""

    name: str
    prompt_tokens: int
    max_tokens: int

    def beyond(self, window: int) -> int:
        """Tokens by which prompt and answer exceed `window`; 0 or less: they fit."""
        return self.prompt_tokens + self.max_tokens - window


@dataclass(frozen=True)
class Probing:
    """The probes of `built_for`, sent to an engine whose window is `window`."""

    window: int
    built_for: int
    quick: bool = False
    clamping: bool = False
    """The twin as an engine that shortens `max_tokens`."""

    @property
    def point(self) -> str:
        return f"probes-w{self.window}" + ("-clamping" if self.clamping else "")

    @property
    def probes(self) -> tuple[Probe, ...]:
        """In the order in which they are sent; in a quick run without the one that changes nothing."""
        w = self.built_for
        found = (
            Probe("fills the window", w - ROOM, ROOM),
            Probe("one token too many", w - ROOM + 1, ROOM),
            Probe(f"room for {LAST_ROOM} tokens", w - LAST_ROOM, LAST_WANTED),
            Probe("prompt too long by itself", w + 1, 1),
        )
        if self.window > w and self.quick:
            return found[2:]
        return found[1:] if self.quick else found


def spec(study: Study, probing: Probing) -> Spec:
    """The point that `probing` becomes."""
    n = len(probing.probes)
    about_s = n * PROBE_SECONDS if study.target.kind == "local" else None
    return Spec(probing.point, asdict(probing), MODULES, requests=n + 1, about_s=about_s)


def at(study: Study, probing: Probing) -> Study:
    """`study` on a fresh engine of the twin with drawn answers, clamping where asked; elsewhere as it is."""
    if study.target.kind != "twin":
        return study
    there = study.target.engine(words="synthetic", max_model_len=probing.window)
    if not probing.clamping:
        return replace(study, target=there)
    told = {**there.declared, "engine_version": CLAMPING}

    def connect() -> Connection:
        plain = there.connect()
        model = twins.load(told["twin"])
        limits = replace(model.limits, max_model_len=probing.window)
        clamps = replace(model, limits=limits, engine_version=CLAMPING)
        return replace(plain, app=create_app(plain.app.words, clamps))

    return replace(study, target=replace(there, declared=told, connect=connect))


def measure(study: Study, probing: Probing) -> Record:
    """The probes, retained already or sent now, one after the other."""
    there = at(study, probing)
    return there.point(spec(study, probing), lambda: there.run(_measure(there, probing)))


async def _measure(study: Study, probing: Probing) -> Measured:
    server = await identify(study.target)
    [short] = questions(study, 1)
    asked = [request(short, probe) for probe in probing.probes]
    async with session(study.target, study.client) as (client, _):
        await warm(client, [short])
        done, _waited = await complete_all(client, asked, 1, "probe")
    window = server.max_model_len or probing.window
    rows = [
        {"name": p.name, **sample(c, p.max_tokens, window)}
        | {"prompt_tokens": p.prompt_tokens, "counted_prompt_tokens": c.prompt_tokens}
        for p, c in zip(probing.probes, done, strict=True)
    ]
    counts: Json = {"total": len(rows), "ok": 0, **Counter[str](c.outcome for c in done)}
    return Measured(server=server, requests=counts, samples=rows, results={"clock": study.target.clock})


def request(short: ChatRequest, probe: Probe) -> ChatRequest:
    """`short` with filler before its question, so that the prompt has just as many tokens as `probe` says.

    The system message stays, so that a cached prefix serves it. Raises `ValueError` for a prompt that is too
    long already.
    """
    system, user = short.messages
    words = max(0, probe.prompt_tokens - tokens.count_chat(short.messages) - 6)
    while True:
        text = f"Ignore this line:{FILLER * words}\n{user['content']}"
        messages = (system, {**user, "content": text})
        missing = probe.prompt_tokens - tokens.count_chat(messages)
        if not missing:
            return replace(short, request_id=probe.name, messages=messages, max_tokens=probe.max_tokens)
        if words + missing < 0:
            raise ValueError(
                f"a prompt of {probe.prompt_tokens} tokens cannot be made of one that has "
                f"{tokens.count_chat(short.messages)}: probe a larger window"
            )
        words += missing


FATES = {
    "refused": "refused before generation (HTTP 400)",
    "clamped": "max_tokens shortened silently: finish_reason length where prompt and answer fill the window",
    "hidden": "answered: max_tokens was shortened, and nothing shows it",
    "cut": "cut at max_tokens",
    "answered": "answered",
}


def fate(row: Json, window: int) -> str:
    """What became of a probe, as a key of `FATES`; another failure is its own outcome."""
    if row["outcome"] == "context_overflow":
        return "refused"
    if row["clamped"]:
        return "clamped"
    if row["outcome"] == "length":
        return "cut"
    if row["outcome"] != "ok":
        return str(row["outcome"])
    return "hidden" if row["prompt_tokens"] + row["max_tokens"] > window else "answered"


def behaviour(records: Sequence[Record]) -> str:
    """`refuses`, `shortens`, or `cannot tell`: how an engine treats a request that fits only in part."""
    fates = [
        fate(row, int(r.params["window"]))
        for r in records
        for row in r.samples()
        if row["prompt_tokens"] < int(r.params["window"]) < row["prompt_tokens"] + row["max_tokens"]
    ]
    if fates and all(f == "refused" for f in fates):
        return "refuses"
    return "shortens" if any(f in ("clamped", "hidden") for f in fates) else "cannot tell"
