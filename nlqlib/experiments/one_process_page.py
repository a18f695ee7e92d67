"""How the point of one process is shown: both clients against a server without a limit. From its record."""

from collections.abc import Mapping

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments.one_process import CLIENTS, IN_FLIGHT, SHARE
from nlqlib.experiments.sweep_rows import told
from nlqlib.records import Json


def table(record: Record) -> pd.DataFrame:
    """Each client at each load: what it reached of the possible, and what it cost."""
    rows = [
        {
            "client": row["client"],
            "in flight": row["in_flight"],
            "peak in flight": row["peak"],
            "achieved / ideal": told(record.value(_client(row), SHARE), ".1%"),
            "share of a core": told(record.value(_client(row), "processor"), ".1%"),
            "loop lag p99 (ms)": told(_ms(record, row), ".0f"),
        }
        for row in record.results["rows"]
    ]
    return pd.DataFrame(rows).set_index("client")


def _client(row: Json) -> str:
    return f"{row['client']}_{row['in_flight']}"


def sentence(record: Record) -> str:
    """Which client would itself be measured, and where."""
    shares = {_client(row): record.value(_client(row), SHARE) for row in record.results["rows"]}
    seen = {name: share for name, share in shares.items() if share is not None}
    worst = min(seen, key=lambda n: seen[n], default=None)
    if worst is None:
        return "No load was answered, so nothing is said about the clients."
    client, n = worst.split("_")
    return (
        f"The server has no limit, so what is missing is the client's own: at worst {1 - seen[worst]:.0%} "
        f"({client}, {n} in flight); at {IN_FLIGHT[0]} the two clients reach {_both(seen)}. A client that "
        "loses throughput looks like an endpoint that does."
    )


def _both(seen: Mapping[str, float]) -> str:
    found = [(kind, seen.get(f"{kind}_{IN_FLIGHT[0]}")) for kind in CLIENTS]
    return " and ".join(f"{told(share, '.0%')} ({kind})" for kind, share in found)


def _ms(record: Record, row: Json) -> float | None:
    lag = record.value(_client(row), "loop lag p99")
    return None if lag is None else 1e3 * lag
