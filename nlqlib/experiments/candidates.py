"""Candidates of the next quality gate: one model, asked and corrected in one way, at one price.

A candidate is data (`data/candidates.toml`). Those of the notebook's own target are evaluated by the page on
held-out meaning, and read from there; the others are asked when they are named, and otherwise shown as not
measured here.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nlqlib import paths
from nlqlib.analysis.cost import TokenPrices
from nlqlib.analysis.stats import Interval, t_interval
from nlqlib.artifacts import Record
from nlqlib.experiments import answers, heldout
from nlqlib.experiments.answers import Asking
from nlqlib.experiments.condition_report import (
    Prices,
    cost_per_1000_questions,
    question_cost,
    question_seconds,
)
from nlqlib.experiments.conditions import CONDITIONS, Condition, condition
from nlqlib.experiments.heldout_sets import there
from nlqlib.experiments.questions import question_workload
from nlqlib.experiments.semantics import evaluate_all
from nlqlib.experiments.study import Spec, Study
from nlqlib.files import slug
from nlqlib.records import ANSWERED, Json
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.hosted import Hosted
from nlqlib.serving.target import TIMEOUT_S, Connection, Target, TargetError

NOTEBOOK = "14_candidates"
SOURCE = paths.DATA / "candidates.toml"
KINDS = ("target", "openai", "converse")
ASKED_AS = {
    "structured_outputs": "structured_outputs",
    "response_format": "response_format",
    "tool": "response_format",  # which `serving.hosted` turns into a forced tool
    "prompt only": "unconstrained",
}
"""How a request of ours carries each output contract."""


class CandidateError(ValueError):
    """The list of candidates cannot be used; says what to change."""


@dataclass(frozen=True)
class Service:
    """Where a model answers, how a form is asked of it, and what it costs."""

    name: str
    kind: str
    contract: str
    prices: Prices
    as_of: str
    """Month in which the prices were read."""
    model: str | None = None
    """`None`: whatever the notebook's target serves."""
    url: str | None = None
    url_env: str | None = None
    key_env: str | None = None
    accelerator: str | None = None

    @property
    def here(self) -> bool:
        """Is it the notebook's own target?"""
        return self.kind == "target"

    @property
    def adapted(self) -> bool:
        """Does an adapter stand between our requests and the service?"""
        return self.kind == "converse" or self.contract == "tool"

    def target(self) -> Target:
        """The service as a target; nothing is contacted and no key read before the first request."""
        declared = {"name": self.name, "model": self.model, "kind": self.kind, "contract": self.contract}
        return Target(
            name=self.name,
            kind="url",
            clock="real",
            can=frozenset(),
            declared=declared,
            speaker=self.model,
            connect=self.connection,
        )

    def connection(self) -> Connection:
        """Where requests go, and the adapter in front. Raises `TargetError` where no address is known."""
        url = self.url or os.environ.get(self.url_env or "", "")
        if not url:
            raise TargetError(f"the address of {self.name} is unknown: put it in the variable {self.url_env}")
        url = url.rstrip("/")
        # a server of one's own may need no key, and then its variable is not set
        key = self.key_env if self.url or os.environ.get(self.key_env or "") else None
        endpoint = Endpoint(url, self.model, api_key_env=key, timeout_s=TIMEOUT_S)
        dialect: Any = "converse" if self.kind == "converse" else "tool"
        return Connection(endpoint, Hosted(url, self.model or "", dialect) if self.adapted else None)


@dataclass(frozen=True)
class Candidate:
    """One row of the table."""

    name: str
    service: Service
    condition: Condition
    tests: str
    """What is learned from it."""

    @property
    def forced(self) -> bool:
        """Does it answer without asking the user?"""
        return heldout.is_forced(self.condition.name)


def load(path: Path = SOURCE) -> list[Candidate]:
    """The candidates of the file. Raises `CandidateError` naming the entry that cannot be used."""
    try:
        told = tomllib.loads(path.read_text("utf-8"))
        services = {name: _service(name, entry) for name, entry in told["services"].items()}
        return [_candidate(entry, services) for entry in told["candidates"]]
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise CandidateError(f"{path.name} cannot be read as a list of candidates: {error!r}") from error


def _service(name: str, entry: Json) -> Service:
    dollars = dict(entry["dollars"])
    by_token = "input" in dollars
    priced = TokenPrices(dollars["input"], dollars["output"], dollars.get("cached")) if by_token else None
    plain = {k: v for k, v in entry.items() if k != "dollars"}
    made = Service(name=name, prices=Prices(priced, dollars.get("per_hour")), **plain)
    _known("kind", made.kind, KINDS, name)
    _known("contract", made.contract, tuple(ASKED_AS), name)
    if not made.here and not (made.url or made.url_env):
        raise CandidateError(f"service {name} has no address: give url, or url_env, the name of a variable")
    return made


def _candidate(entry: Json, services: Mapping[str, Service]) -> Candidate:
    _known("service", entry["service"], tuple(services), entry["name"])
    _known("condition", entry["condition"], tuple(CONDITIONS), entry["name"])
    service = services[entry["service"]]
    how = replace(condition(entry["condition"]), contract=ASKED_AS[service.contract])
    return Candidate(entry["name"], service, how, entry["tests"])


def _known(what: str, given: str, names: Sequence[str], where: str) -> None:
    if given not in names:
        near = get_close_matches(given, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise CandidateError(f"{where}: unknown {what} {given!r}: {hint}")


def chosen(candidates: Sequence[Candidate], names: Sequence[str]) -> list[Candidate]:
    """The candidates to ask now: those of the notebook's target, and those in `names`.

    A service's name stands for all of its candidates. Raises `CandidateError`.
    """
    services = {c.service.name for c in candidates}
    for name in names:
        _known("candidate", name, [*(c.name for c in candidates), *services], "run")
    return [c for c in candidates if c.service.here or {c.name, c.service.name} & set(names)]


def study_of(study: Study, candidate: Candidate) -> Study:
    """The study that holds the points of `candidate`: the held-out page's, or one of its service."""
    if candidate.service.here:
        return replace(study, notebook=heldout.NOTEBOOK)
    return replace(study, target=candidate.service.target())


Measurements = dict[str, dict[str, Record | None]]
"""The evaluation of each candidate, by set and then by name; `None`: not measured here."""


def evaluated(
    study: Study, candidates: Sequence[Candidate], sets: Sequence[str], names: Sequence[str], concurrency: int
) -> Measurements:
    """Every candidate on every set: asked now where it is here or in `names`, else as it was retained.

    A set of ours whose file is not there is left out.
    """
    asked = chosen(candidates, names)
    found: Measurements = {}
    for source in there(sets):
        told: dict[str, Record | None] = {}
        found[question_workload(source).name] = told
        for service in dict.fromkeys(c.service for c in asked):
            mine = [c for c in asked if c.service == service]
            hows = [c.condition for c in mine]
            records = evaluate_all(study_of(study, mine[0]), source, hows, concurrency)
            told.update({c.name: records[c.condition.name] for c in mine})
        told.update({c.name: retained(study, c, source, concurrency) for c in candidates if c not in asked})
    return found


def answered(found: Measurements) -> Measurements:
    """`found` without sets of which the target answered nothing; all of it where it answered none."""
    left = unheard_sets(found)
    return {source: told for source, told in found.items() if source not in left} or found


def unheard_sets(found: Measurements) -> list[str]:
    """The sets of which no candidate was answered at all, though one was asked."""
    known = {s: [r for r in told.values() if r is not None] for s, told in found.items()}
    return [source for source, records in known.items() if records and not any(map(heldout.rows, records))]


def retained(study: Study, candidate: Candidate, source: str, concurrency: int) -> Record | None:
    """What was measured earlier, judged from files alone; `None` where nothing was."""
    where, how = study_of(study, candidate), candidate.condition
    if not (where.store.root / slug(where.target.name)).is_dir():
        return None
    heard = answers.retained(where, Asking.of(source, how, heldout.lookups(study), concurrency))
    return evaluate_all(where, source, [how], concurrency)[how.name] if heard else None


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """What the notebook asks for under its `params`: each set once for each service and way of asking."""
    asked, catalog, at = chosen(load(), params["run"]), heldout.lookups(study), int(params["concurrency"])
    ways = {(c.service.name, c.condition.prompt): c for c in asked if c.condition.asks}
    return [
        (study_of(study, c), Asking.of(source, c.condition, catalog, at).spec())
        for source in there(params["sets"])
        for c in ways.values()
    ]


@dataclass(frozen=True)
class Cost:
    """Dollars for a thousand answered questions."""

    value: float | None
    interval: Interval | None
    basis: str
    """What is paid, and at which operating point."""


def cost(candidate: Candidate, record: Record, target: str) -> Cost:
    """What a thousand questions cost of `candidate`; see `service_cost`."""
    return service_cost(candidate.service, record, target)


def service_cost(service: Service, record: Record, target: str) -> Cost:
    """What a thousand questions cost: tokens of a hosted model, or a machine's time at the point measured.

    A machine's price is that of the accelerator named; on another `target` there is none. The formulas are
    those of `analysis.cost`.
    """
    prices, in_flight = service.prices, int(record.params["concurrency"])
    if prices.tokens is not None:
        basis = f"{prices.tokens.input} and {prices.tokens.output} USD per million tokens ({service.as_of})"
    elif service.here and target != "twin":
        return Cost(None, None, "no price: not the accelerator that is priced")
    else:
        basis = f"{prices.per_hour} USD an hour of one {service.accelerator}, {in_flight} in flight"
    rows = record.samples()
    value = cost_per_1000_questions(rows, prices, in_flight)
    return Cost(value, None if value is None else _interval(rows, prices, in_flight), basis)


def _interval(rows: Sequence[Json], prices: Prices, in_flight: int) -> Interval | None:
    """Of the mean over questions; none where failed requests were paid for, which is no mean of questions."""
    if any(row["outcome"] not in ANSWERED for row in rows):
        return None
    each = [question_cost(row, prices, in_flight) for row in rows]
    return t_interval([1000 * dollars for dollars in each if dollars is not None])


def seconds(rows: Sequence[Json]) -> list[float]:
    """Seconds of all requests of each question, cut answers included; a question without them is left out."""
    return [spent for row in rows if (spent := question_seconds(row)) is not None]
