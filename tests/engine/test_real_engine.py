"""What only a real vLLM can confirm: form of answers, the recordings, and our token counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from nlqlib import paths, tokens
from nlqlib.experiments.heard import KINDS
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.intent import Kind
from nlqlib.nlq.pipeline import contracts, prepare
from nlqlib.nlq.planner import kind_request, slots_request
from nlqlib.nlq.prompt import COMPACT_PROMPTS, PROMPTS, build_messages
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import ClientKind, Endpoint, make_client
from nlqlib.serving.running import run
from nlqlib.twin.recordings import Recordings, load_recordings, slug

pytestmark = pytest.mark.engine
CATALOG: Catalog = load_catalog()
THREE = load_questions("dev")[:3]


def ask(engine: Any, request: ChatRequest, kind: ClientKind = "wire") -> Completion:
    async def go() -> Completion:
        client = make_client(kind, Endpoint(engine.base_url, engine.model, timeout_s=300))
        try:
            return await client.complete(request)
        finally:
            await client.aclose()

    return run(go())


def constrained(question: Question) -> ChatRequest:
    contract = contracts(CATALOG)["structured_outputs"]
    return replace(prepare(question.question, CATALOG, contract=contract), want_token_ids=True)


@pytest.fixture(scope="module")
def recordings(engine: Any) -> Recordings:
    return load_recordings(paths.RECORDINGS / slug(engine.model))


@pytest.fixture(scope="module")
def fresh(engine: Any) -> dict[str, Completion]:
    """A constrained answer to each of the three questions, one after the other on a warm prefix."""
    ask(engine, replace(constrained(THREE[0]), max_tokens=1))
    return {q.id: ask(engine, constrained(q)) for q in THREE}


@pytest.mark.parametrize("question", THREE, ids=lambda q: q.id)
def test_structured_output_keeps_to_the_wire_schema(fresh: dict[str, Completion], question: Question) -> None:
    done = fresh[question.id]
    contract = contracts(CATALOG)["structured_outputs"]
    assert done.outcome == "ok", done.error
    assert classify_answer(done.text, done.finish_reason, contract) == ("ok", None)


@pytest.mark.parametrize("question", THREE, ids=lambda q: q.id)
def test_a_fresh_generation_has_as_many_tokens_as_its_recording(
    fresh: dict[str, Completion], recordings: Recordings, question: Question
) -> None:
    done = fresh[question.id]
    recorded = recordings.find(constrained(question).body(recordings.model))
    assert recorded is not None
    assert done.output_tokens == len(recorded.token_ids)
    assert done.prompt_tokens == recorded.prompt_tokens


Asks = Callable[[str], Sequence[Mapping[str, str]]]
"""The messages that ask a question."""


def prompt(name: str) -> Asks:
    return lambda question: build_messages(question, CATALOG, name)


def slots(kind: Kind) -> Asks:
    return lambda question: slots_request(question, kind, CATALOG).messages


ASKED: dict[str, Asks] = {
    **{name: prompt(name) for name in (*PROMPTS, *COMPACT_PROMPTS)},
    "planner, kind": lambda question: kind_request(question, CATALOG).messages,
    **{f"planner, slots of {kind}": slots(kind) for kind in KINDS},
}
"""Every prompt of the suite."""
OTHERS = ("Größte Umsätze je “Region” – 2024?", "refunds  by\tchannel <|im_end|> 🙂 in Q2")
"""Two that are in no set, with what a tokenizer may split otherwise."""


@pytest.mark.parametrize("name", ASKED)
def test_tokenize_gives_our_ids_on_every_prompt(name: str, engine: Any) -> None:
    questions = [q.question for q in load_questions("dev")] if name == "baseline" else []
    root = engine.base_url.removesuffix("/v1")
    with httpx2.Client(trust_env=False, timeout=60) as client:
        for question in (*questions, *OTHERS):
            messages = [dict(message) for message in ASKED[name](question)]
            body = {"model": engine.model, "messages": messages}
            told = client.post(f"{root}/tokenize", json=body).json()
            assert told["tokens"] == tokens.encode(tokens.chat_text(messages)), question


def test_both_clients_return_the_same_answer(engine: Any, fresh: dict[str, Completion]) -> None:
    again = ask(engine, constrained(THREE[0]), "openai")
    assert again.text == fresh[THREE[0].id].text
    assert again.output_tokens == fresh[THREE[0].id].output_tokens


def test_a_streamed_answer_has_a_first_token_before_its_end(engine: Any) -> None:
    done = ask(engine, replace(constrained(THREE[0]), stream=True, max_tokens=8))
    assert done.outcome == "length"
    assert done.output_tokens == 8
    assert done.start_s is not None and done.first_token_s is not None and done.end_s is not None
    assert done.start_s < done.first_token_s < done.end_s


def test_a_prompt_beyond_the_window_is_a_context_overflow(engine: Any) -> None:
    long = ChatRequest("long", ({"role": "user", "content": "revenue by region " * 2_000},), max_tokens=8)
    assert ask(engine, long).outcome == "context_overflow"


def test_another_model_is_refused_as_such(engine: Any) -> None:
    other = make_other(engine)
    assert other.outcome == "wrong_model"


def make_other(engine: Any) -> Completion:
    async def go() -> Completion:
        client = make_client("wire", Endpoint(engine.base_url, "somebody/else"))
        try:
            return await client.complete(constrained(THREE[0]))
        finally:
            await client.aclose()

    return run(go())
