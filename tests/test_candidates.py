"""Candidates are data: how each is asked, what its requests look like on the wire, what its table says."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fake_behaviours import Raw
from fake_server import FakeServer, serve
from test_heldout import four, ranking_model

from nlqlib import paths, run_settings
from nlqlib.analysis.cost import TokenPrices
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import (
    candidates,
    candidates_figures,
    candidates_notes,
    candidates_page,
    candidates_paired,
    heldout_sets,
)
from nlqlib.experiments import journal as journals
from nlqlib.experiments.candidates import Candidate, CandidateError, Measurements
from nlqlib.experiments.conditions import requests
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.intent import wire_schema
from nlqlib.notebook_params import declared, pairs, passed
from nlqlib.records import Completion
from nlqlib.serving import hosted
from nlqlib.serving.client import make_client
from nlqlib.serving.target import TargetError, open_target

KNOWN = candidates.load()
SERVICES = list(dict.fromkeys(c.service for c in KNOWN))
HOSTED = [s for s in SERVICES if s.url]
PARAMS = {"sets": ["dev"], "concurrency": 2, "run": []}
TOOL_CALL = {"function": {"name": "answer", "arguments": '{"a": 1}'}, "type": "function", "id": "1"}
CALLED = {
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}
CONVERSED = {
    "output": {
        "message": {"role": "assistant", "content": [{"toolUse": {"name": "answer", "input": {"a": 1}}}]}
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 7, "outputTokens": 4, "cacheReadInputTokens": 2, "totalTokens": 11},
}


def by_name(name: str) -> Candidate:
    return next(c for c in KNOWN if c.name == name)


# --- the list ---


def test_every_candidate_of_the_article_is_there() -> None:
    asked = {(c.service.name, c.condition.correction) for c in KNOWN}
    for here in ("none", "guardrail", "cues", "planner", "clarifier"):
        assert ("here", here) in asked and ("qwen-3b", here) in asked
    assert {"qwen-7b", "haiku", "haiku-bedrock", "sonnet", "sonnet-bedrock"} <= {s.name for s in SERVICES}
    assert {"openai-small", "openai-strong"} <= {s.name for s in SERVICES}


def test_keys_are_named_and_never_written_and_prices_have_a_date() -> None:
    assert all(s.key_env and s.key_env.isupper() for s in SERVICES if not s.here)
    assert all(s.as_of and (s.prices.tokens or s.prices.per_hour) for s in SERVICES)


def test_a_wrong_entry_is_named_with_the_nearest_right_one(tmp_path: Path) -> None:
    text = candidates.SOURCE.read_text("utf-8")
    wrong = {
        'contract = "tool"': ('contract = "tools"', "did you mean tool"),
        'condition = "planner"': ('condition = "planer"', "did you mean planner"),
        'kind = "converse"': ('kind = "magic"', "there are target, openai, converse"),
        'url = "https://api.openai.com/v1"\n': ("", "has no address"),
        "[services.here]": ("[services.there]", "unknown service 'here'"),
    }
    for right, (made, message) in wrong.items():
        path = tmp_path / "candidates.toml"
        path.write_text(text.replace(right, made), encoding="utf-8")
        with pytest.raises(CandidateError, match=message):
            candidates.load(path)
    with pytest.raises(CandidateError, match="cannot be read"):
        candidates.load(tmp_path / "missing.toml")


def test_only_the_targets_own_candidates_are_asked_unless_others_are_named() -> None:
    assert {c.service.name for c in candidates.chosen(KNOWN, [])} == {"here"}
    named = candidates.chosen(KNOWN, ["qwen-7b", "Haiku class"])
    assert {c.name for c in named if not c.service.here} == {
        "7B",
        "7B + guardrail",
        "7B + cues",
        "Haiku class",
    }
    with pytest.raises(CandidateError, match="did you mean haiku"):
        candidates.chosen(KNOWN, ["haikus"])


def test_an_address_of_ones_own_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    service = by_name("3B").service
    monkeypatch.delenv("QWEN_3B_URL", raising=False)
    monkeypatch.delenv("QWEN_3B_KEY", raising=False)
    with pytest.raises(TargetError, match="QWEN_3B_URL"):
        service.target().connection  # noqa: B018
    monkeypatch.setenv("QWEN_3B_URL", "https://somewhere/v1/")
    endpoint = service.connection().endpoint
    assert (endpoint.base_url, endpoint.api_key_env) == ("https://somewhere/v1", None)
    assert "somewhere" not in json.dumps(service.target().declared)


# --- contracts, as they arrive at a server ---


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[FakeServer, str]]:
    server = FakeServer()
    with serve(server) as root:
        yield server, root


def captured(
    candidate: Candidate,
    place: tuple[FakeServer, str],
    answer: Any,
    monkeypatch: pytest.MonkeyPatch,
    below: str = "/v1",
) -> tuple[Any, Completion]:
    """The request that arrives for the first development question, and what is made of `answer`."""
    server, root = place
    server.behaviours = answer
    server.seen.clear()
    monkeypatch.setenv(candidate.service.key_env or "", "a-key")
    there = replace(candidate.service, url=f"{root}{below}").connection()
    [first] = requests(load_questions("dev")[:1], candidate.condition, load_catalog())

    async def ask() -> Completion:
        client = make_client("openai", there.endpoint, app=there.app)
        try:
            return await client.complete(first)
        finally:
            await client.aclose()

    done = asyncio.run(ask())
    return (server.seen[-1] if server.seen else None), done


@pytest.mark.parametrize("name", ["OpenAI small", "OpenAI strong"])
def test_openai_is_asked_by_response_format(
    name: str, place: tuple[FakeServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = captured(by_name(name), place, Raw((json.dumps(CALLED).encode(),)), monkeypatch)
    assert seen.body["response_format"]["json_schema"]["schema"] == wire_schema(load_catalog())
    assert seen.body["model"] == by_name(name).service.model
    assert not {"structured_outputs", "tools"} & set(seen.body)
    assert seen.headers["authorization"] == "Bearer a-key"


@pytest.mark.parametrize("name", ["3B", "7B"])
def test_a_vllm_of_ones_own_is_asked_by_structured_outputs(
    name: str, place: tuple[FakeServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, done = captured(by_name(name), place, FakeServer().behaviours, monkeypatch)
    assert seen.body["structured_outputs"] == {"json": wire_schema(load_catalog())}
    assert "response_format" not in seen.body and done.text == "an answer of five words"


@pytest.mark.parametrize("name", ["Haiku class", "Sonnet class"])
def test_a_server_that_leaves_response_format_unread_must_call_a_tool(
    name: str, place: tuple[FakeServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, done = captured(by_name(name), place, Raw((json.dumps(CALLED).encode(),)), monkeypatch)
    [tool] = seen.body["tools"]
    assert tool["function"]["parameters"] == wire_schema(load_catalog())
    assert seen.body["tool_choice"]["function"]["name"] == tool["function"]["name"] == hosted.TOOL
    assert not {"response_format", "structured_outputs"} & set(seen.body)
    assert seen.headers["authorization"] == "Bearer a-key"
    assert (done.outcome, done.text, done.finish_reason) == ("ok", '{"a": 1}', "stop")
    assert (done.prompt_tokens, done.output_tokens) == (9, 4)


def test_prompt_only_sends_no_contract_at_all() -> None:
    service = replace(by_name("OpenAI small").service, contract="prompt only")
    how = replace(by_name("OpenAI small").condition, contract=candidates.ASKED_AS[service.contract])
    [first] = requests(load_questions("dev")[:1], how, load_catalog())
    assert set(first.body("m")) == {"model", "messages", "max_tokens", "temperature"}


@pytest.mark.parametrize("name", ["Haiku class, Bedrock", "Sonnet class, Bedrock"])
def test_bedrock_is_asked_in_its_own_protocol(name: str) -> None:
    candidate = by_name(name)
    [first] = requests(load_questions("dev")[:1], candidate.condition, load_catalog())
    body = hosted.converse_body(first.body(candidate.service.model or ""))
    [tool] = body["toolConfig"]["tools"]
    assert tool["toolSpec"]["inputSchema"] == {"json": wire_schema(load_catalog())}
    assert body["toolConfig"]["toolChoice"] == {"tool": {"name": hosted.TOOL}}
    assert body["inferenceConfig"] == {"maxTokens": 256, "temperature": 0.0}
    assert len(body["system"]) == 1 and {m["role"] for m in body["messages"]} <= {"user", "assistant"}
    assert not {"model", "response_format"} & set(body)
    app = candidate.service.connection().app
    assert app.address.startswith("https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.")
    assert app.address.endswith("-v1%3A0/converse")


@dataclass
class Bedrock(FakeServer):
    """The fault-injecting server, at Bedrock's address; keeps each path as it came, still quoted."""

    addresses: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].endswith("/converse"):
            self.addresses.append(scope["raw_path"].decode())
            await self._chat(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@pytest.fixture(scope="module")
def bedrock() -> Iterator[tuple[FakeServer, str]]:
    server = Bedrock(api_key="a-key")
    with serve(server) as root:
        yield server, root


@pytest.mark.parametrize("name", ["Haiku class, Bedrock", "Sonnet class, Bedrock"])
def test_what_reaches_bedrock_has_its_path_its_bearer_and_its_body(
    name: str, bedrock: tuple[Bedrock, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = bedrock
    seen, done = captured(by_name(name), bedrock, Raw((json.dumps(CONVERSED).encode(),)), monkeypatch, "")
    model = by_name(name).service.model or ""
    assert server.addresses[-1] == f"/model/{quote(model, safe='')}/converse"
    assert "%3A0" in server.addresses[-1], "the colon of the model's name is quoted"
    assert seen.headers["authorization"] == "Bearer a-key"
    [first] = requests(load_questions("dev")[:1], by_name(name).condition, load_catalog())
    assert seen.body == json.loads(json.dumps(hosted.converse_body(first.body(model))))
    assert (done.outcome, done.text, done.finish_reason) == ("ok", '{"a": 1}', "stop")
    assert (done.prompt_tokens, done.cached_tokens, done.output_tokens) == (9, 2, 4)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Raw((b'{"message": "Too many requests"}',), status=429, headers=(("retry-after", "2"),)), 429),
        (Raw((b'{"message": "model is not ready"}',), status=424), 424),
        (Raw((b'{"message": "internal"}',), status=500), 500),
        (Raw((b'{"output": {}}',)), 502),
        (Raw((b"<html>",), content_type="text/html"), 502),
    ],
)
def test_errors_of_bedrock_stay_what_they_are_and_never_hold_the_key(
    answer: Raw, status: int, bedrock: tuple[Bedrock, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, done = captured(by_name("Haiku class, Bedrock"), bedrock, answer, monkeypatch, "")
    assert done.http_status == status and done.text is None
    assert "a-key" not in repr(done)


def test_a_wrong_key_is_refused_by_bedrock_and_is_no_answer(
    bedrock: tuple[Bedrock, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = bedrock
    monkeypatch.setattr(server, "api_key", "another")
    _, done = captured(by_name("Sonnet class, Bedrock"), bedrock, FakeServer().behaviours, monkeypatch, "")
    assert done.http_status == 401 and not done.ok


def test_an_answer_of_bedrock_is_read_with_its_tokens() -> None:
    read = hosted.converse_answer(CONVERSED, "m")
    assert read["choices"][0]["message"]["content"] == '{"a": 1}'
    assert read["choices"][0]["finish_reason"] == "stop"
    # fresh and cached prompt tokens are counted apart there
    assert (read["usage"]["prompt_tokens"], read["usage"]["completion_tokens"]) == (9, 4)
    cut = hosted.converse_answer(CONVERSED | {"stopReason": "max_tokens"}, "m")
    assert cut["choices"][0]["finish_reason"] == "length"
    said = {"output": {"message": {"content": [{"text": "no"}]}}}
    assert hosted.converse_answer(said, "m")["choices"][0]["message"]["content"] == "no"


def test_a_refusal_of_a_hosted_model_stays_what_it_is(
    place: tuple[FakeServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = Raw((b'{"error": {"message": "slow down"}}',), status=429, headers=(("retry-after", "1"),))
    _, done = captured(by_name("Haiku class"), place, limited, monkeypatch)
    assert done.http_status == 429 and "a-key" not in str(done.error)
    _, garbled = captured(by_name("Haiku class"), place, Raw((b"[1]",)), monkeypatch)
    assert garbled.http_status == 502


def test_a_missing_key_is_said_before_anything_is_sent(
    place: tuple[FakeServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = by_name("Haiku class")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    endpoint = candidate.service.connection().endpoint
    with pytest.raises(ValueError, match="ANTHROPIC_API_KEY is not set"):
        endpoint.authorization()


# --- evaluation, cost, table ---


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, Measurements, int]]:
    """The candidates of a scripted target on four questions, and how many requests that took."""
    folder = tmp_path_factory.mktemp("candidates")
    model = ranking_model()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journals, "FOLDER", folder / "answered")
        study = Study(candidates.NOTEBOOK, model.target(), "full", "openai", Store(folder / "artifacts"))
        sets = [str(four(folder))]
        planned = candidates.points(study, PARAMS | {"sets": sets})
        found = candidates.evaluated(study, KNOWN, sets, [], 2)
        assert len(model.asked) == sum(spec.requests for _, spec in planned)
        yield study, found, len(model.asked)


def record_of(found: Measurements, name: str) -> Record:
    record = found["dev"][name]
    assert record is not None
    return record


def test_candidates_that_ask_alike_ask_once(measured: tuple[Study, Measurements, int]) -> None:
    # one prompt for three candidates, and the planner's two steps for two
    assert measured[2] == 4 + 2 * 4


def test_the_targets_own_points_are_those_of_the_held_out_page(
    measured: tuple[Study, Measurements, int],
) -> None:
    record = record_of(measured[1], "1.5B + cues")
    assert (record.body["notebook"], record.body["point"]) == ("13_heldout_semantics", "dev-cues")


def test_what_nobody_measured_is_said_and_is_no_number(measured: tuple[Study, Measurements, int]) -> None:
    study, found, _ = measured
    table = candidates_page.candidates_table(found, KNOWN, study)
    assert len(table) == len(KNOWN)
    assert table.loc[("dev", "Haiku class"), "final strict"] == candidates_page.MISSING
    assert table.loc[("dev", "1.5B"), "final strict"].endswith("0 of 4")
    assert table.loc[("dev", "1.5B + cues"), "final strict"].endswith("4 of 4")
    told = candidates_notes.missing_sentence(found, KNOWN)
    assert "qwen-3b" in told and "here" not in told.split(":")[1].split(".")[0]


def test_the_command_that_measures_a_service_is_read_as_it_is_meant(
    measured: tuple[Study, Measurements, int], tmp_path: Path
) -> None:
    told = candidates_notes.missing_sentence(measured[1], KNOWN)
    [command] = re.findall(r"`(make [^`]+)`", told)
    program, goal, setting = shlex.split(command)
    assert (program, goal) == ("make", "reproduce") and setting.startswith("PARAMS=")
    # make hands $(PARAMS) to a shell, which splits it once more
    settings = run_settings.parse("reproduce", shlex.split(setting.removeprefix("PARAMS=")), {})
    assert settings.notebooks == ("14",)
    [notebook] = paths.NOTEBOOKS.glob("14_*.ipynb")
    known = {notebook.stem: declared(notebook)}
    [service] = passed(pairs(settings.params), known)[notebook.stem]["run"]
    assert service in {s.name for s in SERVICES}
    assert {c.service.name for c in candidates.chosen(KNOWN, [service])} == {"here", service}


def test_candidates_are_compared_pairwise_with_holm_over_all_of_a_set(
    measured: tuple[Study, Measurements, int],
) -> None:
    _, found, _ = measured
    table = candidates_paired.paired_table(found, KNOWN)
    # of four questions the model alone has none right, the guardrail one, cues and planner all
    assert table.index.tolist() == [("dev", n) for n in ("1.5B + guardrail", "1.5B + cues", "1.5B planner")]
    assert set(table["against"]) == {"1.5B"} and set(table["both answered"]) == {4}
    assert table["right only here"].tolist() == [1, 4, 4]
    assert table["p (exact McNemar)"].tolist() == ["1", "0.12", "0.12"]  # 2 · 0.5⁴ = 0.125
    assert table["p (Holm)"].tolist() == ["1", "0.38", "0.38"]  # three tests: 3 · 0.125
    assert candidates_paired.paired_sentence(found, KNOWN).endswith("on dev: none.")
    assert "nothing can be compared" in candidates_paired.paired_sentence({"dev": {}}, KNOWN)


def test_a_set_of_which_nobody_was_asked_is_shown_as_not_measured(
    measured: tuple[Study, Measurements, int],
) -> None:
    _, found, _ = measured
    both: Measurements = {**found, "unseen": dict.fromkeys(found["dev"])}
    assert candidates.unheard_sets(both) == [] and candidates.answered(both) == both


def test_a_set_that_the_twin_cannot_replay_is_left_out_and_named(tmp_path: Path) -> None:
    study = Study(candidates.NOTEBOOK, open_target("twin"), "full", "openai", Store(tmp_path))
    mine = tmp_path / "unseen.jsonl"
    lines = (paths.QUESTIONS / "dev.jsonl").read_bytes().splitlines()[:2]
    mine.write_bytes(b"\n".join(line.replace(b'"question": "', b'"question": "so, ') for line in lines))
    asked = candidates.evaluated(study, KNOWN, [str(four(tmp_path)), str(mine)], [], 2)
    assert candidates.unheard_sets(asked) == ["unseen"]
    assert list(candidates.answered(asked)) == ["dev"]
    assert "Left out, since nothing of it was answered here: unseen" in candidates_notes.missing_sentence(
        asked, KNOWN
    )


def test_figures_show_a_held_out_set_where_one_was_answered(
    measured: tuple[Study, Measurements, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found, _ = measured
    both: Measurements = {"dev": found["dev"], "holdout": found["dev"], "unseen": found["dev"]}
    assert candidates_figures.figured({"dev": found["dev"]}) == "dev"
    assert candidates_figures.figured({"dev": found["dev"], "holdout": found["dev"]}) == "holdout"
    assert candidates_figures.figured(both, "dev") == "dev", "what was asked for goes first"
    held = replace(heldout_sets.standing("holdout"), name="unseen", since=None, unchanged=True)
    monkeypatch.setattr(candidates_figures, "standings", lambda sets: {"unseen": held})
    assert candidates_figures.figured(both) == "unseen"


def test_a_candidate_that_asks_back_stands_apart(measured: tuple[Study, Measurements, int]) -> None:
    study, found, _ = measured
    table = candidates_page.candidates_table(found, KNOWN, study)
    assert table.loc[("dev", "1.5B clarifier"), "precision"] == "asks back: below"
    assert set(candidates_page.asking_table(found, KNOWN).index.get_level_values("candidate")) == {
        *("1.5B clarifier", "3B clarifier")
    }
    for axis in ("seconds", "cost"):
        points = candidates_figures.figure_points(found, KNOWN, study, "dev", axis)
        assert "1.5B clarifier" not in {p.name for p in points}


def test_tokens_cost_what_the_list_says(measured: tuple[Study, Measurements, int]) -> None:
    record = record_of(measured[1], "1.5B")
    service = replace(by_name("Haiku class").service, prices=candidates.Prices(TokenPrices(1.0, 5.0)))
    cost = candidates.cost(replace(by_name("Haiku class"), service=service), record, "haiku")
    sent = [r for row in record.samples() for r in row["requests"]]
    by_hand = sum(r["prompt_tokens"] + 5 * r["output_tokens"] for r in sent) / 1e6 / 4 * 1000
    assert cost.value == pytest.approx(by_hand)
    assert cost.interval is not None and cost.interval.low <= by_hand <= cost.interval.high
    assert "2026-05" in cost.basis


def test_a_machine_costs_its_time_at_the_point_it_was_measured_at(
    measured: tuple[Study, Measurements, int],
) -> None:
    record = record_of(measured[1], "1.5B")
    cost = candidates.cost(by_name("3B"), record, "qwen-3b")
    spent = candidates.seconds(record.samples())
    # two in flight answer 2 / R a second; a dollar an hour
    assert cost.value == pytest.approx(sum(spent) / 4 / 2 / 3600 * 1000)
    assert "2 in flight" in cost.basis and "NVIDIA L4" in cost.basis


def test_a_machine_that_is_not_the_one_priced_has_no_cost(measured: tuple[Study, Measurements, int]) -> None:
    cost = candidates.cost(by_name("1.5B"), record_of(measured[1], "1.5B"), "local")
    assert cost.value is None and "not the accelerator" in cost.basis


def test_figures_hold_both_intervals_and_the_gate(measured: tuple[Study, Measurements, int]) -> None:
    study, found, _ = measured
    points = candidates_figures.figure_points(found, KNOWN, study, "dev", "seconds")
    assert {p.name for p in points} == {"1.5B", "1.5B + guardrail", "1.5B + cues", "1.5B planner"}
    assert all(p.low <= p.y <= p.high and p.x_interval for p in points)
    figure = candidates_figures.trade_figure(found, KNOWN, study, "dev", "seconds")
    assert "the article's gate" in {t.get_text() for t in figure.axes[0].texts}
    alt = candidates_figures.trade_alt(found, KNOWN, study, "dev", "seconds")
    assert "1.5B + cues 100%" in alt and alt.startswith("Share of dev (development) right")
    told = candidates_page.gate_sentence(found, KNOWN, study, "dev")
    assert "1.5B + cues (100%)" in told and told.startswith("On dev (development) these reach 90%")


def test_the_articles_range_and_gate_stand_beside_ours(measured: tuple[Study, Measurements, int]) -> None:
    study, found, _ = measured
    table = candidates_page.against_article({"holdout": found["dev"]}, KNOWN, study).set_index("claim")
    assert table.loc["holdout.final.range", "value"] == "0.25 share"
    assert table.loc["gate", "value"] == "1 share"


def test_a_named_service_is_asked_and_its_points_carry_its_name(
    place: tuple[FakeServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root = place
    gold = load_questions("dev")[0].golds[0].wire()
    called = json.loads(json.dumps(CALLED))
    called["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json.dumps(gold)
    server.behaviours = Raw((json.dumps(called).encode(),))
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    haiku = replace(by_name("Haiku class"), service=replace(by_name("Haiku class").service, url=f"{root}/v1"))
    study = Study(candidates.NOTEBOOK, ranking_model().target(), "full", "openai", Store(tmp_path / "kept"))
    found = candidates.evaluated(study, [haiku], [str(four(tmp_path))], ["haiku"], 2)
    record = record_of(found, "Haiku class")
    assert (record.body["target"], record.body["notebook"]) == ("haiku", "14_candidates")
    assert record.value("strict accuracy", "share") == 0.25, "right on the first question alone"
    assert "a-key" not in "".join(p.read_text("utf-8") for p in (tmp_path / "kept").rglob("*.json*"))
    again = candidates.evaluated(study, [haiku], [str(four(tmp_path))], [], 2)
    assert record_of(again, "Haiku class").path == record.path, "shown from files when it is not named"


def test_points_in_one_place_are_drawn_once_under_all_their_names() -> None:
    one = candidates_figures.Point("a", 1.0, None, 0.5, 0.4, 0.6)
    drawn = candidates_figures._together([one, replace(one, name="b"), replace(one, name="c", y=0.7)])
    assert [p.name for p in drawn] == ["a = b", "c"]
