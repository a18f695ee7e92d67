"""The small warehouse that many tests share; the helpers beside the tests import by their own names."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.warehouse import Warehouse, open_warehouse

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("fixed", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
"""The same examples in every run, so that a red run is the change's fault; `make search` draws new ones."""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell ignores it for what it starts in the background, and what tests interrupt would go on forever
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """The drawn warehouse at a twentieth of its size."""
    with open_warehouse(scale=0.05, folder=tmp_path_factory.mktemp("warehouse")) as opened:
        yield opened


@pytest.fixture(scope="session")
def catalog(warehouse: Warehouse) -> Catalog:
    """The catalog with the values of that warehouse."""
    return warehouse.lookups(load_catalog())
