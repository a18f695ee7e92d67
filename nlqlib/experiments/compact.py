"""Output Tokens as a Latency Budget: every form of output on the same questions, and the time of pairs.

Meaning and tokens come from the questions asked a few at a time; time comes from the same questions asked one
after the other, every form of one question before the next question, so that a drift of the machine meets all
forms alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from nlqlib.analysis.compactness import Said, pooled_itl
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.asking import ask_all
from nlqlib.experiments.compact_guard import keep_nothing_lost
from nlqlib.experiments.conditions import MAX_TOKENS, requests
from nlqlib.experiments.contract_probe import Finding, findings, honoured, probe, probe_spec, schema_contract
from nlqlib.experiments.judging import executor
from nlqlib.experiments.output_contracts import PER_REQUEST, PRETTY, Form, compared
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.semantics import MODULES as EVALUATION_MODULES
from nlqlib.experiments.semantics import judge_all, measured
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.progress import progress
from nlqlib.records import ChatRequest, Completion, Json, Metric
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify
from nlqlib.serving.twin_target import recordings

MODULES = ("nlqlib.experiments.compact", *EVALUATION_MODULES)
TIMED_SET = "dev"
SETS = (TIMED_SET, "holdout")
QUICK_N, QUICK_TIMED = 8, 4
"""First questions of a set in each form, and of each set in turn, where a token costs 0.03 to 0.14 s. The set
`TIMED_SET` is asked whole all the same: eight questions say nothing about accuracy."""
Found = Mapping[str, Mapping[str, Record]]
"""Evaluations by set and form."""


@dataclass(frozen=True)
class Plan:
    """What is compared on this target."""

    forms: tuple[Form, ...]
    sets: tuple[str, ...]
    n: int
    """First questions of each set; 0: all."""
    timed: tuple[Form, ...]
    n_timed: int
    concurrency: int
    unheard: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Forms that the twin cannot replay, by set."""
    whole: tuple[str, ...] = ()
    """Sets that are asked whole, whatever `n`."""

    def first(self, source: str) -> int | None:
        """How many first questions of a set are asked; `None`: all."""
        return None if source in self.whole else self.n or None

    def asked_of(self, source: str) -> str:
        """`first 8 of 60 questions`: for captions."""
        return _first_of(self.first(source), source)

    def timed_of(self, source: str) -> str:
        """The same of the questions asked in turn."""
        return _first_of(self.n_timed, source)

    def on(self, source: str) -> list[Form]:
        """The forms compared on one set, those on a server of their own last."""
        forms = [form for form in self.forms if form.name not in self.unheard.get(source, ())]
        return sorted(forms, key=lambda form: form.enforced == "server")

    def timed_on(self, source: str) -> list[Form]:
        """The forms timed on one set."""
        return [form for form in self.timed if form.name not in self.unheard.get(source, ())]

    @property
    def timed_sets(self) -> tuple[str, ...]:
        """The sets whose questions are timed, the tuned one first."""
        return tuple(dict.fromkeys((TIMED_SET, *self.sets)))


def _length(source: str) -> int:
    return question_workload(source).n


def _first_of(n: int | None, source: str) -> str:
    there = _length(source)
    return f"all {there} questions" if n is None or n >= there else f"first {n} of {there} questions"


def planned(study: Study, params: Json, found: Sequence[Finding] | None = None) -> Plan:
    """What is compared under the notebook's `params` on a server of which the probe `found` this.

    Before a server was probed (`None`) all per-request forms are counted on.
    """
    flagged = study.target.kind == "twin" if params["flagged"] == "" else params["flagged"] == "yes"
    able = PER_REQUEST if found is None else honoured(found)
    contract = PRETTY.contract if found is None else schema_contract(found)
    forms = tuple(compared(able, study.quick, flagged, contract))
    timed = tuple(f for f in forms if f.enforced != "server")
    sets = tuple(params["sets"]) or SETS
    plan = Plan(forms, sets, int(params["n"]), timed, int(params["n_timed"]), int(params["concurrency"]))
    plan = _quick(plan) if study.quick else replace(plan, n_timed=plan.n_timed or _length(TIMED_SET))
    lost = {s: tuple(f.name for f in forms if not heard(study, s, f, plan)) for s in {*sets, TIMED_SET}}
    return replace(plan, unheard=lost)


def _quick(plan: Plan) -> Plan:
    """`plan` with few questions where its parameters do not say how many."""
    whole = () if plan.n else (TIMED_SET,)
    return replace(plan, n=plan.n or QUICK_N, n_timed=plan.n_timed or QUICK_TIMED, whole=whole)


def heard(study: Study, source: str, form: Form, plan: Plan) -> bool:
    """Can `form` be asked of this target? The twin must have it recorded for the questions of `plan`."""
    if study.target.kind != "twin":
        return True
    kept, engine = recordings(), contracts(study.catalog)[form.contract].engine
    asked = requests(load_questions(source)[: plan.first(source)], form.how, study.catalog)
    return all(kept.find({**request.body(kept.model), **engine}) for request in asked)


def at(study: Study, form: Form) -> Study:
    """`study` on the server that `form` needs."""
    flags = contracts(study.catalog)[form.contract].engine
    return replace(study, target=study.target.engine(**flags)) if flags else study


def form_spec(source: str, form: Form, plan: Plan) -> Spec:
    """One form on one set, as a point."""
    workload = question_workload(source, plan.first(source))
    params = {**form.how.params(), "max_tokens": MAX_TOKENS, "concurrency": plan.concurrency}
    name = f"{workload.name}-{form.name}"
    return Spec(name, params, MODULES, workload, "evaluation", workload.n, plan.concurrency)


def timing_spec(plan: Plan, source: str = TIMED_SET) -> Spec:
    """The timed pairs of one set, as one point."""
    workload = question_workload(source, min(plan.n_timed, _length(source)))
    names = [form.name for form in plan.timed_on(source)]
    params: Json = {"forms": names, "concurrency": 1, "max_tokens": MAX_TOKENS}
    name = "timing" if source == TIMED_SET else f"timing-{source}"
    return Spec(name, params, MODULES, workload, requests=(workload.n + 1) * len(names))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its server.

    What a probe on file has found decides the forms; before the first probe all are counted on.
    """
    kept = study.store.find(study.key(probe_spec()))
    plan = planned(study, params, findings(kept) if kept else None)
    asked = [(source, form) for source in plan.sets for form in plan.on(source)]
    forms = [(at(study, form), form_spec(source, form, plan)) for source, form in asked]
    timings = [(study, timing_spec(plan, source)) for source in plan.timed_sets]
    return [(study, probe_spec()), *forms, *timings]


def opened(study: Study, params: Json) -> tuple[Record, Plan]:
    """The probe of the server, and what is compared because of it."""
    record = probe(study)
    return record, planned(study, params, findings(record))


def evaluated(study: Study, plan: Plan) -> dict[str, dict[str, Record]]:
    """Every form on every set. Raises `RuntimeError` where a request was lost, or none of a form answered."""
    return {s: {form.name: _evaluated(study, s, form, plan) for form in plan.on(s)} for s in plan.sets}


def _evaluated(study: Study, source: str, form: Form, plan: Plan) -> Record:
    there = at(study, form)

    def measure() -> Measured:
        with _served(study, there), open_warehouse() as warehouse:
            catalog = warehouse.lookups(study.catalog)
            questions = load_questions(source, catalog)[: plan.first(source)]
            asking = ask_all(there.target, questions, form.how, catalog, plan.concurrency, there.client)
            asked, waited_s = there.run(asking)
            keep_nothing_lost(((a.outcome, a.invalid) for a in asked), f"{source} in the form {form.name}")
            rows = judge_all(asked, form.how, catalog, executor(warehouse, catalog))
            return measured(rows, there.run(identify(there.target)), waited_s, there.target.tag)

    return there.point(form_spec(source, form, plan), measure)


def timings(study: Study, plan: Plan) -> dict[str, Record]:
    """The timed pairs of every set, that of `TIMED_SET` first."""
    return {source: timing(study, plan, source) for source in plan.timed_sets}


def timing(study: Study, plan: Plan, source: str = TIMED_SET) -> Record:
    """Every timed form of one question after the other, streamed, on warm prefixes.

    Raises `RuntimeError` where a request was lost, or none of a form was answered.
    """

    def measure() -> Measured:
        rows = study.run(_in_turn(study, plan, source))
        for form in plan.timed_on(source):
            done = [(row["outcome"], row["error"]) for row in rows if row["form"] == form.name]
            keep_nothing_lost(done, f"{source} in turn in the form {form.name}")
        pretty = [row for row in rows if row["form"] == PRETTY.name and row["outcome"] == "ok"]
        itl = pooled_itl(
            (row["decode_s"], row["output_tokens"]) for row in pretty if row["decode_s"] is not None
        )
        told = Metric("inter_token_latency", "s", "mean", itl, len(pretty), study.target.time_tag)
        ok = sum(row["outcome"] == "ok" for row in rows)
        return Measured(
            server=study.run(identify(study.target)),
            requests={"total": len(rows), "ok": ok},
            metrics=[told],
            samples=rows,
        )

    return study.point(timing_spec(plan, source), measure)


@contextmanager
def _served(study: Study, there: Study) -> Iterator[None]:
    """Where `there` is another server than that of `study`: only it runs meanwhile, and it ends here."""
    if there is study:
        yield
        return
    study.target.close()
    vars(study.target).pop("connection", None)  # so that the next use connects again
    with closing(there.target):
        yield


async def _in_turn(study: Study, plan: Plan, source: str) -> list[Json]:
    """One row for each question and form; each form is warmed up once, and where they start rotates."""
    questions, forms = load_questions(source)[: plan.n_timed], plan.timed_on(source)
    asked = {form.name: requests(questions, form.how, study.catalog) for form in forms}
    client = study.target.client("wire")
    rows = []
    try:
        for form in forms:  # its prompt and its grammar
            await client.complete(replace(asked[form.name][0], request_id="warm-up", max_tokens=1))
        with progress(len(questions), "question") as bar:
            for i, question in enumerate(questions):
                for form in rotated(forms, i):
                    rows.append(await _timed(client, form, question.id, asked[form.name][i]))
                bar.advance(question.id)
    finally:
        await client.aclose()
    return rows


def rotated(forms: Sequence[Form], by: int) -> list[Form]:
    """`forms` in their order, starting `by` later each time, so that none always comes first."""
    cut = by % len(forms)
    return [*forms[cut:], *forms[:cut]]


async def _timed(client: Client, form: Form, question: str, request: ChatRequest) -> Json:
    done = await client.complete(replace(request, stream=True))
    return {
        "form": form.name,
        "id": question,
        "outcome": done.outcome,
        "error": done.error,
        "text": done.text,
        "output_tokens": done.output_tokens,
        "ttft_s": done.ttft_s,
        "decode_s": _decode_s(done),
        "e2e_s": done.e2e_s,
    }


def _decode_s(done: Completion) -> float | None:
    """Seconds from the first token to the end, whose last token is the end of the turn; `None`: not seen."""
    if not done.ok or done.first_token_s is None or done.end_s is None:
        return None
    return done.end_s - done.first_token_s


def said(record: Record) -> list[Said]:
    """What was said to each question of an evaluation; its latency under load is left out."""
    return [Said(r["question_id"], r["outcome"], r["text"], r["output_tokens"]) for r in record.samples()]


def timed_said(record: Record, form: str) -> list[Said]:
    """What was said in turn in one form, with its end-to-end latency."""
    chosen = [row for row in record.samples() if row["form"] == form]
    return [Said(r["id"], r["outcome"], r["text"], r["output_tokens"], r["e2e_s"]) for r in chosen]


def itl_s(record: Record) -> float | None:
    """Measured seconds a token of the pretty answers, first token excluded."""
    return record.value("inter_token_latency", "mean")
