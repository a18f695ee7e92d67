"""Which ways of asking for compact JSON does this server honour? One small request per way, each judged.

A server answers HTTP 200 to a field that it does not know. So every request carries a schema that the
question does not suggest, in a prompt that asks for another layout: keys by the schema show that the field
was read, JSON without whitespace that compactness was enforced. A field without a trace is named as ignored.
"""

import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from nlqlib import paths
from nlqlib.analysis.compactness import layout
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.compact_guard import BROKEN, keep_nothing_lost
from nlqlib.experiments.conditions import Condition
from nlqlib.experiments.output_contracts import BASIC, basic
from nlqlib.experiments.recording import recorded
from nlqlib.experiments.study import Spec, Study
from nlqlib.load.batch import complete_all
from nlqlib.locking import utc_now
from nlqlib.nlq.compact_grammar import SERVER_FLAG, compact_ebnf, compact_guidance, compact_regex
from nlqlib.nlq.form import BadJson, read_json, schema_problem
from nlqlib.records import ChatRequest, Completion, Json, OutputContract
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target, TargetError
from nlqlib.twin.answer import HINT
from nlqlib.twin.recordings import save_recordings, slug

MODULES = ("nlqlib.experiments.contract_probe", "nlqlib.twin.app")
Verdict = Literal["honoured", "partly", "ignored", "refused", "cut", "no answer", "cannot tell"]
MAX_TOKENS = 64
CONCURRENCY = 4
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "animal": {"type": "string", "enum": ["okapi", "quagga"]},
        "legs": {"type": "integer", "minimum": 1, "maximum": 10},
        "seen_in": {"type": "string", "pattern": "^(19|20)[0-9]{2}$"},
    },
    "required": ["animal", "legs", "seen_in"],
    "additionalProperties": False,
}
"""Nothing that the question suggests: who answers by it was made to."""
MESSAGES = (
    {
        "role": "system",
        "content": "Reply with one JSON object, pretty-printed with an indent of two spaces, "
        "never on one line.",
    },
    {"role": "user", "content": 'Which fruit is yellow and bent? Use the keys "fruit" and "colour".'},
)


@dataclass(frozen=True)
class Way:
    """One way of asking, and what it should bring about."""

    name: str
    field: str
    """The request field in question, as its documentation writes it."""
    promises: Literal["nothing", "form", "compact"]
    fields: Json
    form: str = ""
    """The form of output (`output_contracts`) that rests on this way."""


def _structured(**body: object) -> Json:
    return {"structured_outputs": body}


def ways() -> tuple[Way, ...]:
    """Every way, the controls first: nothing asked, and the schema without a word on whitespace."""
    wrapped = {"type": "json_schema", "json_schema": {"name": "probe", "schema": SCHEMA, "strict": True}}
    flexible, inflexible = "disable_any_whitespace", "whitespace_pattern"
    return (
        Way("nothing", "—", "nothing", {}),
        Way("schema", "structured_outputs.json", "form", _structured(json=SCHEMA), "pretty"),
        Way("response_format", "response_format", "form", {"response_format": wrapped}),
        Way("guided_json", "guided_json", "form", {"guided_json": SCHEMA}),
        Way(flexible, flexible, "compact", _structured(json=SCHEMA, disable_any_whitespace=True)),
        Way(inflexible, inflexible, "compact", _structured(json=SCHEMA, whitespace_pattern="")),
        Way("guidance", "x-guidance", "compact", _structured(json=compact_guidance(SCHEMA)), "guidance"),
        Way(
            "regex", "structured_outputs.regex", "compact", _structured(regex=compact_regex(SCHEMA)), "regex"
        ),
        Way(
            "grammar",
            "structured_outputs.grammar",
            "compact",
            _structured(grammar=compact_ebnf(SCHEMA)),
            "grammar",
        ),
    )


@dataclass(frozen=True)
class Finding:
    """What became of one way."""

    way: str
    field: str
    promises: str
    verdict: Verdict
    reason: str
    text: str | None
    output_tokens: int | None
    form: str = ""


def probe_requests(engine: Json | None = None) -> list[ChatRequest]:
    """The probe's requests, to a server that was started with the flags `engine`."""
    asked = [OutputContract(way.name, way.fields, None, engine or {}) for way in ways()]
    return [ChatRequest(one.name, MESSAGES, MAX_TOKENS, contract=one) for one in asked]


def judge_probe(answers: Mapping[str, Completion]) -> list[Finding]:
    """One finding for each way, from the answers by the name of the way."""
    bare, plain = answers["nothing"], answers["schema"]
    return [_finding(way, answers[way.name], bare, plain) for way in ways()]


def _finding(way: Way, done: Completion, bare: Completion, plain: Completion) -> Finding:
    verdict, reason = _spoken(done) or _judged(way, done, bare, plain)
    return Finding(
        way.name, way.field, way.promises, verdict, reason, done.text, done.output_tokens, way.form
    )


def _spoken(done: Completion) -> tuple[Verdict, str] | None:
    """The verdict where no whole answer came back."""
    if done.outcome == "length" or done.finish_reason == "length":
        return "cut", f"no end within {MAX_TOKENS} tokens"
    if done.ok:
        return None
    refused = done.outcome == "http_4xx" and HINT not in (done.error or "")  # what the twin never heard
    return "refused" if refused else "no answer", done.error or done.outcome


def _judged(way: Way, done: Completion, bare: Completion, plain: Completion) -> tuple[Verdict, str]:
    found, follows = layout(done.text), keeps(done.text)
    if way.promises == "nothing":
        return "cannot tell", f"the control: {found}" + (", and by the schema unasked" if follows else "")
    if not follows:
        return "ignored", f"HTTP 200, but the answer does not keep to the schema ({found})"
    if keeps(bare.text) and bare.ok:
        return "cannot tell", "the model answers by the schema unasked"
    if way.promises == "form":
        return "honoured", f"keys and values by the schema ({found})"
    return _laid_out(found, plain)


def _laid_out(found: str, plain: Completion) -> tuple[Verdict, str]:
    """What the layout of an answer by the schema says of a way that promises compactness."""
    if plain.ok and keeps(plain.text) and layout(plain.text) == "compact":
        return "cannot tell", "the server writes minified JSON without being asked"
    if found == "compact":
        return "honoured", "minified, against the prompt"
    if found == "spaced":
        return "partly", "on one line, but with spaces"
    return "ignored", "HTTP 200, by the schema, but with the whitespace that the prompt asked for"


def keeps(text: str | None) -> bool:
    """Does `text` keep to the probe's schema?"""
    try:
        return schema_problem(read_json(text or ""), SCHEMA) is None
    except BadJson:
        return False


# ---- a point ---------------------------------------------------------------------------------------------


def probe_spec(flagged: bool = False) -> Spec:
    """The probe as a point; `flagged`: of a server with the flag for compact JSON."""
    sent = len(ways())
    name = "probe-flagged" if flagged else "probe"
    return Spec(
        name, {"max_tokens": MAX_TOKENS}, MODULES, requests=sent, concurrency=CONCURRENCY, about_s=sent * 2
    )


def flagged_study(study: Study) -> Study:
    """`study` on a server with the flag for compact JSON. Raises `TargetError` where that is not ours."""
    return replace(study, target=study.target.engine(**SERVER_FLAG))


def probe(study: Study, flagged: bool = False) -> Record:
    """Ask the server in every way and keep what was found.

    Raises `RuntimeError` where a request was lost or none was answered: nothing is retained then.
    """

    def measure() -> Measured:
        asked = probe_requests(SERVER_FLAG if flagged else None)
        answers = study.run(_answers(study.target, asked))
        keep_nothing_lost(((one.outcome, one.error) for one in answers.values()), "the probe", BROKEN)
        found = judge_probe(answers)
        told = [asdict(one) for one in found]
        ok = sum(one.verdict not in ("refused", "no answer", "cut") for one in found)
        server = study.run(identify(study.target))
        return Measured(server=server, requests={"total": len(told), "ok": ok}, results={"findings": told})

    return study.point(probe_spec(flagged), measure)


def found_on(target: Target, engine: Json | None = None) -> list[Finding]:
    """Probe `target`, which was started with the flags `engine`, now."""
    return judge_probe(target.run(_answers(target, probe_requests(engine))))


async def _answers(target: Target, asked: Sequence[ChatRequest]) -> dict[str, Completion]:
    client = target.client("wire")
    try:
        done, _ = await complete_all(client, asked, CONCURRENCY, "probe")
    finally:
        await client.aclose()
    return {one.request_id: one for one in done}


def findings(record: Record) -> list[Finding]:
    """The findings of a retained probe."""
    return [Finding(**row) for row in record.results["findings"]]


def honoured(found: Sequence[Finding]) -> list[str]:
    """The forms of output that rest on a way which was honoured."""
    return [one.form for one in found if one.form and one.verdict == "honoured"]


def already_compact(found: Sequence[Finding]) -> bool:
    """Does the server write minified JSON for a plain schema?"""
    asked_by = schema_contract(found)
    plain = next((one for one in found if BASIC.get(one.way) == asked_by), None)
    return plain is not None and plain.verdict == "honoured" and layout(plain.text) == "compact"


def ignored(found: Sequence[Finding]) -> list[str]:
    """The request fields that were answered with HTTP 200 and left no trace."""
    return [one.field for one in found if one.verdict == "ignored"]


def schema_contract(found: Sequence[Finding]) -> str:
    """The contract by which this server is asked for the schema, whatever the whitespace."""
    return basic({one.way: one.verdict for one in found})


# ---- recording -------------------------------------------------------------------------------------------


def record_probe(target: Target, flagged: bool = False) -> Path:
    """Record the answers of a real server to the probe, for the twin to replay; the file written.

    A request that the server refuses leaves nothing to replay. Raises `TargetError` where no answer came.
    """
    if flagged:
        with closing(target.engine(**SERVER_FLAG)) as there:
            return _record(there, SERVER_FLAG)
    return _record(target, None)


def _record(target: Target, engine: Json | None) -> Path:
    asked = probe_requests(engine)
    server = target.run(identify(target))
    answers = target.run(_answers(target, [replace(one, want_token_ids=True) for one in asked]))
    kept = {name: done for name, done in answers.items() if done.token_ids is not None}
    if server.model is None or not kept:
        reason = next((done.error for done in answers.values() if done.error), "no token ids came along")
        raise TargetError(f"the probe recorded nothing: {reason}")
    name = "compact_flag" if engine else "none"
    how = Condition("probe", "probe", name)
    heard = [one for one in asked if one.request_id in kept]
    made = [recorded(one, kept[one.request_id], server.model, how, CONCURRENCY) for one in heard]
    told = {k: v for k, v in asdict(server).items() if k != "model" and v is not None}
    about = {"model": server.model, "server": told, "set": "probe", "contract": name, "prompt": "probe"}
    path = paths.RECORDINGS / slug(server.model) / f"probe-{name}.jsonl"
    save_recordings(path, made, {**about, "recorded_at": utc_now(), "machine": platform.machine()})
    return path
