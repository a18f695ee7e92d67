"""Recordings are found by what was asked, and a damaged file is refused."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from fake_behaviours import Say
from fake_server import FakeServer, serve

from nlqlib import paths, tokens
from nlqlib.experiments import journal
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.records import ChatRequest, OutputContract
from nlqlib.serving.target import open_target
from nlqlib.twin.recordings import (
    Recording,
    RecordingError,
    load_recordings,
    request_key,
    save_recordings,
)

MODEL = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
SCHEMA = OutputContract("structured_outputs", {"structured_outputs": {"json": {"type": "object"}}})


def body(question: str = "revenue by region", **changes: object) -> dict[str, object]:
    request = ChatRequest("r1", ({"role": "user", "content": question},), contract=SCHEMA)
    return request.body(MODEL) | changes


def recording(question: str = "revenue by region", text: str = '{"a": 1}') -> Recording:
    ids = (*tokens.encode(text), 151645)
    return Recording(request_key(body(question), MODEL), text, "stop", 42, ids, about={"id": question})


@pytest.mark.parametrize(
    "change",
    [{"max_tokens": 8}, {"stream": True}, {"logprobs": True, "top_logprobs": 5}, {"return_token_ids": True}],
)
def test_how_an_answer_is_delivered_is_not_part_of_the_key(change: dict[str, object]) -> None:
    assert request_key(body(), MODEL) == request_key(body(**change), MODEL)


@pytest.mark.parametrize(
    "change", [{"temperature": 0.7}, {"structured_outputs": {"json": {"type": "array"}}}, {"seed": 1}]
)
def test_what_decides_the_answer_is_part_of_the_key(change: dict[str, object]) -> None:
    assert request_key(body(), MODEL) != request_key(body(**change), MODEL)


def test_a_whole_number_temperature_is_the_same_as_its_float() -> None:
    assert request_key(body(temperature=0), MODEL) == request_key(body(temperature=0.0), MODEL)


def test_another_model_has_another_key() -> None:
    assert request_key(body(), MODEL) != request_key(body(), "other")


def test_saved_recordings_come_back_as_they_were(tmp_path: Path) -> None:
    one = recording()
    save_recordings(tmp_path / "dev.jsonl", [one], {"model": MODEL})
    loaded = load_recordings(tmp_path)
    assert loaded.model == MODEL
    assert loaded.find(body(max_tokens=9)) == one
    assert loaded.sources[0]["n"] == 1


def test_saving_twice_writes_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    rows = [recording("a"), recording("b")]
    save_recordings(tmp_path / "x.jsonl", rows, {"model": MODEL})
    first = (tmp_path / "x.jsonl").read_bytes()
    save_recordings(tmp_path / "x.jsonl", rows[::-1], {"model": MODEL})
    assert (tmp_path / "x.jsonl").read_bytes() == first


def test_a_file_cut_in_the_middle_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    save_recordings(path, [recording("a"), recording("b")], {"model": MODEL})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(RecordingError, match=r"dev\.jsonl is cut or changed"):
        load_recordings(tmp_path)


def test_a_missing_description_is_named(tmp_path: Path) -> None:
    save_recordings(tmp_path / "dev.jsonl", [recording()], {"model": MODEL})
    (tmp_path / "dev.meta.json").unlink()
    with pytest.raises(RecordingError, match=r"dev\.meta\.json is missing"):
        load_recordings(tmp_path)


def test_an_empty_folder_says_how_to_record(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="make record"):
        load_recordings(tmp_path)


def test_two_models_in_one_folder_are_refused(tmp_path: Path) -> None:
    save_recordings(tmp_path / "a.jsonl", [recording()], {"model": MODEL})
    save_recordings(tmp_path / "b.jsonl", [recording()], {"model": "other"})
    with pytest.raises(RecordingError, match="mixes models"):
        load_recordings(tmp_path)


def test_a_recording_says_how_many_requests_were_really_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(journal, "FOLDER", tmp_path / "answered")
    monkeypatch.setenv("MODEL", "fake")
    lines = (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()[:7]
    (tmp_path / "seven.jsonl").write_text("\n".join(lines), encoding="utf-8")
    server = FakeServer(Say("{}", token_ids=(4913, 151645), latency_s=0.05))
    with serve(server) as url, closing(open_target(f"{url}/v1")) as target:
        path = record_asking(target, str(tmp_path / "seven.jsonl"), asking("baseline"), concurrency=3)
    kept = load_recordings(path.parent).by_key.values()
    assert [one.concurrency for one in kept] == [3] * 7
    assert server.peak_in_flight == 3


OURS = sorted(paths.RECORDINGS.glob("*/*.jsonl"))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_each_of_our_recordings_says_how_many_requests_were_in_flight(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    written = {row.get("concurrency") for row in rows}
    assert len(written) == 1
    assert 1 <= written.pop() <= len(rows)
