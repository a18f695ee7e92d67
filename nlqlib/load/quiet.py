"""No garbage collection inside what is measured: it stops the loop for longer than a request takes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Collect now, then not again until the block ends; what was set before is always restored.

    Inside another `quiet`, or where the collector is off already, nothing is done.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
