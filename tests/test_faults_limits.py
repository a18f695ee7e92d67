"""Before a diagnosis sends anything: hard limits, and an endpoint that another run is measuring."""

from pathlib import Path

import pytest
from fake_behaviours import Say
from fake_server import FakeServer, serve

from nlqlib.__main__ import main
from nlqlib.artifacts import Store
from nlqlib.experiments import diagnose_limits
from nlqlib.experiments.diagnose import Plan, requests_of, sweep
from nlqlib.experiments.study import Study
from nlqlib.locking import EndpointLock
from nlqlib.plan import LimitError
from nlqlib.serving.target import open_target
from nlqlib.tokens import count_chat

SENT = (24 + 20) + (28 + 20)
"""Requests of the levels 1 and 4, and the twenty prompts that warm each."""


def study(folder: Path) -> Study:
    return Study("diagnose", open_target("twin"), "full", "wire", Store(folder))


def test_a_plan_counts_what_is_sent_and_retained_levels_send_nothing(tmp_path: Path) -> None:
    plan = Plan((1, 4))
    assert diagnose_limits.sends(study(tmp_path), plan) == SENT
    sweep(study(tmp_path), Plan((1,)))
    assert diagnose_limits.sends(study(tmp_path), plan) == 48


def test_tokens_are_bounded_by_the_longest_answers(tmp_path: Path) -> None:
    plan = Plan((1, 4))
    prompts = [count_chat(r.messages) for r in requests_of(study(tmp_path), plan)]
    cycled = sum(prompts) + sum(prompts[:4]) + sum(prompts) + sum(prompts[:8])
    warmed = 2 * (sum(prompts) + 20)
    assert diagnose_limits.most_tokens(study(tmp_path), plan) == cycled + 52 * 256 + warmed


def test_a_limit_allows_exactly_its_number(tmp_path: Path) -> None:
    plan = Plan((1, 4))
    diagnose_limits.check(study(tmp_path), plan, 0, {"MAX_REQUESTS": str(SENT)})
    with pytest.raises(LimitError, match=f"may need {SENT} but MAX_REQUESTS allows {SENT - 1}"):
        diagnose_limits.check(study(tmp_path), plan, 0, {"MAX_REQUESTS": str(SENT - 1)})
    with pytest.raises(LimitError, match="MAX_TOKENS takes a whole number, not 'many'"):
        diagnose_limits.check(study(tmp_path), plan, 0, {"MAX_TOKENS": "many"})


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["diagnose", *arguments]) == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", ["MAX_REQUESTS", "MAX_TOKENS"])
def test_beyond_a_limit_nothing_is_sent(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "10")
    server = FakeServer(Say())
    with serve(server) as root:
        said = refused(capsys, "--target", f"{root}/v1", "--concurrency", "1,4", "--out", str(tmp_path))
    assert f"{name} allows 10" in said and "nothing was sent" in said
    assert not server.seen and not list(tmp_path.rglob("*.json"))


def test_a_second_run_on_a_locked_endpoint_is_refused_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARGET_NAME", "locked-in-a-test")
    server = FakeServer(Say())
    with serve(server) as root, EndpointLock(open_target(f"{root}/v1").lock_id):
        said = refused(capsys, "--target", f"{root}/v1", "--concurrency", "1,4", "--out", str(tmp_path))
    assert "this endpoint is being measured by process" in said and "then run again" in said
    assert not server.seen and not list(tmp_path.rglob("*.json"))


def test_another_name_of_a_locked_url_is_refused_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(Say())
    with serve(server) as root:
        monkeypatch.setenv("TARGET_NAME", "first-name")
        first = open_target(f"{root}/v1")
        monkeypatch.setenv("TARGET_NAME", "second-name")
        other = root.replace("127.0.0.1", "LOCALHOST") + "/v1/"
        with EndpointLock(first.lock_id):
            said = refused(capsys, "--target", other, "--concurrency", "1,4", "--out", str(tmp_path))
    assert "this endpoint is being measured by process" in said
    assert not server.seen and not list(tmp_path.rglob("*.json"))
