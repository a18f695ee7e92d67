"""Forms of output: how each is asked for, and that its recording carries the contract it was made with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_structured import StructuredServer

from nlqlib import paths
from nlqlib.experiments import journal as journals
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.output_contracts import ASKED, FORMS, PER_REQUEST, PRETTY, compared, form
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.nlq.catalog import QuestionError, load_catalog
from nlqlib.nlq.compact_grammar import SERVER_FLAG
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.prompt import COMPACT_PROMPTS, MINIFIED, examples, system_text
from nlqlib.nlq.prompt import PRETTY as ASKS_PRETTY
from nlqlib.records import ChatRequest
from nlqlib.serving import twin_target
from nlqlib.serving.target import open_target
from nlqlib.tokens import count_chat
from nlqlib.twin.recordings import load_recordings, request_key

CATALOG = load_catalog()
DEV = load_questions("dev")


def first(name: str) -> ChatRequest:
    return requests(DEV[:1], form(name).how, CATALOG)[0]


# --- how each form is asked for ---


def test_the_pretty_form_is_the_baseline_request_word_for_word() -> None:
    assert first("pretty").body("m") == requests(DEV[:1], CONDITIONS["baseline"], CATALOG)[0].body("m")


@pytest.mark.parametrize("name", PER_REQUEST)
def test_an_enforced_form_leaves_the_prompt_as_it_is(name: str) -> None:
    assert first(name).messages == first("pretty").messages
    assert first(name).body("m")["structured_outputs"] != first("pretty").body("m")["structured_outputs"]


@pytest.mark.parametrize("name", ASKED)
def test_an_asked_form_leaves_the_contract_as_it_is(name: str) -> None:
    assert first(name).contract == first("pretty").contract
    assert first(name).messages[1] == first("pretty").messages[1], "only the system message differs"


def test_the_told_prompt_differs_from_the_baseline_in_one_phrase() -> None:
    baseline, told = system_text(CATALOG), system_text(CATALOG, "compact_told")
    assert baseline.count(ASKS_PRETTY) == 1
    assert told == baseline.replace(ASKS_PRETTY, MINIFIED)


def test_the_shown_prompt_shows_every_example_minified_and_none_pretty() -> None:
    shown = system_text(CATALOG, "compact_shown")
    assert MINIFIED in shown and ASKS_PRETTY not in shown
    assert all(one.intent.text() in shown for one in examples())
    assert not any(one.intent.text(indent=2) in shown for one in examples())
    tokens = [count_chat([{"role": "system", "content": t}]) for t in (shown, system_text(CATALOG))]
    assert tokens[0] < tokens[1]


def test_every_prompt_of_a_form_exists() -> None:
    assert {one.prompt for one in FORMS.values()} == {"baseline", *COMPACT_PROMPTS}


def test_an_unknown_form_is_refused_with_those_there_are() -> None:
    with pytest.raises(QuestionError, match="no form of output 'minified': there are pretty, prompt_compact"):
        form("minified")


# --- which are compared ---


def test_only_what_is_honoured_is_compared() -> None:
    names = [one.name for one in compared(["pretty", "regex"], quick=False, flagged=False)]
    assert names == ["pretty", "prompt_compact", "prompt_shown", "regex", "shown_regex"]


def test_without_an_honoured_way_only_the_prompts_are_left() -> None:
    assert [one.name for one in compared([], quick=False, flagged=False)] == ["pretty", *ASKED]


def test_in_the_quick_profile_one_enforced_form_stands_for_all() -> None:
    names = [one.name for one in compared(PER_REQUEST, quick=True, flagged=True)]
    assert names == ["pretty", *ASKED, "guidance", "shown_guidance", "server_flag", "guidance_flag"]


# --- recordings ---


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty place for recordings, which the twin replays."""
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    twin_target.recordings.cache_clear()
    yield tmp_path / "recordings"
    twin_target.recordings.cache_clear()


def server() -> StructuredServer:
    return StructuredServer(intents={q.question: q.golds[0].wire() for q in DEV})


def three(folder: Path) -> str:
    lines = (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()[:3]
    path = folder / "dev.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_form_is_recorded_by_its_name() -> None:
    assert asking("regex") == form("regex").how
    with pytest.raises(QuestionError, match="server_flag"):
        asking("minified")


def test_the_recordings_on_file_are_still_found_by_the_pretty_form() -> None:
    kept = load_recordings(next(p for p in sorted(paths.RECORDINGS.iterdir()) if p.is_dir()))
    found = [kept.find(request.body(kept.model)) for request in requests(DEV, PRETTY.how, CATALOG)]
    assert all(found)


def test_an_answer_under_a_server_flag_is_not_taken_for_one_without(recordings: Path, tmp_path: Path) -> None:
    source = three(tmp_path)
    for name in ("pretty", "server_flag"):
        record_asking(server().target(), source, asking(name), concurrency=2)
    kept = load_recordings(recordings / "fake")
    body = first("server_flag").body("fake")
    plain, flagged = kept.find(body), kept.find({**body, **SERVER_FLAG})
    assert plain and flagged and "\n" in plain.text and "\n" not in flagged.text
    assert flagged.about["contract"] == "compact_flag" and plain.about["contract"] == "structured_outputs"
    assert request_key(body, "fake") == request_key(first("pretty").body("fake"), "fake")


def test_the_twin_replays_flagged_answers_only_on_an_engine_with_the_flag(
    recordings: Path, tmp_path: Path
) -> None:
    source = three(tmp_path)
    for name in ("pretty", "server_flag"):
        record_asking(server().target(), source, asking(name), concurrency=2)
    twin = open_target("twin")

    async def ask(target):  # type: ignore[no-untyped-def]
        client = target.client("wire")
        try:
            return await client.complete(first("server_flag"))
        finally:
            await client.aclose()

    plain, flagged = (target.run(ask(target)) for target in (twin, twin.engine(**SERVER_FLAG)))
    assert "\n" in plain.text and "\n" not in flagged.text
    assert "structured_outputs_config" not in twin.declared, "the ordinary twin is declared as before"
    assert twin.engine(**SERVER_FLAG).declared["structured_outputs_config"]


def test_only_the_forms_enforced_by_a_server_need_server_flags() -> None:
    flagged = {name for name, contract in contracts(CATALOG).items() if contract.engine}
    assert flagged == {"compact_flag", "guidance_flag"}
    assert flagged == {one.contract for one in FORMS.values() if one.enforced == "server"}
