"""The prompt's variants: what is told, what is enforced and what is read back are one form."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Behaviour
from fake_structured import StructuredServer
from hypothesis import given
from hypothesis import strategies as st

from nlqlib import plots
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import ablation_page, ablation_recordings, ablations
from nlqlib.experiments.ablation_variants import (
    AS_IS,
    KEYS,
    VARIANTS,
    Variant,
    as_wire,
    contract,
    said_as,
    system_text,
)
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study
from nlqlib.nlq import prompt
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.pipeline import contracts
from nlqlib.serving.target import TargetError
from nlqlib.twin.recordings import load_recordings

CATALOG = load_catalog()
DEV = load_questions("dev")
INTENTS = {q.question: q.golds[0].wire() for q in DEV}
BY_NAME = {v.name: v for v in VARIANTS}
EXAMPLES = prompt.examples("baseline")
variants = pytest.mark.parametrize("variant", VARIANTS, ids=[v.name for v in VARIANTS])


def said_in(text: str) -> list[dict[str, Any]]:
    """The answers of the worked examples in a system message."""
    _, *parts = text.split("\nQuestion: ")
    return [json.loads(part[part.index("{") : part.rindex("}") + 1]) for part in parts]


# --- what is told and what is enforced ---


def test_the_variant_that_changes_nothing_is_the_prompt_as_it_is() -> None:
    assert system_text(AS_IS, CATALOG) == prompt.system_text(CATALOG, "baseline")
    assert contract(AS_IS, CATALOG).fields == contracts(CATALOG)["structured_outputs"].fields


@variants
def test_instruction_examples_and_schema_have_the_same_keys_in_the_same_order(variant: Variant) -> None:
    text, schema = system_text(variant, CATALOG), contract(variant, CATALOG).schema
    assert schema is not None
    listed = text.split("in this order:\n")[1].split("\n\n")[0]
    assert tuple(line[2:].split(":")[0] for line in listed.splitlines()) == variant.keys
    assert tuple(schema["properties"]) == tuple(schema["required"]) == variant.keys
    assert all(tuple(told) == variant.keys for told in said_in(text))
    assert f"Write all {'eight' if len(variant.keys) == 8 else 'nine'} keys" in text


@variants
def test_only_what_the_variant_names_is_changed(variant: Variant) -> None:
    told = {k for k in ("keys", "labels", "every") if getattr(variant, k) != getattr(AS_IS, k)}
    assert len(told) == (0 if variant is AS_IS else 1)


def test_a_renamed_label_is_renamed_everywhere() -> None:
    variant = BY_NAME["ranking"]
    assert "top_n_by_metric" not in system_text(variant, CATALOG) + json.dumps(
        contract(variant, CATALOG).schema
    )
    kinds = {told["query_type"] for told in said_in(system_text(variant, CATALOG))}
    assert kinds == {"breakdown", "ranking", "time_series"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("as-is", EXAMPLES),
        ("examples-none", ()),
        ("examples-half", EXAMPLES[::2]),
        ("examples-reversed", EXAMPLES[::-1]),
    ],
)
def test_the_examples_are_those_that_are_named(name: str, shown: tuple[prompt.Example, ...]) -> None:
    assert said_in(system_text(BY_NAME[name], CATALOG)) == [one.intent.wire() for one in shown]


def test_without_examples_no_heading_promises_any() -> None:
    assert "# Examples" not in system_text(BY_NAME["examples-none"], CATALOG)


@variants
def test_no_question_of_the_set_is_an_example(variant: Variant) -> None:
    assert not [q.id for q in DEV if q.question in system_text(variant, CATALOG)]


# --- what is read back ---


@given(st.sampled_from(VARIANTS), st.sampled_from([q.golds[0] for q in DEV]))
def test_an_answer_is_read_back_whatever_its_form(variant: Variant, gold: Any) -> None:
    wire = gold.wire()
    read = json.loads(as_wire(json.dumps(said_as(wire, variant)), variant) or "")
    assert tuple(read) == KEYS
    assert read == wire | ({} if "evidence" in variant.keys else {"evidence": ""})


@pytest.mark.parametrize("text", [None, "", "revenue by region", '{"query_type": "ranking"', "[1]", "7"])
def test_what_is_no_object_stays_what_it_is(text: str | None) -> None:
    assert as_wire(text, BY_NAME["ranking"]) == text


def test_an_unknown_key_is_not_swept_away() -> None:
    assert json.loads(as_wire('{"limit": 3, "mood": "sunny"}', BY_NAME["kind-last"]) or "") == {
        "limit": 3,
        "mood": "sunny",
    }


# --- asked, judged, recorded ---


class Shaped(StructuredServer):
    """Answers by the schema that it is sent; wrongly where the key `query_type` comes last."""

    def _pick(self, number: int, headers: dict[str, str], body: dict[str, Any]) -> Behaviour:
        keys = body["structured_outputs"]["json"]["properties"]
        question = body["messages"][-1]["content"].removeprefix("Question: ")
        told = dict(INTENTS[question])
        if "ranking" in keys["query_type"]["enum"] and told["query_type"] == "top_n_by_metric":
            told["query_type"] = "ranking"
        if list(keys)[-1] == "query_type":
            told["metrics"] = ["refunds"] if told["metrics"] != ["refunds"] else ["units"]
        one = replace(self, intents={question: {k: told[k] for k in keys}})
        return StructuredServer._pick(one, number, headers, body)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    target = replace(Shaped().target(), kind="local")
    return Study(
        "13_heldout_semantics", target, "full", "wire", Store(tmp_path_factory.mktemp("a") / "artifacts")
    )


@pytest.fixture(scope="module")
def found(study: Study) -> Mapping[str, Record]:
    return ablations.evaluated(study)


def test_every_variant_is_judged_in_wire_form(found: Mapping[str, Record]) -> None:
    right = {name: ablation_page.shares(record)["strict"].k for name, record in found.items()}
    assert right == {v.name: 0 if v.name == "kind-last" else 20 for v in VARIANTS}


def test_the_plan_names_the_points_that_are_retained(study: Study, found: Mapping[str, Record]) -> None:
    assert all(study.retained(spec) for spec in ablations.specs(study))
    assert sum(spec.requests for spec in ablations.specs(study)) == 160 == 20 * len(found)


def test_a_variant_shown_to_be_worse_is_named_and_the_prompt_kept(
    study: Study, found: Mapping[str, Record]
) -> None:
    assert "kind-last is worse" in ablation_page.sentence(found)
    assert "So the prompt is kept as it is" in ablation_page.sentence(found)
    table = ablation_page.table(found)
    assert (table.loc["kind-last", "lost"], table.loc["kind-last", "won"]) == (20, 0)
    assert table.loc["as-is", "lost"] == "—"
    assert "kind-last 0 of 20" in ablation_page.alt(found, study)
    assert len(plots.png(ablation_page.figure(found, study))) > 5000


def test_a_better_variant_would_be_changed_to(found: Mapping[str, Record]) -> None:
    swapped = {**found, "as-is": found["kind-last"], "kind-last": found["as-is"]}
    assert "The prompt to change to is kind-first" in ablation_page.sentence(swapped)


def test_what_was_said_is_recorded_and_replayed_word_for_word(
    found: Mapping[str, Record], tmp_path: Path
) -> None:
    files = ablation_recordings.keep(found, CATALOG, tmp_path)
    assert len(files) == len(VARIANTS) - 1, "the prompt as it is is recorded with its set"
    replayed = load_recordings(files[0].parent)
    for variant in VARIANTS[1:]:
        for request, row in zip(
            ablations.asked(variant, CATALOG), found[variant.name].samples(), strict=True
        ):
            one = replayed.find(request.body(replayed.model))
            assert one is not None and one.text == row["said"] and one.concurrency == ablations.CONCURRENCY


def test_answers_without_tokens_cannot_be_recorded(tmp_path: Path) -> None:
    study = Study("13_heldout_semantics", Shaped().target(), "full", "wire", Store(tmp_path / "artifacts"))
    last = VARIANTS[-1]
    one = {last.name: study.point(ablations.spec(study, last), lambda: ablations._measure(study, last))}
    with pytest.raises(TargetError, match="no token ids"):
        ablation_recordings.keep(one, CATALOG, tmp_path)
