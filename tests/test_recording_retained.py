"""What a page retained of a real engine is what the twin replays: one run is the source of both."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_world import Scripted
from test_heldout import four, ranking_model

from nlqlib import __main__, paths, tokens
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import journal as journals
from nlqlib.experiments.answers import Asking, answers
from nlqlib.experiments.conditions import ASKINGS, CONDITIONS, Condition, conditions
from nlqlib.experiments.heard import heard_of, without_bytes
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.recording_retained import ENCODED, exchanges, fill
from nlqlib.experiments.semantics import evaluate_all
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import load_catalog
from nlqlib.records import Completion
from nlqlib.serving import twin_target
from nlqlib.serving.target import open_target
from nlqlib.twin.recordings import Recording, RecordingError, load_recordings, request_key, save_recordings

PAGE = "13_heldout"
LOCAL = paths.ARTIFACTS / "local" / "13_heldout_semantics"
HOWS = conditions("baseline,cues,planner,clarifier,rules_only")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of its own: four questions, no recording, nothing retained."""
    monkeypatch.setattr(paths, "QUESTIONS", four(tmp_path).parent)
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    twin_target.recordings.cache_clear()
    yield tmp_path
    twin_target.recordings.cache_clear()


def evaluated(folder: Path, model: Scripted) -> dict[str, Record]:
    study = Study(PAGE, model.target(), "full", "openai", Store(folder / "artifacts"))
    return evaluate_all(study, "dev", HOWS, 2)


def asked(folder: Path) -> dict[str, Record]:
    """The answers alone, by how they were asked for."""
    study = Study(PAGE, ranking_model().target(), "full", "openai", Store(folder / "artifacts"))
    catalog = load_catalog()
    heard = {n: answers(study, Asking.of("dev", ASKINGS[n], catalog, 2)) for n in ("baseline", "planner")}
    return {name: one.record for name, one in heard.items() if one.record}


def filled(folder: Path) -> dict[str, int]:
    """Fill, and how many answers each file took."""
    made = fill(folder / "artifacts" / "scripted" / PAGE, paths.RECORDINGS)
    twin_target.recordings.cache_clear()
    return {one.path.stem.partition("-structured")[0]: one.taken for one in made}


def recorded(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "recordings").rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def meaning(record: Record) -> dict[str, Any]:
    """What is reported but for times and cost, which are the endpoint's own."""
    return {k: v for k, v in record.results["report"].items() if k != "serving"}


def test_the_twin_replays_the_run_that_was_judged(world: Path) -> None:
    judged = evaluated(world, ranking_model())
    assert filled(world) == {"dev-baseline": 4, "dev-planner": 8}
    twin = evaluate_all(
        Study(PAGE, open_target("twin"), "full", "openai", Store(world / "artifacts")), "dev", HOWS, 2
    )
    for name, record in judged.items():
        assert meaning(twin[name]) == meaning(record), name
        told = [[row[k] for k in ("text", "raw", "final", "belief")] for row in record.samples()]
        assert [[row[k] for k in ("text", "raw", "final", "belief")] for row in twin[name].samples()] == told


def test_a_file_says_which_run_it_comes_from_and_how_its_token_ids_came_about(world: Path) -> None:
    record = asked(world)["baseline"]
    filled(world)
    [path] = (world / "recordings").rglob("dev-baseline-*.meta.json")
    about = json.loads(path.read_text("utf-8"))
    assert about["run"] == {
        "target": "scripted",
        "notebook": PAGE,
        "point": "answers-dev-baseline",
        "answers_sha256": record.body["samples"]["sha256"],
        "concurrency": 2,
    }
    for one in recorded(world):
        assert one["concurrency"] == 2 and one["about"]["token_ids"] == ENCODED
        assert tokens.decode(one["token_ids"]) == one["text"] + "<|im_end|>"


def test_a_second_time_changes_nothing(world: Path) -> None:
    asked(world)
    filled(world)
    before = {p: p.read_bytes() for p in (world / "recordings").rglob("*.json*")}
    assert filled(world) == {"dev-baseline": 0, "dev-planner": 0}
    assert {p: p.read_bytes() for p in (world / "recordings").rglob("*.json*")} == before


def test_only_an_answer_that_differs_is_taken(world: Path) -> None:
    asked(world)
    filled(world)
    [path] = (world / "recordings").rglob("dev-baseline-*.jsonl")
    known = load_recordings(path.parent).by_key.values()
    source = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    direct = [one for one in known if "step" not in one.about]
    kept = [replace(one, about={"question": "as it was"}) for one in direct]
    kept[0] = replace(kept[0], text="{}", token_ids=(1, 2))
    kept[1] = replace(kept[1], concurrency=9)
    save_recordings(path, kept, source)
    assert filled(world)["dev-baseline"] == 1
    now = load_recordings(path.parent).by_key
    assert now[kept[0].key].text != "{}"
    assert all(now[one.key] == replace(one, concurrency=2) for one in kept[1:]), "as the run was"


def test_a_text_that_the_server_counted_otherwise_is_refused(world: Path) -> None:
    asked(world)
    [path] = (world / "artifacts").rglob("answers-dev-baseline-????????.json")
    record = load_record(path)
    rows = record.samples()
    rows[0]["requests"][0]["output_tokens"] -= 1
    rewritten(record, rows)
    with pytest.raises(RecordingError, match=r"the text of dev-01 is \d+ tokens, and the server counted"):
        filled(world)


def test_a_text_written_in_more_tokens_than_needed_is_cut_into_as_many(world: Path) -> None:
    asked(world)
    [path] = (world / "artifacts").rglob("answers-dev-baseline-????????.json")
    record = load_record(path)
    rows = record.samples()
    for row, more in zip(rows, (1, 2, 5, 90), strict=True):
        row["requests"][0]["output_tokens"] += more
    rewritten(record, rows)
    filled(world)
    counted = {row["question_id"]: row["requests"][0]["output_tokens"] for row in rows}
    found = [one for one in recorded(world) if "step" not in one["about"]]
    assert {one["about"]["question"]: len(one["token_ids"]) for one in found} == counted
    assert all(tokens.decode(one["token_ids"]) == one["text"] + "<|im_end|>" for one in found)


def rewritten(record: Record, rows: list[dict[str, Any]]) -> None:
    """Put other rows into a retained point, as if it had been measured so."""
    told = record.body["samples"]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (record.path.parent / told["path"]).write_bytes(data)
    body = record.body | {"samples": told | {"sha256": hashlib.sha256(data).hexdigest()}}
    record.path.write_text(json.dumps(body), encoding="utf-8")


def test_answers_to_what_is_not_asked_any_more_are_not_taken(world: Path) -> None:
    with pytest.raises(RecordingError, match="holds no answers to what is asked today"):
        filled(world)
    asked(world)
    lines = (world / "dev.jsonl").read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    (world / "dev.jsonl").write_text(
        "\n".join([json.dumps(first | {"question": first["question"] + ", please"}), *lines[1:]])
    )
    with pytest.raises(RecordingError, match="holds no answers to what is asked today"):
        filled(world)


def test_the_command_says_what_it_took(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked(world)
    folder = world / "artifacts" / "scripted" / PAGE
    assert __main__.main(["record", "--retained", str(folder)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "model/dev-baseline-structured_outputs.jsonl: 4 answers, 4 of them new"
    assert __main__.main(["record", "--retained", str(world / "nothing")]) == 2
    assert "measure them first" in capsys.readouterr().err


# --- the runs in this repository ---


def retained() -> list[tuple[Record, Condition]]:
    """The answers of the real engine that are judged on the page, each with how they were asked for."""
    found = sorted(LOCAL.glob("answers-*-????????.json"))
    return [(r, CONDITIONS[r.params["prompt"]]) for r in map(load_record, found) if r.status == "success"]


local = pytest.mark.skipif(not retained(), reason="no answers of a local engine are retained here")


def heard_and_recorded(
    record: Record, how: Condition, known: Mapping[str, Recording]
) -> Iterator[tuple[Any, Any]]:
    """Every retained answer and its recording: text, finish reason, token counts, log-probabilities."""
    assert record.workload is not None and record.server is not None
    catalog = load_catalog()
    model = str(record.server.model)
    for request, done in exchanges(
        record.samples(), load_questions(record.workload.name, catalog), how, catalog
    ):
        one = known[request_key(request.body(model), model)]
        spoken = tuple(map(without_bytes, one.logprobs or ())) if done.logprobs else None
        told = (one.text, one.finish_reason, one.prompt_tokens, len(one.token_ids), spoken)
        yield (request.request_id, *_told(done)), (request.request_id, *told)


def _told(done: Completion) -> tuple[Any, ...]:
    return done.text, done.finish_reason, done.prompt_tokens, done.output_tokens, done.logprobs


def by_key(root: Path) -> Mapping[str, Recording]:
    [folder] = (p for p in root.iterdir() if p.is_dir())
    return load_recordings(folder).by_key


@local
def test_every_answer_of_the_real_engine_can_be_replayed(tmp_path: Path) -> None:
    root = tmp_path / "recordings"
    shutil.copytree(paths.RECORDINGS, root)
    fill(LOCAL, root)
    known = by_key(root)
    for record, how in retained():
        for heard, replayed in heard_and_recorded(record, how, known):
            assert replayed == heard


@local
def test_every_answer_retained_of_the_real_engine_is_the_one_that_the_twin_replays() -> None:
    """Where this fails: `python -m nlqlib record --retained artifacts/local/13_heldout_semantics`."""
    assert sum(len(heard_of(record.samples())) for record, _ in retained()) >= 125
    known = by_key(paths.RECORDINGS)
    differ = [
        heard[0]
        for record, how in retained()
        for heard, replayed in heard_and_recorded(record, how, known)
        if heard != replayed
    ]
    assert differ == []
