"""The speeds of the twin as a retained point of kind bench, and as a table."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nlqlib.artifacts import Measured, PointKey, Record, Store, source_digest
from nlqlib.experiments import twin_validation_socket as socket
from nlqlib.experiments import twin_validation_speed as speed
from nlqlib.experiments.twin_validation_speed import Effort, Speed
from nlqlib.records import Metric
from nlqlib.serving.target import open_target

MODULES = ("nlqlib.experiments.twin_validation_speed", "nlqlib.experiments.twin_validation_socket")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is run in this process, and how many requests go over the socket."""

    effort: Effort
    socket_requests: int


FULL = Sizes(speed.FULL, socket.REQUESTS)
QUICK = Sizes(Effort(engine_requests=2_000, sweep_requests=15, repeats=1), 2_000)


def keep(sizes: Sizes, over_socket: bool, root: Path, tell: Tell = lambda line: None) -> Record:
    """Measure every case anew and retain the result under `root`, whatever was retained before."""
    store = Store(remeasure=True, root=root, remeasured_root=root)
    return store.measure(_key(sizes, over_socket), lambda: _measured(sizes, over_socket, tell))


def _key(sizes: Sizes, over_socket: bool) -> PointKey:
    return PointKey(
        target="twin",
        notebook="bench",
        point="speed",
        kind="bench",
        params={**asdict(sizes), "socket": over_socket},
        workload=None,
        identity=open_target("twin").declared,
        source=source_digest(MODULES, follow=True),
    )


def _measured(sizes: Sizes, over_socket: bool, tell: Tell) -> Measured:
    found = speed.speeds(sizes.effort, tell)
    if over_socket:
        tell("socket")
        found.append(socket.speed(sizes.socket_requests, sizes.effort.repeats))
    metrics = [metric for one in found for metric in _metrics(one)]
    return Measured(metrics=metrics, results={"speeds": [asdict(one) for one in found]})


def _metrics(one: Speed) -> list[Metric]:
    rate = Metric(one.name, "req/s", "best", one.requests_per_s, None, "measured")
    ratio = Metric(one.name, "× real time", "best", one.times_real, None, "measured")
    return [rate] if one.times_real is None else [rate, ratio]


def of_record(record: Record) -> list[Speed]:
    """The speeds that `record` holds."""
    return [Speed(**row) for row in record.body["results"]["speeds"]]


def table(speeds: Sequence[Speed]) -> str:
    """The speeds as text, one line each."""
    width = max(len(s.name) for s in speeds) + 2
    lines = [f"{'case':<{width}}{'requests/s':>12}{'× real time':>13}  bound"]
    for s in speeds:
        ratio = "" if s.times_real is None else f"{s.times_real:,.0f}"
        bound = "" if s.bound is None else f"≥ {s.bound:,.0f} {s.unit}, {'met' if s.ok else 'MISSED'}"
        lines.append(f"{s.name:<{width}}{s.requests_per_s:>12,.0f}{ratio:>13}  {bound}".rstrip())
    return "\n".join(lines)
