"""Every stated bound of the twin, looked at by one call: what `validate-twin` prints.

Each group of bounds is measured by a module of its own (`twin_validation_*`). Nothing is retained: the rows
are made anew each time, except those of the real engine, which are read from its retained points.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

from nlqlib.experiments import twin_validation_article as article
from nlqlib.experiments import twin_validation_retained as retained
from nlqlib.experiments import twin_validation_socket as socket
from nlqlib.experiments import twin_validation_speed as speed
from nlqlib.experiments import twin_validation_trace as trace
from nlqlib.experiments.twin_validation_check import Check, holds, not_run
from nlqlib.load.closed_loop import LoadError

Tell = Callable[[str], None]
Group = Callable[[Tell], Sequence[Check]]


class UnknownGroupError(ValueError):
    """A group of bounds that does not exist."""


GROUPS: Mapping[str, Group] = {
    "throughput": lambda tell: article.row_checks(),
    "fit": lambda tell: article.fit_checks(),
    "tokens": lambda tell: article.token_checks(),
    "rtx-4090": lambda tell: trace.checks(),
    "engine": lambda tell: retained.engine_checks(),
    "counters": lambda tell: retained.counter_checks(),
    "speed": lambda tell: speed.checks(tell=tell),
    "socket": lambda tell: socket.checks(),
    "determinism": lambda tell: article.same_checks(),
}


def validate(
    only: Sequence[str] = (), tell: Tell = lambda line: None, groups: Mapping[str, Group] = GROUPS
) -> list[Check]:
    """All bounds in their order; those outside `only` (default: none) are *not run*.

    `tell` is told what goes on. Raises `UnknownGroupError`.
    """
    for name in only:
        if name not in groups:
            near = difflib.get_close_matches(name, groups, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(groups)}"
            raise UnknownGroupError(f"no group of bounds {name!r}; {hint}")
    return [check for found in _each(only, tell, groups) for check in found]


def _each(only: Sequence[str], tell: Tell, groups: Mapping[str, Group]) -> Iterator[Sequence[Check]]:
    for name, group in groups.items():
        if only and name not in only:
            yield [not_run(name, "every bound", "as stated", "measured", "left out by --only")]
            continue
        tell(name)
        try:
            yield group(tell)
        except (LoadError, socket.ServerError) as error:
            yield [holds(name, "could be measured", "yes", "no", False, "measured", str(error))]
