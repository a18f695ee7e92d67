"""The same questions under two output contracts, and with answers cut short: what that does to them.

Asked and judged as every evaluation is. Answers under the schema are also corrected by the article's
guardrail, so that its effect is read from the very same answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nlqlib.analysis.evaluation import share
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.asking import Asked, ask_with
from nlqlib.experiments.condition_report import FREE
from nlqlib.experiments.conditions import CONDITIONS, MAX_TOKENS, Condition
from nlqlib.experiments.control_data import digest
from nlqlib.experiments.judging import executor
from nlqlib.experiments.questions import Question, load_questions, question_workload
from nlqlib.experiments.semantics import judge_all, measured
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.form import BadJson, read_json
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.progress import Progress
from nlqlib.records import ChatRequest, Completion, Json, Metric, MetricTag
from nlqlib.serving.client import Client
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.identity import identify
from nlqlib.serving.reply import ClientStats

SET = "dev"
CONCURRENCY = 8
QUESTIONS: Mapping[str, int | None] = {"full": None, "quick": 12}
"""The first so many of the set; `None`: all. On two cores an answer costs six seconds."""
ANSWER_TOKENS, TOKENS_PER_S = 160, 25.0
"""For the plan of a real engine on two cores: tokens of a whole answer, and of all answers per second."""
CUT_TOKENS = 16
"""So few that no intent fits: the limit must show."""
UNCONSTRAINED = Condition("unconstrained", "baseline", "unconstrained")
MODULES = ("nlqlib.experiments.control_answers", "nlqlib.analysis.evaluation", "nlqlib.twin.app")


@dataclass(frozen=True)
class Asking:
    """One way of asking all questions."""

    point: str
    how: Condition
    max_tokens: int = MAX_TOKENS


ASKED = (
    Asking("answers-structured", CONDITIONS["guardrail"]),
    Asking("answers-unconstrained", UNCONSTRAINED),
    Asking("answers-cut", CONDITIONS["baseline"], CUT_TOKENS),
)


@dataclass
class Limited:
    """A client whose answers have at most `max_tokens`."""

    client: Client
    max_tokens: int

    @property
    def endpoint(self) -> Endpoint:
        return self.client.endpoint

    @property
    def stats(self) -> ClientStats:
        return self.client.stats

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`, cut."""
        return await self.client.complete(replace(request, max_tokens=self.max_tokens), planned_s)

    async def aclose(self) -> None:
        """Close the client behind it."""
        await self.client.aclose()


def spec(study: Study, asked: Asking) -> Spec:
    """The point that `asked` becomes."""
    workload = question_workload(SET, QUESTIONS[study.profile])
    params: Json = {**asked.how.params(), "max_tokens": asked.max_tokens, "concurrency": CONCURRENCY}
    params["predictions"] = digest()
    local_s = workload.n * min(asked.max_tokens, ANSWER_TOKENS) / TOKENS_PER_S
    about_s = local_s if study.target.kind == "local" else None
    return Spec(asked.point, params, MODULES, workload, "evaluation", workload.n, CONCURRENCY, about_s)


def specs(study: Study) -> list[Spec]:
    """Every way of asking, for the plan."""
    return [spec(study, one) for one in ASKED]


def measure(study: Study, bar: Progress) -> list[Record]:
    """Every way of asking: retained already, or asked now."""
    return [_counted(study, one, bar) for one in ASKED]


def _counted(study: Study, asked: Asking, bar: Progress) -> Record:
    found = study.point(spec(study, asked), lambda: _measure(study, asked))
    bar.advance(asked.point)
    return found


def _measure(study: Study, asked: Asking) -> Measured:
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(study.catalog)
        questions = load_questions(SET, catalog)[: QUESTIONS[study.profile]]
        heard, waited_s = study.run(_ask(study, questions, asked, catalog))
        rows = judge_all(heard, asked.how, catalog, executor(warehouse, catalog))
    server = study.run(identify(study.target))
    found = measured(rows, server, waited_s, study.target.tag, FREE)
    return replace(found, metrics=[*found.metrics, *forms(rows, study.target.tag)])


async def _ask(
    study: Study, questions: Sequence[Question], asked: Asking, catalog: Catalog
) -> tuple[list[Asked], float]:
    client = Limited(study.target.client(study.client), asked.max_tokens)
    try:
        return await ask_with(client, questions, asked.how, catalog, CONCURRENCY)
    finally:
        await client.aclose()


def forms(rows: Sequence[Mapping[str, object]], tag: MetricTag) -> list[Metric]:
    """Of all answers that came: the share that was cut, and that is no JSON; and their mean length."""
    spoken = [row for row in rows if row["text"] is not None]
    cut = share("truncated", sum(row["finish_reason"] == "length" for row in spoken), len(spoken))
    broken = share("parse_errors", sum(not _is_json(str(row["text"])) for row in spoken), len(spoken))
    lengths = [float(str(row["output_tokens"])) for row in spoken if row["output_tokens"] is not None]
    mean = sum(lengths) / len(lengths) if lengths else None
    shares = [Metric(s.name, "share", "share", s.value, s.n, tag) for s in (cut, broken)]
    return [*shares, Metric("answer_tokens", "tokens", "mean", mean, len(lengths), tag)]


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except BadJson:
        return False
    return True
