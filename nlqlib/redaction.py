"""Keeps keys and the hosts of private endpoints out of everything that is written down.

Secrets are recognised by the *name* of the environment variable that holds them.
"""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

MASK = "***"
SECRET_NAME = re.compile(r"KEY|TOKEN(?!S|IZ)|SECRET|PASSWORD", re.IGNORECASE)
"""`MAX_TOKENS` counts tokens, `TOKENIZERS_PARALLELISM` is a switch."""
KEY_NAME = "API_KEY_ENV"
"""Holds the name of the variable with the endpoint's key, which is no secret itself."""
ADDRESSES = ("TARGET", "TARGET_URL", "METRICS_URL", "METRICS_URLS", "UPSTREAMS", "DCGM_URL")
SHORTEST_SECRET = 6
"""Shorter values are ordinary words and numbers; masking them would spoil what is written."""
SHORTEST_KEY = 4
"""The same for the one variable that is known to hold a key."""


def secrets(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Texts that must not be written: values of secret variables, hosts of configured URLs; longest first."""
    env = os.environ if environment is None else environment
    found = {value.strip() for name, value in env.items() if SECRET_NAME.search(name) and name != KEY_NAME}
    found |= {host for name in ADDRESSES for host in _hosts(env.get(name, ""))}
    found = {text for text in found if len(text) >= SHORTEST_SECRET}
    key = env.get(env.get(KEY_NAME, ""), "").strip()
    if len(key) >= SHORTEST_KEY:
        found.add(key)
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def redact(text: str, hidden: tuple[str, ...] | None = None) -> str:
    """`text` with every secret replaced by `***`."""
    for secret in secrets() if hidden is None else hidden:
        text = text.replace(secret, MASK)
    return text


def redact_all(value: Any, hidden: tuple[str, ...] | None = None) -> Any:
    """`value` (JSON types) with every text in it redacted, keys included."""
    hidden = secrets() if hidden is None else hidden
    if isinstance(value, str):
        return redact(value, hidden)
    if isinstance(value, Mapping):
        return {redact(k, hidden): redact_all(v, hidden) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact_all(v, hidden) for v in value]
    return value


def _hosts(urls: str) -> list[str]:
    """Hosts of comma-separated URLs, with and without port; words such as `twin` have none."""
    parts = [urlsplit(url.strip()) for url in urls.split(",")]
    return [host for part in parts for host in (part.netloc, part.hostname) if host]
