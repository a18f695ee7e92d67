"""Question → intent → SQL → rows: each stage has its own outcome, and none of them raises."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from wire_intents import CATALOG, text, where

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.pipeline import Answer, answer, answer_sync, contracts, prepare, read
from nlqlib.nlq.prompt import EmptyQuestion, LongQuestion, build_messages
from nlqlib.nlq.schema import wire_schema
from nlqlib.nlq.warehouse import Warehouse
from nlqlib.paths import QUESTIONS
from nlqlib.records import OUTCOMES, UNCONSTRAINED, ChatRequest, Completion

ASKED = contracts(CATALOG)["structured_outputs"]
DEV = [json.loads(line) for line in (QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()]
QUESTION = "revenue by region"
SERVING, FORM = [False, None, None, None], [True, False, None, None]
INTENT, SQL = [True, True, False, None], [True, True, True, False]


def saying(words: str | None, **fields: Any) -> Completion:
    return Completion("question", **{"outcome": "ok", "finish_reason": "stop", "text": words, **fields})


def outcomes(found: Answer) -> list[bool | None]:
    return [found.stage(name).ok for name in ("serving", "form", "intent", "sql")]


def test_a_good_answer_ends_in_rows(catalog: Catalog, warehouse: Warehouse):
    found = read(QUESTION, saying(text()), catalog, warehouse, ASKED)
    assert found.ok and found.error is None
    assert outcomes(found) == [True, True, True, True]
    assert found.raw == found.final and found.raw is not None and found.query is not None
    assert found.result is not None and [c.name for c in found.result.columns] == ["region", "revenue"]
    assert found.result.sql == found.query.sql and len(found.result.rows) == 11


@pytest.mark.parametrize("question", DEV, ids=[q["id"] for q in DEV])
def test_every_dev_gold_goes_all_the_way(question: dict[str, Any], catalog: Catalog, warehouse: Warehouse):
    said = saying(json.dumps(question["gold"], indent=2))
    assert read(question["question"], said, catalog, warehouse, ASKED).ok


@pytest.mark.parametrize(
    ("completion", "reached", "outcome", "said"),
    [
        (
            saying(None, outcome="timeout", error="no answer"),
            SERVING,
            "timeout",
            "no answer",
        ),
        (saying(None, outcome="http_503"), SERVING, "http_503", "http_503"),
        (
            saying(text(), outcome="mid_stream_error"),
            SERVING,
            "mid_stream_error",
            "serving",
        ),
        (saying("", outcome="empty", error="none"), FORM, "empty", "form: empty"),
        (
            saying(text(), outcome="length", error="cut"),
            FORM,
            "length",
            "form: length: cut",
        ),
        (saying(text(), finish_reason="length"), FORM, "length", "raise max_tokens"),
        (saying(" "), FORM, "empty", "no text"),
        (
            saying("North leads."),
            FORM,
            "constraint_not_applied",
            "structured_outputs was",
        ),
        (saying(text()[:-3]), FORM, "bad_json", "not JSON"),
        (saying(text(limit=0)), FORM, "schema_violation", "limit: 0"),
        (saying(text(grain="day")), INTENT, "ok", "intent: grain day"),
        (saying(text(metrics=["revenue"] * 2)), INTENT, "ok", "stands there twice"),
        (saying(text(period="1999..2001")), INTENT, "ok", "outside the data"),
        (saying(text(period="2021")), INTENT, "ok", "outside the data"),
        (
            saying(text(filters=[where("customer", "in", 99_999_999)])),
            INTENT,
            "ok",
            "no customer with id",
        ),
        (
            saying(text(query_type="top_n_by_metric", dimensions=[])),
            SQL,
            "ok",
            "sql: a ranking needs a dimension",
        ),
    ],
)
def test_a_failure_ends_at_its_own_stage(
    completion: Completion,
    reached: list[bool | None],
    outcome: str,
    said: str,
    catalog: Catalog,
    warehouse: Warehouse,
):
    found = read(QUESTION, completion, catalog, warehouse, ASKED)
    assert outcomes(found) == reached
    assert found.completion.outcome == outcome
    assert not found.ok and found.error is not None and said in found.error
    assert found.result is None


def test_prose_where_no_form_was_promised_is_no_outcome_of_serving_but_a_form_that_cannot_be_read(
    catalog: Catalog, warehouse: Warehouse
):
    found = read(QUESTION, saying("North leads."), catalog, warehouse, UNCONSTRAINED)
    assert found.completion.outcome == "ok"
    assert outcomes(found) == FORM


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_of_a_request_is_read_without_an_exception(
    outcome: str, catalog: Catalog, warehouse: Warehouse
):
    found = read(QUESTION, saying(None, outcome=outcome), catalog, warehouse, ASKED)
    assert not found.ok and found.error


def test_without_a_warehouse_the_query_is_built_but_not_run(catalog: Catalog):
    found = read(QUESTION, saying(text()), catalog, None, ASKED)
    assert found.query is not None and found.result is None
    assert outcomes(found) == [True, True, True, None]
    assert not found.ok and found.error is None


def test_a_correction_changes_the_final_intent_and_its_rows_but_not_the_raw_one(
    catalog: Catalog, warehouse: Warehouse
):
    def to_breakdown(intent: Intent) -> Intent:
        return intent.model_copy(update={"query_type": "breakdown", "limit": None, "sort": None})

    said = saying(text(query_type="top_n_by_metric", limit=3))
    found = read(QUESTION, said, catalog, warehouse, ASKED, to_breakdown)
    assert found.raw is not None and found.raw.query_type == "top_n_by_metric"
    assert found.final is not None and found.final.query_type == "breakdown"
    assert found.result is not None and len(found.result.rows) == 11


def both(complete: Callable[[ChatRequest], Completion], **how: Any) -> list[Answer]:
    """The same question through the synchronous and the asynchronous door."""

    async def awaited(request: ChatRequest) -> Completion:
        await asyncio.sleep(0)
        return complete(request)

    return [answer_sync(complete=complete, **how), asyncio.run(answer(complete=awaited, **how))]


def test_both_doors_send_the_same_request_and_give_the_same_answer(catalog: Catalog, warehouse: Warehouse):
    sent: list[ChatRequest] = []

    def complete(request: ChatRequest) -> Completion:
        sent.append(request)
        return saying(text())

    one, other = both(complete, question=QUESTION, catalog=catalog, warehouse=warehouse, contract=ASKED)
    assert one == other and one.ok
    assert sent[0] == sent[1]
    assert sent[0].messages == build_messages(QUESTION, catalog)
    assert (sent[0].max_tokens, sent[0].temperature, sent[0].stream) == (256, 0.0, False)
    assert sent[0].body("m")["structured_outputs"] == {"json": wire_schema(catalog)}


@pytest.mark.parametrize(("question", "error"), [("", EmptyQuestion), ("x" * 10_000, LongQuestion)])
def test_a_hopeless_question_is_refused_before_anything_is_sent(question: str, error: type[Exception]):
    def complete(request: ChatRequest) -> Completion:
        raise AssertionError("it was sent")

    with pytest.raises(error):
        answer_sync(question, complete, CATALOG, None)


def test_each_contract_carries_the_schema_in_its_own_field():
    known, schema = contracts(CATALOG), wire_schema(CATALOG)
    assert list(known)[:4] == ["unconstrained", "structured_outputs", "response_format", "guided_json"]
    assert known["unconstrained"] == UNCONSTRAINED
    assert known["structured_outputs"].fields == {"structured_outputs": {"json": schema}}
    assert known["guided_json"].fields == {"guided_json": schema}
    assert known["response_format"].fields["response_format"]["json_schema"]["schema"] == schema
    assert all(c.schema == schema for name, c in known.items() if name != "unconstrained")


@pytest.mark.parametrize("name", list(contracts(CATALOG)))
def test_a_contract_survives_being_sent_with_the_order_of_its_keys(name: str):
    contract = contracts(CATALOG)[name]
    body = prepare(QUESTION, CATALOG, contract=contract).body("m")
    assert {k: json.loads(json.dumps(body))[k] for k in contract.fields} == contract.fields
    if contract.schema:
        assert list(json.loads(json.dumps(contract.schema))["properties"])[:2] == ["evidence", "query_type"]
