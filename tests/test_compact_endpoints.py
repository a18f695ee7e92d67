"""The page on output tokens on endpoints that refuse, ignore, cut or lose: it ends and says what it saw."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Behaviour, Say, Status, error_object
from fake_structured import ALL, StructuredServer
from refusing_world import Page, RefusingServer, opened, run

from nlqlib.artifacts import Store
from nlqlib.experiments import compact
from nlqlib.experiments.contract_probe import probe
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study

DEV = load_questions("dev")
INTENTS = {q.question: q.golds[0].wire() for q in DEV}
PARAMS: dict[str, Any] = {"sets": ["dev"], "n": 3, "n_timed": 2, "concurrency": 2, "flagged": "no"}


@dataclass
class LosingServer(StructuredServer):
    """Loses the requests with the numbers `loses`: the endpoint is overloaded just then."""

    loses: frozenset[int] = frozenset()
    cuts_all: bool = False
    down: bool = False
    seen_bodies: list[dict[str, Any]] = field(default_factory=list)

    def _pick(self, number: int, headers: dict[str, str], body: dict[str, Any]) -> Behaviour:
        self.seen_bodies.append(body)
        if self.down or number in self.loses:
            return Status(503, error_object(503, "overloaded"))
        said = super()._pick(number, headers, body)
        about_animals = "fruit" in body["messages"][-1]["content"]
        if isinstance(said, Say) and self.cuts_all and not about_animals:
            return replace(said, finish_reason="length")
        return said


def server(**changes: Any) -> LosingServer:
    return LosingServer(intents=INTENTS, **changes)


def study_of(folder: Path, there: StructuredServer) -> Study:
    return Study("09_compact_json", there.target(), "full", "wire", Store(folder))


def sent(there: LosingServer, prompt: str = "") -> list[set[str]]:
    """The fields of every request about an intent."""
    bodies = [b for b in there.seen_bodies if "fruit" not in b["messages"][-1]["content"]]
    return [set(body) for body in bodies]


# --- by which field the schema is asked for ---


@pytest.mark.parametrize("field_name", ["response_format", "guided_json"])
def test_the_schema_is_asked_for_by_the_field_that_is_honoured(field_name: str, tmp_path: Path) -> None:
    there = server(reads=frozenset({field_name}))
    study = study_of(tmp_path, there)
    _, plan = compact.opened(study, PARAMS)
    assert {form.contract for form in plan.forms} == {field_name}
    compact.evaluated(study, plan)
    assert sent(there) and all(field_name in fields for fields in sent(there))
    assert all("structured_outputs" not in fields for fields in sent(there))


def test_a_server_of_ours_is_asked_as_before(tmp_path: Path) -> None:
    _, plan = compact.opened(study_of(tmp_path, server()), PARAMS)
    assert [f.contract for f in plan.forms][:3] == ["structured_outputs"] * 3


def test_the_plan_from_files_is_the_plan_that_was_measured(tmp_path: Path) -> None:
    study = study_of(tmp_path, server(reads=frozenset({"response_format"})))
    _, plan = compact.opened(study, PARAMS)
    compact.evaluated(study, plan)
    compact.timings(study, plan)
    assert all(where.retained(spec) for where, spec in compact.points(study, PARAMS))


# --- the page ends ---


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page on an endpoint that takes no field of its own and knows one answer."""
    study = opened("09_compact_json", RefusingServer(strict=True), tmp_path_factory.mktemp("refused"))
    with pytest.MonkeyPatch.context() as patch:
        return run("09_compact_json", study, patch, **PARAMS)


def test_an_endpoint_that_refuses_every_form_is_asked_by_the_prompt_alone(refused: Page) -> None:
    plan = refused.names["plan"]
    assert [form.name for form in plan.forms] == ["pretty", "prompt_compact", "prompt_shown"]
    assert {form.contract for form in plan.forms} == {"unconstrained"}
    assert "No schema is enforced here" in refused.text and "no schema is enforced" in refused.text


def test_on_an_endpoint_that_refuses_every_form_the_page_recommends_no_compact_one(refused: Page) -> None:
    assert "**Keep the pretty form**" in refused.text and "**Use" not in refused.text


def test_an_endpoint_whose_answers_are_all_cut_is_not_observable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = run("09_compact_json", study_of(tmp_path, server(cuts_all=True)), monkeypatch, **PARAMS)
    assert "No whole answer was observed" in page.text and "not observed" in page.drawn
    assert "not observable here (no pair of whole, timed answers)" in page.text
    assert "**Cannot tell**" in page.text and "Keep the pretty form" not in page.text


def test_a_model_that_is_never_right_gets_no_recommendation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = StructuredServer(refuses=ALL)
    page = run("09_compact_json", study_of(tmp_path, there), monkeypatch, **PARAMS)
    assert "**Cannot tell**" in page.text and "Keep the pretty form" not in page.text


# --- what was lost is asked again ---


def test_a_probe_without_an_answer_is_not_retained(tmp_path: Path) -> None:
    there = server(down=True)
    study = study_of(tmp_path, there)
    with pytest.raises(RuntimeError, match=r"probe: 9 of 9 requests failed \(http_503.*nothing was retained"):
        probe(study)
    there.down = False
    assert probe(study).requests["ok"] == 9


def test_a_lost_way_is_probed_again(tmp_path: Path) -> None:
    there = server(loses=frozenset({1}))
    study = study_of(tmp_path, there)
    with pytest.raises(RuntimeError, match="1 of 9 requests failed"):
        probe(study)
    assert not study.retained(compact.probe_spec())
    assert compact.opened(study, PARAMS)[1].forms[0].contract == "structured_outputs"


def test_an_evaluation_that_lost_a_request_is_not_retained_and_asked_again(tmp_path: Path) -> None:
    there = server()
    study = study_of(tmp_path, there)
    _, plan = compact.opened(study, PARAMS)
    there.loses = frozenset({len(there.seen) + 1})
    with pytest.raises(RuntimeError, match=r"dev in the form pretty: 1 of 3 requests failed"):
        compact.evaluated(study, plan)
    there.loses = frozenset()
    found = compact.evaluated(study, plan)
    assert found["dev"]["pretty"].requests == {"total": 3, "ok": 3}


def test_a_timing_that_lost_a_request_is_not_retained_and_asked_again(tmp_path: Path) -> None:
    there = server()
    study = study_of(tmp_path, there)
    _, plan = compact.opened(study, PARAMS)
    there.loses = frozenset({len(there.seen) + len(plan.timed) + 2})
    with pytest.raises(RuntimeError, match=r"dev in turn in the form .*: 1 of 2 requests failed"):
        compact.timing(study, plan)
    there.loses = frozenset()
    assert compact.timing(study, plan).requests["ok"] == 2 * len(plan.timed)


def test_a_form_that_is_refused_throughout_is_no_success(tmp_path: Path) -> None:
    there = server()
    study = study_of(tmp_path, there)
    _, plan = compact.opened(study, PARAMS)
    there.refuses = frozenset({"grammar"})
    with pytest.raises(RuntimeError, match="dev in the form grammar: 3 of 3 requests failed"):
        compact.evaluated(study, plan)
