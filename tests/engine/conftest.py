"""A real engine for the tests of a module: the one that runs, or one that is started (installed if need be).

It ends with the module, since some need an engine with settings of their own and there is only one at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nlqlib.serving.engine import Engine, start_engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a real vLLM: `-m 'not engine'` leaves it out."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A vLLM that answers; its progress is shown although pytest captures output, since it takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    with start_engine(progress=tell) as running:
        yield running
