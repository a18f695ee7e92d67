"""What a model said to a set of questions: the measurement, retained apart from any judgement of it.

Answers cost hours where the endpoint is real; a judgement costs seconds and is made from them whenever a rule
changed. One set of answers serves every condition that asks in the same way. Answers of which a request
failed are not retained: what was answered is remembered, and the next run asks only for the rest.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Measured, Record, Store
from nlqlib.experiments.conditions import MAX_TOKENS, Condition, requests_per_question
from nlqlib.experiments.heard import (
    Heard,
    by_key,
    failed,
    heard_from,
    heard_of,
    kept_rows,
    request_digest,
    sendable,
)
from nlqlib.experiments.journal import Journal, identity
from nlqlib.experiments.questions import Question, asked_workload, load_questions
from nlqlib.experiments.quiet import RULE, busy_share, idle_rule
from nlqlib.experiments.study import Spec, Study
from nlqlib.files import slug
from nlqlib.nlq.catalog import Catalog
from nlqlib.records import Completion, Rule, ServerIdentity, Workload
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target

MODULES = ("nlqlib.experiments.heard", "nlqlib.twin.app")
UNRECORDED = "never recorded"
"""In the twin's refusal of a prompt that it cannot replay."""


@dataclass(frozen=True)
class Answers:
    """Everything that came back for one set, asked in one way."""

    heard: Heard
    """Without questions that were not worth sending."""
    waited_s: float = 0.0
    """Spent waiting for rate limits."""
    server: ServerIdentity | None = None
    record: Record | None = None
    """`None`: a request failed, and nothing was retained."""
    quiet: Rule | None = None
    """Whether the machine was idle besides, where the engine runs on it."""

    @property
    def failed(self) -> list[Completion]:
        """Requests that brought nothing of what the model says."""
        return failed(self.heard)

    @property
    def reason(self) -> str:
        """How many requests failed, with the commonest outcome; empty where none did."""
        lost = Counter(f"{done.outcome}: {done.error}" for done in self.failed)
        if not lost:
            return ""
        [(told, _)] = lost.most_common(1)
        return f"{lost.total()} requests failed ({told}); the next run asks only for these"

    @property
    def sha256(self) -> str | None:
        """The hash of what is retained; `None` where nothing is."""
        return None if self.record is None else str((self.record.body["samples"] or {}).get("sha256"))


class Incomplete(RuntimeError):
    """A request failed, so there is nothing to retain."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers.reason)
        self.answers = answers


@dataclass(frozen=True)
class Asking:
    """A set, how it is asked, and how many requests are in flight."""

    source: str
    how: Condition
    catalog: Catalog
    """With the values that live in the warehouse."""
    concurrency: int
    questions: Sequence[Question] = field(repr=False)

    @classmethod
    def of(cls, source: str, how: Condition, catalog: Catalog, concurrency: int) -> "Asking":
        """The set `source` under `how`. Raises `QuestionError` for a line that cannot be used."""
        return cls(source, how, catalog, concurrency, load_questions(source, catalog))

    @property
    def name(self) -> str:
        return f"answers-{Path(self.source).stem}-{self.how.prompt}"

    def spec(self) -> Spec:
        """The answers as a point; what is asked is part of it, golds and rules are not."""
        params = {
            "prompt": self.how.prompt,
            "contract": self.how.contract,
            "max_tokens": MAX_TOKENS,
            "concurrency": self.concurrency,
            "requests_sha256": request_digest(self.questions, self.how, self.catalog),
        }
        sent = len(sendable(self.questions, self.how)) * requests_per_question(self.how)
        workload = asked_workload(self.source)
        return Spec(self.name, params, MODULES, workload, "evaluation", sent, self.concurrency)


def answers(study: Study, asking: Asking) -> Answers:
    """The answers: retained earlier, or asked for now and retained when none is missing."""
    spec = asking.spec()
    if study.target.kind == "twin" and not study.retained(spec):
        told = _asked(study, asking, None)  # a missing recording is no failure of a measurement
        return told if told.failed else read(study.point(spec, lambda: _measured(told, asking)))
    try:
        record = study.point(spec, lambda: _measure(study, asking))
    except Incomplete as stopped:
        return stopped.answers
    if not record.reused and (journal := _journal(study, asking)):
        journal.close()
    return read(record)


def retained(study: Study, asking: Asking) -> bool:
    """Is the endpoint not needed for these answers?"""
    return study.retained(asking.spec())


def _measure(study: Study, asking: Asking) -> Measured:
    journal = _journal(study, asking)
    if journal and not study.store.remeasure:
        before = earlier(study.store, study.target, f"{slug(study.notebook)}/{slug(asking.name)}")
        journal.answers = before | journal.answers
    told = _asked(study, asking, journal)
    if told.failed:
        raise Incomplete(told)
    return _measured(told, asking)


def _journal(study: Study, asking: Asking) -> Journal | None:
    return unfinished(study.target, asked_workload(asking.source), asking.how)


def _asked(study: Study, asking: Asking, journal: Journal | None) -> Answers:
    """Ask now. Looks at the machine before and after, where the engine runs on it."""
    local = study.target.kind == "local"
    before = _idle(study.target) if local else None
    heard, waited_s = study.run(
        heard_from(
            study.target,
            asking.questions,
            asking.how,
            asking.catalog,
            asking.concurrency,
            study.client,
            journal,
        )
    )
    quiet = idle_rule(before, busy_share()) if local else None
    return Answers(heard, waited_s, study.run(identify(study.target)), quiet=quiet)


def _idle(target: Target) -> float | None:
    """How busy the machine is while its engine, started here if it was not, has nothing to do."""
    target.connection  # noqa: B018 - starting it is work too, and must be over
    return busy_share()


def _measured(told: Answers, asking: Asking) -> Measured:
    rows = list(kept_rows(told.heard, asking.questions, asking.how, asking.catalog))
    outcomes: Counter[str] = Counter(done.outcome for each in told.heard.values() for done in each)
    return Measured(
        server=told.server,
        requests={"total": outcomes.total(), **outcomes},
        samples=rows,
        validity=[told.quiet] if told.quiet else [],
        results={"rate_limit_wait_s": told.waited_s},
    )


def read(record: Record) -> Answers:
    """The answers of a retained point."""
    quiet = next((rule for rule in record.validity if rule.rule == RULE), None)
    heard = heard_of(record.samples())
    return Answers(heard, record.results["rate_limit_wait_s"], record.server, record, quiet)


def unfinished(target: Target, workload: Workload, how: Condition) -> Journal | None:
    """What an interrupted run has heard already; `None` on the twin, which asks nobody."""
    if target.kind == "twin" or not how.asks:
        return None
    asking = {"prompt": how.prompt, "contract": how.contract}
    return Journal.open({"target": identity(target), "set": workload.sha256, "asking": asking})


def earlier(store: Store, target: Target, pattern: str = "*/answers-*") -> dict[str, Completion]:
    """Answers of `target` retained before, by what was asked: only what changed is asked again."""
    found: dict[str, Completion] = {}
    for path in sorted((store.root / slug(target.name)).glob(f"{pattern}-????????.json")):
        record = load_record(path)
        if record.status == "success" and record.body["identity"] == target.declared:
            found |= by_key(record.samples())
    return found
