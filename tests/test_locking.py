"""One run at a time per place: a URL is one place however it is named, and no lock file tells which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.locking import EndpointLock, LockedError
from nlqlib.serving.endpoint import EndpointError
from nlqlib.serving.target import Target, one_spelling, open_target

HOST = "llm.secret-host.example"


def named(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("TARGET_NAME", name)
    return open_target(url)


@pytest.mark.parametrize(
    "other",
    [
        f"https://{HOST}/v1/",
        f"https://{HOST}:443/v1",
        f"HTTPS://{HOST.upper()}/v1",
        f"https://{HOST}./v1",
    ],
)
def test_two_names_of_one_url_refuse_each_other(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = named("one", f"https://{HOST}/v1", monkeypatch), named("two", other, monkeypatch)
    assert first.instance != second.instance
    with EndpointLock(first.lock_id), pytest.raises(LockedError), EndpointLock(second.lock_id):
        raise AssertionError("two runs hold one endpoint")


@pytest.mark.parametrize(
    "other", [f"http://{HOST}/v1", f"https://{HOST}:8443/v1", f"https://{HOST}/other/v1", "https://h/v1"]
)
def test_two_urls_of_one_name_are_two_places(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = named("one", f"https://{HOST}/v1", monkeypatch), named("one", other, monkeypatch)
    with EndpointLock(first.lock_id), EndpointLock(second.lock_id):
        assert first.lock_id != second.lock_id


def test_the_names_of_this_machine_are_one() -> None:
    spelt = {one_spelling(f"http://{h}:8000/v1") for h in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")}
    assert len(spelt) == 1


def test_a_gateway_in_front_of_an_endpoint_locks_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    target = named("one", f"https://{HOST}/v1", monkeypatch)
    assert target.limited(router=1).lock_id == target.lock_id
    local = open_target("local")
    assert local.limited(router=1).lock_id == local.lock_id == local.engine(max_num_seqs=4).lock_id


def test_a_lock_file_holds_neither_host_nor_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY_ENV", "A_KEY")
    monkeypatch.setenv("A_KEY", "sk-very-secret")
    target = named("one", f"https://{HOST}/v1", monkeypatch)
    with EndpointLock(target.lock_id) as lock:
        written = lock.path.name + lock.path.read_text("utf-8")
    assert "secret" not in written and "sk-" not in written and HOST not in written
    assert HOST not in f"{target}"


def test_a_url_that_carries_a_key_is_no_place() -> None:
    with pytest.raises(EndpointError, match="must not carry a key"):
        one_spelling(f"https://user:sk-very-secret@{HOST}/v1")


@given(st.sampled_from(["http", "https"]), st.integers(1, 65535), st.sampled_from(["", "/v1", "/a/b"]))
def test_a_spelling_is_its_own(scheme: str, port: int, path: str) -> None:
    once = one_spelling(f"{scheme}://Host:{port}{path}/")
    assert one_spelling(once) == once
