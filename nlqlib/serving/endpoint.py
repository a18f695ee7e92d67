"""Where an endpoint is and how it is spoken to: address, key, certificate authority, proxies.

The key is read from the environment variable whose *name* is configured, at the time of each call. Nothing
here stores it, and `Endpoint.redact` takes it out of every text that leaves the clients.
"""

import os
import re
import ssl
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

MASK = "***"
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
BEARER = re.compile(
    r"(authorization['\"]?\s*[:=]\s*['\"]?|bearer\s+)(?:bearer\s+)?[^\s'\",}]+", re.IGNORECASE
)
TEXT_LIMIT = 500
"""Characters of an error text that are kept: enough for a server's message, too few for a page of HTML."""


class EndpointError(ValueError):
    """The endpoint is configured in a way that cannot work; says what to set."""


@dataclass(frozen=True)
class Address:
    """A base URL taken apart."""

    scheme: str
    host: str
    port: int
    prefix: str
    """Path in front of `/chat/completions`, without a slash at its end."""

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def netloc(self) -> str:
        """`host:port` for messages, with brackets around an IPv6 host."""
        return f"{self._bracketed}:{self.port}"

    @property
    def host_header(self) -> str:
        """Value of the Host header: the port only where it is not the scheme's own."""
        usual = 443 if self.tls else 80
        return self._bracketed if self.port == usual else self.netloc

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@lru_cache(maxsize=1024)
def parse_address(url: str) -> Address:
    """`url` taken apart, for example `https://host/prefix/v1`.

    Raises `EndpointError` for another scheme, credentials in the URL, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise EndpointError(f"the base URL cannot be read ({problem}): use https://host/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EndpointError(
            "the base URL must look like https://host/v1: http or https, a host, the API's path"
        )
    if parts.username or parts.password:
        raise EndpointError("the base URL must not carry a key: put it in a variable and name that variable")
    if parts.query or parts.fragment:
        raise EndpointError("the base URL must end with the API's path: no query and no fragment")
    default = 443 if parts.scheme == "https" else 80
    return Address(parts.scheme, parts.hostname, port or default, parts.path.rstrip("/"))


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint, as configured; building one contacts nothing."""

    base_url: str
    """Up to and including the API's path: `https://host/prefix/v1`."""
    model: str | None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `None` sends no Authorization header."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers of every request."""
    ca_file: str | None = None
    """PEM file of a private certificate authority; `None` trusts what the system trusts."""
    timeout_s: float = 600.0
    """Limit of one request from start to last byte, in seconds of the running loop."""

    def __post_init__(self) -> None:
        _check_headers(self.headers)

    @property
    def address(self) -> Address:
        return parse_address(self.base_url)

    def key(self) -> str | None:
        """The key, read now; `None` when none is configured. Raises `EndpointError` when it is not set."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise EndpointError(
                f"the environment variable {self.api_key_env} is not set: put the endpoint's key there, "
                "or configure no key variable when the endpoint needs none"
            )
        if not key.isascii() or not key.isprintable():
            raise EndpointError(f"the key in {self.api_key_env} holds characters that no header can carry")
        return key

    def authorization(self) -> str | None:
        """Value of the Authorization header, or `None`."""
        key = self.key()
        return None if key is None else f"Bearer {key}"

    def redact(self, text: str) -> str:
        """`text` without the key, secret headers or bearer tokens, cut to `TEXT_LIMIT` characters."""
        secrets = [value for name, value in self.headers.items() if SECRET_NAME.search(name)]
        if self.api_key_env is not None:
            secrets.append(os.environ.get(self.api_key_env, "").strip())
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, MASK)
        text = BEARER.sub(rf"\1{MASK}", text)
        return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"

    def tls_context(self) -> ssl.SSLContext | None:
        """How certificates are verified; `None` for http. Raises `EndpointError` for a bad `ca_file`."""
        if not self.address.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as problem:
            raise EndpointError(
                f"the certificate authority file {self.ca_file} cannot be used ({problem}): "
                "name a PEM file that holds its certificate"
            ) from None


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.isprintable():
            raise EndpointError(
                f"the header {name!r} cannot be sent: its name or value is not printable ASCII"
            )
        if not value.isascii():
            raise EndpointError(f"the value of the header {name!r} is not ASCII")


def ignored_proxy(address: Address) -> str | None:
    """Name of the variable by which other tools would reach `address` through a proxy, else `None`."""
    if proxy_bypass_environment(address.netloc):
        return None
    for variable in (f"{address.scheme}_proxy", "all_proxy"):
        for name in (variable.upper(), variable):
            if os.environ.get(name):
                return name
    return None


def warn_of_proxy(address: Address) -> None:
    """Warn, naming the variable, that a configured proxy is not used: both clients connect directly.

    A proxy queues and pools by its own rules; measured through it, the endpoint could not be told from it.
    """
    if name := ignored_proxy(address):
        warnings.warn(
            f"{name} is set and ignored: requests go straight to the endpoint, since a proxy's own queue "
            "and pool would be measured with it. Unset it, or add the endpoint's host to NO_PROXY; "
            "where only the proxy reaches the endpoint, run this suite on a machine that can.",
            stacklevel=3,
        )
