"""A server is recognised by what it does with each field, and what it ignores is named."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_structured import ALL, VLLM_032, StructuredServer

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.artifacts import Store
from nlqlib.experiments.contract_probe import (
    Finding,
    already_compact,
    findings,
    flagged_study,
    honoured,
    ignored,
    judge_probe,
    probe,
    record_probe,
    ways,
)
from nlqlib.experiments.study import Study
from nlqlib.records import Completion
from nlqlib.serving import twin_target
from nlqlib.serving.target import TargetError, open_target

COMPACT = {"guidance", "regex", "grammar"}


def probed(folder: Path, server: StructuredServer) -> list[Finding]:
    return findings(probe(Study("09_compact_json", server.target(), "full", "wire", Store(folder))))


def verdicts(found: list[Finding]) -> dict[str, str]:
    return {one.way: one.verdict for one in found}


def test_vllm_0_32_reads_three_ways_and_ignores_three_fields(tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer())
    assert set(honoured(found)) == {"pretty"} | COMPACT
    assert ignored(found) == ["guided_json", "disable_any_whitespace", "whitespace_pattern"]
    assert not already_compact(found)


def test_a_server_that_knows_no_structured_outputs_is_named(tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer(reads=frozenset({"response_format"})))
    assert honoured(found) == []
    assert "structured_outputs.json" in ignored(found) and "structured_outputs.regex" in ignored(found)
    assert verdicts(found)["response_format"] == "honoured"


@pytest.mark.parametrize("name", sorted(ALL))
def test_each_field_that_is_not_read_is_named_alone(name: str, tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer(reads=ALL - {name}))
    documented = {n: f"structured_outputs.{n}" for n in ("json", "regex", "grammar")}
    assert ignored(found) == [documented.get(name, name)]


def test_an_old_server_reads_the_old_field(tmp_path: Path) -> None:
    found = verdicts(probed(tmp_path, StructuredServer(reads=frozenset({"guided_json"}))))
    assert found["guided_json"] == "honoured" and found["schema"] == "ignored"


def test_spaces_after_separators_are_compact_only_in_part(tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer(separators=(", ", ": ")))
    assert verdicts(found)["regex"] == "partly"
    assert honoured(found) == ["pretty"]


def test_a_refused_field_is_not_an_ignored_one(tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer(refuses=frozenset({"regex"})))
    [regex] = [one for one in found if one.way == "regex"]
    assert regex.verdict == "refused" and "unknown field regex" in regex.reason
    assert "structured_outputs.regex" not in ignored(found)


def test_a_server_whose_flag_is_set_is_seen_to_minify_unasked(tmp_path: Path) -> None:
    found = probed(tmp_path, StructuredServer(flag=True))
    assert already_compact(found)
    assert verdicts(found)["disable_any_whitespace"] == "cannot tell", "nobody can tell who did it"


def test_the_flag_is_probed_on_a_server_that_was_started_with_it(tmp_path: Path) -> None:
    study = Study("09_compact_json", StructuredServer().target(), "full", "wire", Store(tmp_path))
    assert already_compact(findings(probe(flagged_study(study), flagged=True)))
    assert not already_compact(findings(probe(study)))


def test_a_cut_answer_is_no_verdict_even_if_it_is_whole_json() -> None:
    answers = {
        way.name: Completion(way.name, "ok", '{"animal":"okapi","legs":4,"seen_in":"1999"}', "length")
        for way in ways()
    }
    assert set(verdicts(judge_probe(answers)).values()) == {"cut"}
    assert honoured(judge_probe(answers)) == []


def test_a_server_that_is_down_honours_nothing_and_ignores_nothing() -> None:
    answers = {way.name: Completion(way.name, "http_503", error="overloaded") for way in ways()}
    found = judge_probe(answers)
    assert {one.verdict for one in found} == {"no answer"} and not honoured(found) and not ignored(found)


def test_a_model_that_answers_by_the_schema_unasked_proves_nothing() -> None:
    said = '{\n  "animal": "okapi",\n  "legs": 4,\n  "seen_in": "1999"\n}'
    found = judge_probe({way.name: Completion(way.name, "ok", said, "stop") for way in ways()})
    assert {one.verdict for one in found} == {"cannot tell"}


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty place for recordings, which the twin replays."""
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    twin_target.recordings.cache_clear()
    yield tmp_path / "recordings"
    twin_target.recordings.cache_clear()


def test_the_twin_replays_what_was_found_with_and_without_the_flag(recordings: Path, tmp_path: Path) -> None:
    target = StructuredServer().target()
    written = [record_probe(target), record_probe(target, flagged=True)]
    assert [path.name for path in written] == ["probe-none.jsonl", "probe-compact_flag.jsonl"]
    study = Study("09_compact_json", open_target("twin"), "full", "wire", Store(tmp_path / "artifacts"))
    assert set(honoured(findings(probe(study)))) == {"pretty"} | COMPACT
    assert already_compact(findings(probe(flagged_study(study), flagged=True)))


def test_what_was_refused_is_not_recorded_and_the_twin_says_that_it_never_heard_it(
    recordings: Path, tmp_path: Path
) -> None:
    record_probe(StructuredServer(refuses=frozenset({"grammar"})).target())
    study = Study("09_compact_json", open_target("twin"), "full", "wire", Store(tmp_path / "artifacts"))
    [grammar] = [one for one in findings(probe(study)) if one.way == "grammar"]
    assert grammar.verdict == "no answer" and "never recorded" in grammar.reason


def test_the_command_prints_findings_and_says_what_is_ignored(
    recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flagged in (False, True):
        record_probe(StructuredServer().target(), flagged)
    assert main(["probe", "--target", "twin"]) == 0
    printed = capsys.readouterr().out
    assert "Silently ignored, with HTTP 200: `guided_json`" in printed
    assert printed.count(" honoured ") == 5 and printed.count(" ignored") >= 3
    assert main(["probe", "--target", "twin", "--flagged", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["way"] for one in told] == [way.name for way in ways()]
    assert "without being asked" in told[-1]["reason"]


def test_a_server_without_token_ids_cannot_be_recorded(recordings: Path) -> None:
    class Silent(StructuredServer):
        def _pick(self, number: int, headers: dict[str, str], body: dict[str, object]):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            return replace(super()._pick(number, headers, body), token_ids=None)

    with pytest.raises(TargetError, match="recorded nothing"):
        record_probe(Silent(reads=VLLM_032).target())
