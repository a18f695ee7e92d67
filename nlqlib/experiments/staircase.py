"""Ruling Out Client-Side Serialization: independent processes, released together, beside two controls.

One test is one point: a parallel control, the endpoint as it is, the endpoint behind a router limit of 1
(where a limit is ours to set) and a serial control, one after the other within a minute or so. It runs in
real time over real sockets, on the twin too, which is then served by a process of its own. A second point
asks how far a *single* process goes with either client: the first suspect is the load generator itself.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial

from nlqlib.analysis.window import Scrape
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments import one_process
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.semantics import CONDITIONS, requests
from nlqlib.experiments.staircase_result import AS_IT_IS, ONE_AT_A_TIME, PARALLEL, SERIAL, Run, measured
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import IGNORE_EOS, QUICK_TOKENS, SET, SETTLE_S
from nlqlib.files import slug
from nlqlib.load.processes import release_together
from nlqlib.progress import progress
from nlqlib.records import ChatRequest, Completion, Json
from nlqlib.serving.client import ClientKind, Endpoint, make_client
from nlqlib.serving.control_server import control, endpoint
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.running import run
from nlqlib.serving.served import Served, on_socket
from nlqlib.serving.target import Target, TargetError

MODULES = (
    "nlqlib.experiments.staircase",
    "nlqlib.load.worker",
    "nlqlib.serving.twin_target",
    "nlqlib.commands_serve",
    "nlqlib.commands_gateway",
)
"""The last three are what the processes run that are started here."""
POINT = "staircase"
PROCESSES = {"full": 8, "quick": 6}
"""The article tells of three steps and of no number; four are the least that show any."""
TWIN_TOKENS = 20
"""Answers on the twin, whose time is real here: a staircase of 8 then takes 5 s instead of 26."""
WARM_UP, ALONE = 1, 3
"""Requests before the release, one at a time: the first warms the prefix, the median of the others counts."""
CONTROL_S = 0.3
"""Service time of the controls: below any endpoint's, so that skew disturbs them first."""
EACH_S = {"twin": 3.2, "local": 20.0, "url": 4.0}
"""Seconds of one answer of 115 tokens in real time, for the plan."""
STARTING_S = {"twin": 10.0, "local": 8.0, "url": 5.0}


@dataclass(frozen=True)
class Trial:
    """What one page measures."""

    processes: int
    output_tokens: int | None
    """Every answer is exactly that long (`ignore_eos`); `None`: it ends where the model ends it."""
    cell: str = ""
    """How an endpoint is deployed whose limits are not ours to set; empty: nobody says."""

    @property
    def point(self) -> str:
        """`staircase`, or with the cell's name."""
        return f"{POINT}-{slug(self.cell)}" if self.cell else POINT


def trial(study: Study, processes: int = 0, output_tokens: int = 0, cell: str = "") -> Trial:
    """The test that a page's parameters ask for; 0 is the target's and the profile's own.

    Raises `TargetError` for a cell where the limits are ours.
    """
    if cell and sets_limits(study):
        raise TargetError("cell names how an endpoint is deployed; on this target the limit is set by us")
    if processes < 0 or output_tokens < 0:
        raise TargetError("processes and output_tokens are counts: 0 takes the profile's own")
    return Trial(processes or PROCESSES[study.profile], output_tokens or _tokens(study), cell)


def _tokens(study: Study) -> int | None:
    if study.target.kind == "twin":
        return TWIN_TOKENS
    return QUICK_TOKENS if study.quick else None


def sets_limits(study: Study) -> bool:
    """Whether a limit can be put in front of the endpoint by our own gateway."""
    return "set_limits" in study.target.can


def at(study: Study, wanted: Trial) -> Study:
    """`study` on the variant that the test measures: the twin with answers of one length, in real time."""
    if study.target.kind != "twin":
        return study
    drawn = study.target.engine(
        words="synthetic", output_tokens=float(wanted.output_tokens or 0), output_sd=0
    )
    return replace(study, target=replace(drawn, declared={**drawn.declared, "clock": "real"}))


def spec(study: Study, wanted: Trial) -> Spec:
    """The point of `wanted`."""
    places = 1 + sets_limits(study)
    params = {**asdict(wanted), "alone": ALONE, "control_s": CONTROL_S, "places": places}
    each_s = EACH_S[study.target.kind] * (wanted.output_tokens or 115) / 115
    alone_s = places * (WARM_UP + ALONE + 1) * each_s
    stairs_s = (places - 1) * wanted.processes * each_s + (wanted.processes + 2 * ALONE) * CONTROL_S
    sent = places * (wanted.processes + WARM_UP + ALONE)
    about_s = STARTING_S[study.target.kind] + alone_s + stairs_s
    workload = question_workload(SET, wanted.processes)
    return Spec(
        wanted.point, params, MODULES, workload, requests=sent, concurrency=wanted.processes, about_s=about_s
    )


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    wanted = trial(
        study, int(params["processes"]), int(params["output_tokens"]), str(params.get("cell") or "")
    )
    return [(study, one_process.SPEC), (at(study, wanted), spec(study, wanted))]


def measure(study: Study, wanted: Trial) -> Record:
    """The test, retained already or measured now."""
    there = at(study, wanted)
    return there.point(spec(study, wanted), lambda: _measure(there, wanted))


def _measure(study: Study, wanted: Trial) -> Measured:
    began = time.time()  # the wall clock only says when, to tell runs apart that overlapped
    asked = offered(study, wanted)
    with ExitStack() as stack, progress(2 + 1 + sets_limits(study), "staircase") as bar:
        controls = {name: stack.enter_context(control(name, CONTROL_S)) for name in ("parallel", "serial")}
        places = stack.enter_context(_places(study))
        server = run(identify(places[AS_IT_IS]))
        runs = []
        for name, measure_now in _steps(controls, places, asked, study.client).items():
            runs.append(measure_now())
            bar.advance(name)
    found = measured(runs, study.target.time_tag)
    interval = (began, time.time()) if study.target.kind != "twin" else None
    return replace(found, server=server, interval_s=interval)


def _steps(
    controls: Mapping[str, Served], places: Mapping[str, Target], asked: list[ChatRequest], kind: ClientKind
) -> dict[str, Callable[[], Run]]:
    """The runs in their order, the endpoint's between the controls."""
    own = {name: partial(_run, name, target, asked, kind) for name, target in places.items()}
    return {
        PARALLEL: partial(_control, PARALLEL, controls["parallel"], asked, kind),
        **own,
        SERIAL: partial(_control, SERIAL, controls["serial"], asked, kind),
    }


@contextmanager
def _places(study: Study) -> Iterator[Mapping[str, Target]]:
    """Where the processes are sent: the endpoint, and the same one behind the limit, where that is ours.

    What was started for it ends with the block; an engine of the target's own stays.
    """
    with ExitStack() as stack:
        bare = on_socket(study.target)
        if bare is not study.target:
            stack.callback(bare.close)
        places = {AS_IT_IS: bare}
        if sets_limits(study):
            places[ONE_AT_A_TIME] = bare.limited(router=1)
            stack.callback(places[ONE_AT_A_TIME].close)
        for target in places.values():
            _ = target.connection  # nothing may start while processes are being timed
        yield places


def offered(study: Study, wanted: Trial) -> list[ChatRequest]:
    """A question for every process: no answer can be another's, and all share the prompt's long prefix."""
    found = requests(load_questions(SET), CONDITIONS["baseline"], study.catalog)
    chosen = [replace(found[i % len(found)], request_id=f"p{i}") for i in range(wanted.processes)]
    return chosen if wanted.output_tokens is None else [_fixed(r, wanted.output_tokens) for r in chosen]


def _fixed(request: ChatRequest, output_tokens: int) -> ChatRequest:
    return replace(request, max_tokens=output_tokens, extra={**request.extra, **IGNORE_EOS})


def _control(name: str, server: Served, asked: list[ChatRequest], kind: ClientKind) -> Run:
    """The same requests to a control, which answers with as many tokens as it is allowed."""
    whole = [_fixed(r, TWIN_TOKENS) for r in asked]
    there = endpoint(server)
    alone = tuple(run(_ask(there, r, kind)) for r in whole[:ALONE])
    return Run(name, alone, release_together(there, whole, kind))


def _run(name: str, target: Target, asked: list[ChatRequest], kind: ClientKind) -> Run:
    there = target.connection.endpoint
    first = [asked[i % len(asked)] for i in range(WARM_UP + ALONE)]
    alone = tuple(run(_ask(there, r, kind)) for r in first)[WARM_UP:]
    before = run(_scrape(target))
    release = release_together(there, asked, kind)
    time.sleep(SETTLE_S)  # engines count a request just after its answer
    return Run(name, alone, release, before, run(_scrape(target)))


async def _ask(there: Endpoint, request: ChatRequest, kind: ClientKind) -> Completion:
    """One request over a connection of its own: connecting is within the latency, as for a process."""
    client = make_client(kind, there)
    try:
        return await client.complete(request)
    finally:
        await client.aclose()


async def _scrape(target: Target) -> Scrape | None:
    if not target.connection.metrics_urls:
        return None
    reader = metrics_reader(target.connection)
    try:
        return await reader.scrape()
    finally:
        await reader.aclose()


def other_cells(study: Study, wanted: Trial) -> list[Record]:
    """What this notebook retained of the endpoint's other deployments, each under its own `cell`."""
    folder = study.store.root / study.target.name / study.notebook
    found = [
        load_record(p) for p in sorted(folder.glob(f"{POINT}*.json")) if not p.name.endswith(".run.json")
    ]
    done = [r for r in found if r.status == "success" and r.params.get("cell", wanted.cell) != wanted.cell]
    return list({str(r.params["cell"]): r for r in done}.values())
