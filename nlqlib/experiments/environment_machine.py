"""Page 00: the machine of a retained run, as it is kept beside the artifact."""

from nlqlib.artifacts import Record
from nlqlib.records import Json


def machine_row(record: Record) -> dict[str, str]:
    """The machine of the run, named by what of it ran there; nothing where that is not known.

    On `local` it held the engine too. On the twin it decides nothing, and is not named.
    """
    told: Json = (record.run.get("provenance") or {}).get("machine") or {}
    target = record.body["target"]
    if target == "twin" or not told.get("processor"):
        return {}
    named = "machine, of engine and client" if target == "local" else "machine of the client"
    return {named: ", ".join(part for part in _parts(told) if part)}


def _parts(told: Json) -> list[str]:
    """Processor, cores, memory and the system without its version; empty for what is not known."""
    cores, memory = told.get("cores"), told.get("memory_bytes")
    return [
        str(told["processor"]),
        f"{cores} cores" if cores else "",
        f"{memory / 1e9:.0f} GB" if memory else "",
        str(told.get("system") or "").partition(" ")[0],
    ]
