"""Addresses, keys, certificate files and proxies."""

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest
from client_world import ask, both_clients, everywhere, request, running, shared_socket
from fake_behaviours import MODEL, EchoHeaders, Raw, Say, Status, error_object, stream
from fake_server import FakeServer

from nlqlib.serving.client import Endpoint, EndpointError, make_client
from nlqlib.serving.endpoint import TEXT_LIMIT, parse_address

__all__ = ["shared_socket"]  # the fixture must be found in this module

KEY = "sk-very-secret-0123456789"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MY_KEY", KEY + "\n")
    return KEY


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("url", "netloc", "host_header", "prefix"),
    [
        ("http://h/v1", "h:80", "h", "/v1"),
        ("https://h/v1/", "h:443", "h", "/v1"),
        ("https://h:8443/gate/way/v1", "h:8443", "h:8443", "/gate/way/v1"),
        ("http://[::1]:8000/v1", "[::1]:8000", "[::1]:8000", "/v1"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "127.0.0.1:8000", ""),
    ],
)
def test_a_base_url_is_taken_apart(url: str, netloc: str, host_header: str, prefix: str) -> None:
    found = parse_address(url)
    assert (found.netloc, found.host_header, found.prefix) == (netloc, host_header, prefix)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("h/v1", "https://host/v1"),
        ("ftp://h/v1", "https://host/v1"),
        ("http:///v1", "https://host/v1"),
        ("http://h:port/v1", "https://host/v1"),
        (f"https://user:{KEY}@h/v1", "must not carry a key"),
        (f"https://h/v1?key={KEY}", "no query"),
    ],
)
def test_a_url_that_cannot_work_says_what_one_looks_like_and_repeats_no_secret(url: str, says: str) -> None:
    with pytest.raises(EndpointError, match=says) as caught:
        parse_address(url)
    assert KEY not in str(caught.value)


@both_clients
@everywhere
def test_the_key_of_the_named_variable_and_further_headers_are_sent(kind: str, place: str, key: str) -> None:
    server = FakeServer(api_key=KEY)
    got = ask(kind, place, server, request(), api_key_env="MY_KEY", headers={"X-Team": "a"})[0]
    assert got.outcome == "ok"
    assert server.seen[0].headers["x-team"] == "a"


@both_clients
@everywhere
def test_without_a_key_no_authorization_is_sent_whatever_openai_variables_say(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    server = FakeServer()
    ask(kind, place, server, request())
    sent = server.seen[0].headers
    assert "authorization" not in sent
    assert KEY not in str(sent)


@both_clients
def test_the_key_is_read_at_the_time_of_the_call(
    kind: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer()
    endpoint = Endpoint("http://fake/v1", MODEL, api_key_env="MY_KEY")

    async def main() -> None:
        client = make_client(kind, endpoint, app=server)  # type: ignore[arg-type]
        await client.complete(request())
        monkeypatch.setenv("MY_KEY", "another")
        await client.complete(request())
        await client.aclose()

    asyncio.run(main())
    assert [s.headers["authorization"] for s in server.seen] == [f"Bearer {KEY}", "Bearer another"]


LEAKS: dict[str, Any] = {
    "repeats the headers": EchoHeaders(401),
    "repeats the key": Status(401, error_object(401, f"Incorrect API key provided: {KEY}")),
    "repeats it at the edge of what is kept": Status(500, "x" * (TEXT_LIMIT - 10) + KEY),
    "repeats it in a page": Status(502, f"<html>Authorization: Bearer {KEY}</html>"),
    "repeats it in a broken body": Raw((f"no json {KEY}".encode(),)),
    "repeats it in a stream": stream(error_object(500, f"bad key {KEY}")),
    "repeats it in a broken event": stream(f"no json {KEY}"),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS.keys())
@both_clients
def test_the_key_is_in_no_completion(
    kind: str, leak: Any, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    for place in ("in process", "socket"):
        got = ask(kind, place, leak, request("event-stream" in str(leak)), api_key_env="MY_KEY")[0]
        assert got.error
        assert KEY not in repr(got)
        assert KEY[:12] not in got.error
    assert KEY not in caplog.text


@both_clients
def test_a_secret_header_is_redacted_like_the_key(kind: str) -> None:
    got = ask(kind, "in process", EchoHeaders(403), request(), headers={"X-Api-Key": KEY})[0]
    assert got.error
    assert KEY not in got.error


def test_neither_key_nor_headers_are_in_the_repr(key: str) -> None:
    endpoint = Endpoint("http://fake/v1", MODEL, api_key_env="MY_KEY", headers={"X-Api-Key": KEY})
    client = make_client("openai", endpoint, app=FakeServer())
    assert KEY not in repr(endpoint) + repr(client) + repr(vars(client))


@both_clients
def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(EndpointError, match="MY_KEY is not set"):
        make_client(kind, Endpoint("http://fake/v1", MODEL, api_key_env="MY_KEY"))  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [{"X\r\nY": "a"}, {"X": "a\r\nY: b"}, {"X": "ä"}])
def test_a_header_that_would_break_the_request_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(EndpointError, match="header"):
        Endpoint("http://fake/v1", MODEL, headers=headers)


@both_clients
@pytest.mark.parametrize("make_file", [False, True])
def test_a_bad_certificate_authority_file_is_named(kind: str, make_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if make_file:
        file.write_text("no certificate")
    with pytest.raises(EndpointError, match=r"ca\.pem cannot be used"):
        make_client(kind, Endpoint("https://fake/v1", MODEL, ca_file=str(file)))  # type: ignore[arg-type]


@both_clients
@pytest.mark.parametrize(
    ("variable", "named"),
    [("HTTP_PROXY", "HTTP_PROXY"), ("http_proxy", "http_proxy"), ("ALL_PROXY", "ALL_PROXY")],
)
def test_a_proxy_variable_is_ignored_with_one_warning_that_names_it(
    kind: str, variable: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"http://user:{KEY}@127.0.0.1:1")  # nothing listens there
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = ask(kind, "socket", Say("yes"), request(), request())
    assert [c.outcome for c in got] == ["ok", "ok"]
    ours = [str(w.message) for w in caught if "ignored" in str(w.message)]
    assert len(ours) == 1
    assert ours[0].startswith(f"{named} is set and ignored")
    assert KEY not in ours[0]


@both_clients
@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "http://h/v1"),  # it is for the other scheme
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "h"}, "http://h/v1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "http://h/v1"),
        ({"NO_PROXY": "h"}, "http://h/v1"),
    ],
)
def test_a_proxy_that_would_not_be_used_for_this_endpoint_is_no_warning(
    kind: str, variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_client(kind, Endpoint(url, MODEL))  # type: ignore[arg-type]


@both_clients
@everywhere
def test_a_path_prefix_is_kept(kind: str, place: str) -> None:
    server = FakeServer(prefix="/gate/v1")
    assert ask(kind, place, server, request())[0].outcome == "ok"
    assert server.seen[0].path == "/gate/v1/chat/completions"


@both_clients
@everywhere
def test_a_base_url_without_the_api_path_says_so(kind: str, place: str) -> None:
    with running(place, FakeServer()) as (root, _):
        got = ask(kind, place, FakeServer(), request(), base_url=root)[0]
    assert got.outcome == "http_4xx"
    assert "usually /v1" in (got.error or "")


@both_clients
@everywhere
def test_a_model_that_is_not_served_is_the_wrong_model(kind: str, place: str) -> None:
    got = ask(kind, place, FakeServer(check_model=True), request(), model="other")[0]
    assert got.outcome == "wrong_model"
    assert "`other` does not exist" in (got.error or "")
