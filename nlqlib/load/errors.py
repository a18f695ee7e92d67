"""What can go wrong with a load as a whole; a failing request is an outcome, not an error."""


class LoadError(RuntimeError):
    """The load could not be offered, or nothing answered it; says why and what to look at."""


class WorkerError(LoadError):
    """A process that offered a part of the load ended before its work did."""
