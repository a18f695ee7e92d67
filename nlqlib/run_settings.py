"""What a batch run is asked for: by options, by the environment that `make` passes on, and by defaults."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nlqlib.locking import utc_now
from nlqlib.notebook_params import suggestion
from nlqlib.records import Json
from nlqlib.remeasured import run_mark

PROFILES, CLIENTS = ("full", "quick"), ("wire", "openai")
IMPLIED = {"TARGET": "target_name", "PROFILE": "profile", "CLIENT": "client"}
"""Notebook parameters (in any case) that a setting decides."""
RESUMED = (
    *("TARGET_NAME", "MODEL", "API_KEY_ENV", "METRICS_URL", "METRICS_URLS", "CA_FILE", "TIMEOUT_S"),
    *("NLQLIB_CACHE", "ENGINE_BUILD", "VLLM_VERSION", "VLLM_CPU_KVCACHE_SPACE"),
)
"""Settings of the target that a resume command repeats; the key itself is never among them."""
PLACES = ("NLQLIB_CACHE", "XDG_CACHE_HOME", "CA_FILE", "NLQLIB_FIXTURES")
"""Settings that name a file or a folder."""

HELP = {
    "reproduce": (
        "Run the notebooks against a target, say what became of every point, and keep it.",
        "example: python -m nlqlib reproduce --target https://host/v1 --notebooks 03,05 --max-requests 12000",
    ),
    "plan": (
        "Say what `reproduce` would send and how long it takes; contacts nothing.",
        "example: python -m nlqlib plan --target https://host/v1 --notebooks 03,05 --profile quick",
    ),
}
"""What each command does, and an example."""


class SettingError(ValueError):
    """A setting that cannot be used; says which values can."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of one run."""

    command: str
    target: str = "twin"
    """`twin`, `local` or a URL."""
    target_name: str = "twin"
    """Names artifacts and pages; never a host."""
    profile: str | None = None
    notebooks: tuple[str, ...] = ()
    """Names or their beginnings; `()` for all."""
    client: str | None = None
    remeasure: bool = False
    since: str | None = None
    """With `remeasure`, when the run began that this one is or resumes, UTC."""
    max_requests: int | None = None
    max_tokens: int | None = None
    params: tuple[str, ...] = ()
    """`name=value` texts."""
    json: bool = False

    @property
    def effective_profile(self) -> str:
        """`quick` where every request costs seconds, unless asked otherwise."""
        return self.profile or ("quick" if self.target == "local" else "full")

    @property
    def lanes(self) -> int:
        """Notebooks at a time: two would disturb each other on a real endpoint."""
        return 2 if self.target == "twin" else 1

    @property
    def anew(self) -> str:
        """What `REMEASURE` is set to for kernels and in a resume command: points since then are kept."""
        return (self.since or "1") if self.remeasure else ""

    def say(self, text: str) -> None:
        """Print a line for people; with `--json` on standard error."""
        print(text, file=sys.stderr if self.json else sys.stdout, flush=True)

    def environment(self) -> dict[str, str]:
        """What kernels find in their environment: the settings, empty where not given."""
        url = self.target if "://" in self.target else ""
        return {
            "TARGET": self.target_name,
            "TARGET_URL": url,
            "TARGET_NAME": self.target_name if url else "",
            "PROFILE": self.profile or "",
            "CLIENT": self.client or "",
            "REMEASURE": self.anew,
            "MAX_REQUESTS": _text(self.max_requests),
            "MAX_TOKENS": _text(self.max_tokens),
        }

    def implied(self, parameters: Json) -> Json:
        """Values for those of a notebook's `parameters` that a setting contradicts.

        A parameter that is empty leaves the choice to the environment, so it needs no value.
        """
        found: Json = {}
        for name, default in parameters.items():
            chosen = getattr(self, IMPLIED[name.upper()]) if name.upper() in IMPLIED else None
            if chosen and default and default != chosen:
                found[name] = chosen
        return found


def parse(command: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> RunSettings:
    """The settings by options, else by the environment, else by default. Raises `SettingError`."""
    env = os.environ if environment is None else environment
    args = _parser(command, env).parse_args(argv)
    target, name = _target(args.target or "twin", env)
    told = env.get("REMEASURE", "")
    anew = args.remeasure or told not in ("", "0")
    return RunSettings(
        command=command,
        target=target,
        target_name=name,
        profile=_one_of("PROFILE", args.profile, PROFILES),
        notebooks=tuple((args.notebooks or "").replace(",", " ").split()),
        client=_one_of("CLIENT", args.client, CLIENTS),
        remeasure=anew,
        since=_since(told) if anew else None,
        max_requests=_count("MAX_REQUESTS", args.max_requests),
        max_tokens=_count("MAX_TOKENS", args.max_tokens),
        params=tuple(args.parameters),
        json=args.json,
    )


def _parser(command: str, env: Mapping[str, str]) -> argparse.ArgumentParser:
    about, example = HELP.get(command, HELP["reproduce"])
    parser = argparse.ArgumentParser(
        f"python -m nlqlib {command}",
        description=about,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, text in (
        ("target", "twin, local, or the URL of an endpoint"),
        ("profile", "full or quick"),
        ("notebooks", "names or their first characters, separated by commas"),
        ("client", "wire or openai"),
        (
            "max-requests",
            "refuse to send more requests (again after HTTP 429, or in a form not refused, is not counted)",
        ),
        ("max-tokens", "refuse what could take more tokens, every answer as long as it may be"),
    ):
        parser.add_argument(f"--{name}", default=env.get(name.upper().replace("-", "_")), help=text)
    parser.add_argument("--remeasure", action="store_true", help="measure every point anew into build/")
    parser.add_argument(
        "-p", dest="parameters", action="append", default=[], metavar="NAME=VALUE", help="notebook parameter"
    )
    parser.add_argument("--json", action="store_true", help="print the final table as JSON")
    return parser


def _since(told: str) -> str:
    """When the run began that is resumed, else now. Raises `SettingError` for a time that is none."""
    mark = run_mark(told)
    if not mark and re.match(r"\d{4}.", told):
        raise SettingError(f"REMEASURE takes 1, or the time at which a run began, not {told!r}")
    return mark or utc_now()


def _target(spec: str, env: Mapping[str, str]) -> tuple[str, str]:
    """The target and its name. Raises `SettingError`."""
    if spec in ("twin", "local"):
        return spec, spec
    name = env.get("TARGET_NAME") or "endpoint"
    if "://" not in spec and spec == env.get("TARGET_NAME") and env.get("TARGET_URL"):
        spec = env["TARGET_URL"]
    parts = urlsplit(spec)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"unknown TARGET {spec!r}: use twin, local, or a URL such as https://host/v1")
    if parts.username or parts.password:
        raise SettingError("TARGET must not carry a key: put it in a variable and name that in API_KEY_ENV")
    if name in ("twin", "local"):
        raise SettingError(f"TARGET_NAME={name} is the name of another target: choose one of your own")
    return spec, name


def select(available: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Names among `available` that `wanted` names or begins; all, in order, without `wanted`.

    Raises `SettingError` with close names for one that fits nothing.
    """
    names = sorted(available)
    if not names:
        raise SettingError("there is no notebook to run")
    chosen: set[str] = set()
    for text in wanted:
        stem = text.rpartition("/")[2].removesuffix(".ipynb")
        found = [n for n in names if n == stem] or [n for n in names if n.startswith(stem)]
        if not found:
            raise SettingError(f"no notebook is called {text!r}{suggestion(stem, names)}")
        chosen |= set(found)
    return [n for n in names if not wanted or n in chosen]


def resume_command(settings: RunSettings, notebooks: Sequence[str]) -> str:
    """The `make` command that runs `notebooks` again with the same settings."""
    params = " ".join(f"-p {shlex.quote(text)}" for text in settings.params)
    given = {
        "TARGET": settings.target,
        "PROFILE": settings.profile,
        "NOTEBOOKS": ",".join(notebooks),
        "CLIENT": settings.client,
        "REMEASURE": settings.anew,
        "MAX_REQUESTS": _text(settings.max_requests),
        "MAX_TOKENS": _text(settings.max_tokens),
        "PARAMS": params,
        **({name: os.environ.get(name) for name in RESUMED} if settings.target != "twin" else {}),
    }
    words = [f"{name}={value}" for name, value in given.items() if value]
    return " ".join(["make", "reproduce", *map(shlex.quote, words)])


def placed(environment: Mapping[str, str], target: str) -> dict[str, str]:
    """`environment` for kernels, whose working folder is another: places in it are absolute.

    `MODEL` and `TWIN` are names unless there is such a folder, or a file; at a URL `MODEL` is only a name.
    """
    found = dict(environment)
    named = [name for name in PLACES if found.get(name)]
    if target == "local" and (model := found.get("MODEL")) and Path(model).expanduser().is_dir():
        named.append("MODEL")
    if found.get("TWIN", "").endswith(".json"):
        named.append("TWIN")
    return found | {name: str(Path(found[name]).expanduser().absolute()) for name in named}


def _one_of(name: str, value: str | None, known: Sequence[str]) -> str | None:
    if not value:
        return None
    if value not in known:
        raise SettingError(f"unknown {name} {value!r}{suggestion(value, known)}")
    return value


def _count(name: str, value: str | None) -> int | None:
    if not value:
        return None
    try:
        count = int(value.replace("_", "").replace(",", ""))
    except ValueError:
        count = -1
    if count < 0:
        raise SettingError(f"{name} takes a whole number, not {value!r}")
    return count


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
