"""Context Budget and Window Sizing: `max_tokens` against the window, and a window of 4,096 against 8,192.

Both windows get the same prompt, output contract, sweep and questions. Where the engine is ours each window
is an engine of its own, and they take turns (A B B A): a machine that drifts meanwhile then favours neither,
and each run of one window has its pair. The window of an endpoint that is not ours cannot be changed: it
takes the label of the window it is deployed with, is run once for each deployment, and the windows are merged
from what the earlier runs retained.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from nlqlib.artifacts import Record
from nlqlib.experiments import arm as arms
from nlqlib.experiments import context_caps, context_probes
from nlqlib.experiments.arm import Arm
from nlqlib.experiments.context_caps import ASKED, AT_ONCE, Cap
from nlqlib.experiments.context_engine import make_room
from nlqlib.experiments.context_probes import Probing
from nlqlib.experiments.contract_basis import contract_points, page_contract
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import levels
from nlqlib.records import Json
from nlqlib.serving.identity import identify
from nlqlib.serving.target import TargetError

SWEPT: Mapping[str, Sequence[int]] = {"full": (1, 8, 16, 24, 32), "quick": (1, 2, 4, 8, 16)}
REPEATS: dict[str, int] = {"full": 3, "quick": 2}
"""Runs of each level under each window; in the quick profile counted from 0, each through rising levels."""
MAX_TOKENS = 256


@dataclass(frozen=True)
class WindowArm(Arm):
    """An arm on an engine of a certain window."""

    window: int = 0
    """`max_model_len`."""


@dataclass(frozen=True)
class Design:
    """What the page compares."""

    windows: tuple[int, int]
    """The one in use, and the larger one."""
    swept: tuple[int, ...] = ()
    n: int = 0
    seed: int = 0
    deployed: int = 0
    """The window of an endpoint whose window is not ours; 0: nobody says."""


@dataclass(frozen=True)
class Visit:
    """What is measured on one engine of a window, from its start to its end."""

    window: int
    arms: tuple[WindowArm, ...]
    first: bool
    """Of its window: asks the questions and sends the probes as well."""


@dataclass(frozen=True)
class Deployment:
    """Everything measured on one window; what is not there was neither measured nor retained."""

    window: int
    sweep: tuple[Record, ...] = ()
    answers: Record | None = None
    """The questions under `MAX_TOKENS`: the same quality set for every window."""
    probes: tuple[Record, ...] = ()

    @property
    def records(self) -> list[Record]:
        """Whatever there is."""
        return [*self.sweep, *([self.answers] if self.answers else []), *self.probes]


def design(
    study: Study,
    windows: Sequence[int],
    swept: Sequence[int] = (),
    n: int = 0,
    seed: int = 0,
    deployed: int = 0,
) -> Design:
    """The design of a page's parameters. Raises `TargetError` for ones that compare nothing."""
    if len(windows) != 2 or not 0 < windows[0] < windows[1]:
        raise TargetError(f"windows are two lengths in tokens, the smaller first, not {list(windows)}")
    if deployed and study.target.kind != "url":
        raise TargetError("deployed names the window of an endpoint; on this target the window is set by us")
    if deployed and deployed not in windows:
        raise TargetError(
            f"deployed is one of the windows compared, {windows[0]} or {windows[1]}, not {deployed}"
        )
    return Design((windows[0], windows[1]), tuple(swept), n, seed, deployed)


def window_arms(study: Study, wanted: Design, window: int) -> list[WindowArm]:
    """The sweep of one window: one run through its levels after the other."""
    swept, sweep, runs = wanted.swept or SWEPT[study.profile], f"w{window}", REPEATS[study.profile]
    if study.quick:
        once = levels(study, sweep, swept, n=wanted.n, seed=wanted.seed)
        found = [replace(x, repeat=r, seed=wanted.seed + r) for r in range(runs) for x in once]
    else:
        found = levels(study, sweep, swept, n=wanted.n, repeats=runs, seed=wanted.seed)
    return [WindowArm(**asdict(x), window=window) for x in sorted(found, key=lambda x: x.repeat)]


def visits(study: Study, wanted: Design) -> list[Visit]:
    """The engines in their order: the windows that can be measured take turns, A B B A …, run by run."""
    mine = [w for w in wanted.windows if ours(study) or w == wanted.deployed]
    swept = {w: window_arms(study, wanted, w) for w in mine}
    runs = sorted({a.repeat for w in mine for a in swept[w]})
    turns = [(w, r) for i, r in enumerate(runs) for w in (mine[::-1] if i % 2 else mine)]
    found: list[Visit] = []
    for window, group in groupby(turns, key=lambda turn: turn[0]):
        here = {r for _, r in group}
        own = tuple(a for a in swept[window] if a.repeat in here)
        found.append(Visit(window, own, window not in {v.window for v in found}))
    return found


def answers_cap(study: Study, window: int) -> Cap:
    """The quality set of one window; on an engine that has it as it is, the same point as the limit alone."""
    as_it_is = ours(study) and served(study, window) is study
    return Cap(MAX_TOKENS, ASKED[study.profile], AT_ONCE[study.profile], 0 if as_it_is else window)


def probings(study: Study, wanted: Design, window: int) -> list[Probing]:
    """The probes of the smaller window on an engine of `window`; on the twin as both kinds of engine."""
    plain = Probing(window, wanted.windows[0], study.quick)
    both = study.target.kind == "twin" and window == wanted.windows[0]
    return [plain, replace(plain, clamping=True)] if both else [plain]


def ours(study: Study) -> bool:
    """Is the window ours to set?"""
    return study.target.variant is not None


def served(study: Study, window: int) -> Study:
    """`study` on an engine of `window`: a variant, or the one that is there where it has that window."""
    there = study.target.declared.get("settings", {}).get("flags", {}).get("max_model_len")
    if not ours(study) or there == window:
        return study
    return replace(study, target=study.target.engine(max_model_len=window))


def specs(study: Study, wanted: Design, visit: Visit) -> list[tuple[Study, Spec]]:
    """Every point of one visit, each with the study of its variant."""
    here, window = served(study, visit.window), visit.window
    found = arms.points(here, visit.arms)
    if not visit.first:
        return found
    cap, probes = answers_cap(study, window), probings(study, wanted, window)
    asked = (context_caps.at(here), context_caps.spec(here, cap))
    return [*found, asked, *((context_probes.at(here, p), context_probes.spec(here, p)) for p in probes)]


def deployments(study: Study, wanted: Design) -> dict[int, Deployment]:
    """What each window measured, the smaller first: now, or in an earlier run on another deployment."""
    found: dict[int, Deployment] = {}
    for visit in visits(study, wanted):
        here, before = _visited(study, wanted, visit), found.get(visit.window)
        found[visit.window] = replace(before, sweep=before.sweep + here.sweep) if before else here
    return {w: found[w] if w in found else _kept(study, wanted, w) for w in wanted.windows}


def _visited(study: Study, wanted: Design, visit: Visit) -> Deployment:
    """What one engine of a window measures."""
    window = visit.window
    with _engine(study, wanted, visit) as here:
        sweep = tuple(arms.measure(here, visit.arms))
        if not visit.first:
            return Deployment(window, sweep)
        [answers] = context_caps.measure(here, [answers_cap(study, window)])
        probes = tuple(context_probes.measure(here, p) for p in probings(study, wanted, window))
    return Deployment(window, sweep, answers, probes)


@contextmanager
def _engine(study: Study, wanted: Design, visit: Visit) -> Iterator[Study]:
    """`study` on the engine of `visit`; a real one starts only if something is to be measured."""
    here = served(study, visit.window)
    missing = any(not there.retained(s) for there, s in specs(study, wanted, visit))
    if missing and study.target.kind == "url":
        _check(here, visit.window)
    as_it_is = here is study
    if study.target.kind == "twin" or not ours(study) or (as_it_is and visit.first):
        yield here
        return
    if as_it_is:  # its engine may have ended for the other window's
        here = replace(study, target=study.target.engine())
    elif missing:
        make_room(study.target)
    with closing(here.target):
        yield here


def _check(study: Study, window: int) -> None:
    """Raise `TargetError` when the endpoint says that its window is another one."""
    told = study.run(identify(study.target)).max_model_len
    if told is not None and told != window:
        raise TargetError(f"the endpoint says its window is {told}, not {window}: set deployed to it")


def _kept(study: Study, wanted: Design, window: int) -> Deployment:
    """What an earlier run on a deployment of that window retained."""
    sweep = [_found(study, arms.spec(a)) for a in window_arms(study, wanted, window)]
    probes = [_found(study, context_probes.spec(study, p)) for p in probings(study, wanted, window)]
    return Deployment(
        window,
        tuple(r for r in sweep if r),
        _found(study, context_caps.spec(study, answers_cap(study, window))),
        tuple(r for r in probes if r),
    )


def _found(study: Study, spec: Spec) -> Record | None:
    found = study.store.find(study.key(spec))
    return found if found is not None and found.current else None


def asking(study: Study, wanted: Design) -> Study:
    """`study` with the contract that its endpoint honours; nothing is sent where every point is retained."""
    return replace(study, contract=page_contract(study)) if _missing(study, wanted) else study


def _missing(study: Study, wanted: Design) -> bool:
    """Is anything to be asked of an endpoint that has to be probed first?"""
    mine = _points(study, wanted)
    return study.target.kind == "url" and any(not there.retained(s) for there, s in mine)


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point that the page measures under its `params`, each with the study of its variant."""
    wanted = design(
        study,
        params["windows"],
        params["swept"],
        int(params["n_requests"]),
        deployed=int(params["deployed"]),
    )
    return [*(contract_points(study) if _missing(study, wanted) else ()), *_points(study, wanted)]


def _points(study: Study, wanted: Design) -> list[tuple[Study, Spec]]:
    here = context_caps.at(study)
    capped = [(here, context_caps.spec(study, c)) for c in context_caps.caps(study)]
    every = [*capped, *(pair for v in visits(study, wanted) for pair in specs(study, wanted, v))]
    return list({(str(there.target.declared), s.name): (there, s) for there, s in every}.values())
