"""How a page asks an endpoint for its schema: by what the probe saw honoured, and ours without a probe."""

from pathlib import Path

import pytest
from fake_structured import ALL, ANIMAL, StructuredServer

from nlqlib.artifacts import Store
from nlqlib.experiments.compact_page import found_sentence
from nlqlib.experiments.contract_basis import (
    contract_points,
    contract_sentence,
    page_contract,
    planned_contract,
)
from nlqlib.experiments.contract_probe import MESSAGES, findings, probe
from nlqlib.experiments.output_contracts import FORMS, PRETTY, based, basic, compared
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.pipeline import contracts
from nlqlib.serving.target import open_target

QUESTION = MESSAGES[-1]["content"]
WAYS = ("schema", "response_format", "guided_json")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("honoured", "honoured", "honoured"), "structured_outputs"),
        (("ignored", "honoured", "honoured"), "response_format"),
        (("refused", "ignored", "honoured"), "guided_json"),
        (("cannot tell", "honoured", "ignored"), "response_format"),
        (("ignored", "cannot tell", "cannot tell"), "response_format"),
        (("no answer", "no answer", "no answer"), "structured_outputs"),
        (("ignored", "refused", "ignored"), "unconstrained"),
    ],
)
def test_the_first_honoured_field_asks_for_the_schema(verdicts: tuple[str, ...], expected: str) -> None:
    assert basic(dict(zip(WAYS, verdicts, strict=True))) == expected
    assert expected in contracts(load_catalog())


def test_only_forms_that_ask_for_the_plain_schema_change_their_field() -> None:
    found = {form.name: form.contract for form in compared(["regex"], False, True, "response_format")}
    assert found["pretty"] == found["prompt_compact"] == found["prompt_shown"] == "response_format"
    assert {name: found[name] for name in ("regex", "server_flag")} == {
        "regex": "compact_regex",
        "server_flag": "compact_flag",
    }


def test_by_the_usual_field_a_form_is_the_very_same() -> None:
    assert all(based(form, PRETTY.contract) is form for form in FORMS.values())


def test_without_a_schema_the_pretty_form_says_so() -> None:
    assert "no schema is enforced" in based(PRETTY, "unconstrained").says
    assert "No schema is enforced here" in contract_sentence("unconstrained")
    assert contract_sentence("response_format") == "The schema is asked for by `response_format`."


def study(folder: Path, there: StructuredServer) -> Study:
    return Study("10_context_budget", there.target(), "full", "wire", Store(folder))


@pytest.mark.parametrize(
    ("reads", "expected"),
    [({"response_format"}, "response_format"), ({"json", "guided_json"}, "structured_outputs"), (set(), "")],
)
def test_another_page_probes_an_endpoint_by_url_once(reads: set[str], expected: str, tmp_path: Path) -> None:
    there = StructuredServer(reads=frozenset(reads), refuses=ALL - reads if not reads else frozenset())
    page = study(tmp_path, there)
    [(_, spec)] = contract_points(page)
    assert planned_contract(page) == "structured_outputs", "what is counted on before the probe"
    assert page_contract(page) == (expected or "unconstrained")
    asked = len(there.seen)
    assert page_contract(page) == planned_contract(page) == (expected or "unconstrained")
    assert page.retained(spec) and len(there.seen) == asked == spec.requests


def test_the_twin_and_our_own_engine_are_not_probed(tmp_path: Path) -> None:
    twin = Study("10_context_budget", open_target("twin"), "full", "wire", Store(tmp_path))
    assert contract_points(twin) == [] and page_contract(twin) == "structured_outputs"
    assert planned_contract(twin) == "structured_outputs" and not list(tmp_path.iterdir())


def test_a_field_that_nobody_saw_enforced_is_said_to_be_in_doubt(tmp_path: Path) -> None:
    there = StructuredServer(reads=frozenset(), intents={QUESTION: ANIMAL})
    said = found_sentence(findings(probe(study(tmp_path, there))))
    assert said.startswith(
        "The schema is asked for by `structured_outputs`. Whether it is enforced is not known"
    )
