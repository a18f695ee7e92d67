"""Executing an intent: once for all who ask for its rows."""

from collections.abc import Iterator

import pytest

from nlqlib.experiments import judging, rejudging
from nlqlib.experiments.questions import load_questions
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.intent import intent_of
from nlqlib.nlq.sql import Query, Result, execute
from nlqlib.nlq.warehouse import TooSlow, Warehouse, open_warehouse


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    with open_warehouse(scale=0.01) as opened:
        yield opened


@pytest.fixture
def catalog(warehouse: Warehouse) -> Catalog:
    return warehouse.lookups(load_catalog())


def test_an_intent_is_executed_once(
    warehouse: Warehouse, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = list[str]()

    def counted(query: Query, there: Warehouse) -> Result:
        executed.append(query.sql)
        return execute(query, there)

    monkeypatch.setattr(judging, "execute", counted)
    run = judging.executor(warehouse, catalog)
    [gold, *_] = load_questions("dev", catalog)[0].golds
    first = run(gold)
    assert first is not None and first.rows and run(gold) is first and len(executed) == 1
    same = intent_of(gold.wire(), catalog)
    assert run(same) is first, "an intent of the same fields is the same intent"


def test_what_the_warehouse_refuses_has_no_rows(
    warehouse: Warehouse, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(query: Query, there: Warehouse) -> Result:
        raise TooSlow("too slow")

    assert issubclass(TooSlow, QuestionError)
    monkeypatch.setattr(judging, "execute", refused)
    assert judging.executor(warehouse, catalog)(load_questions("dev", catalog)[0].golds[0]) is None


def test_every_reading_of_a_retained_evaluation_shares_one_executor() -> None:
    rejudging._ours.cache_clear()
    assert rejudging._ours() is rejudging._ours()
