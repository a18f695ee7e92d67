"""No garbage collection inside what is measured: it stops the loop for longer than a request takes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(collect: bool = True) -> Iterator[None]:
    """Collect now, then not again until the block ends; what was set before is always restored.

    Inside another `quiet`, or where the collector is off already, nothing is done. `collect=False`: only
    hold it back, for a clock that does not feel a pause; a collection takes as long as a thousand requests.
    """
    if not gc.isenabled():
        yield
        return
    if collect:
        gc.collect()
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if collect:
            gc.unfreeze()
