"""Page 00: what an endpoint says of itself, and the machine of the run that asked."""

from pathlib import Path
from typing import Any

import pytest

from nlqlib.artifacts import Record
from nlqlib.experiments.environment import identity_table

MACHINE = {"processor": "Some CPU", "cores": 2, "memory_bytes": 25_276_059_648, "system": "Linux 6.1-of-ours"}


def identity(target: str, machine: Any = MACHINE) -> Record:
    """A retained identity of `target`, as page 00 reads it."""
    server = {"model": "a/model", "engine": "vllm", "engine_args": {"dtype": "bfloat16"}}
    run = {"provenance": {"machine": machine}} if machine is not None else {}
    return Record(Path("identity.json"), {"server": server, "target": target}, run)


def rows(record: Record) -> dict[str, str]:
    """The table, property by property."""
    found: dict[str, str] = identity_table(record)["says"].to_dict()
    return found


def test_the_local_page_names_the_machine_that_held_engine_and_client() -> None:
    told = rows(identity("local"))
    assert told["machine, of engine and client"] == "Some CPU, 2 cores, 25 GB, Linux"
    assert told["engine: dtype"] == "bfloat16" and told["revision"] == "—"


def test_of_an_endpoint_elsewhere_only_the_client_s_machine_is_known() -> None:
    told = rows(identity("mine"))
    assert told["machine of the client"] == "Some CPU, 2 cores, 25 GB, Linux"


@pytest.mark.parametrize(
    ("target", "machine"), [("twin", MACHINE), ("local", None), ("local", {"processor": None, "cores": 2})]
)
def test_no_machine_is_named_where_it_decides_nothing_or_is_not_known(target: str, machine: Any) -> None:
    assert not [name for name in rows(identity(target, machine)) if name.startswith("machine")]


def test_what_is_not_known_of_a_machine_is_left_out() -> None:
    told = rows(identity("local", {"processor": "Some CPU", "cores": None, "system": None}))
    assert told["machine, of engine and client"] == "Some CPU"
