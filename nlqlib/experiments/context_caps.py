"""`max_tokens` of 64, 128, 256 and 512: which answers are cut, and what a cut one costs before it is lost.

A cut answer is a failure: it has no latency, is no valid answer, and saves nothing. What it took until the
cut is kept apart, as time and tokens that bought nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from nlqlib.analysis.headroom import Cut, clamped
from nlqlib.analysis.latency import latency_summary
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import warm
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import SET, session
from nlqlib.load.batch import complete_all
from nlqlib.nlq.pipeline import judge_form
from nlqlib.records import ANSWERED, ChatRequest, Completion, Json, Metric
from nlqlib.serving.identity import identify

MODULES = ("nlqlib.experiments.context_caps",)
CAPS: Mapping[str, Sequence[int]] = {"full": (64, 128, 256, 512), "quick": (64, 256)}
"""Measured. In a quick run the others follow from the longest: at temperature 0 an answer under a smaller
limit is the beginning of the same answer, and one that ended by itself is the same under a larger one."""
SHOWN = CAPS["full"]
ASKED: Mapping[str, int] = {"full": 20, "quick": 3}
"""Questions: all of the set, or the first few."""
AT_ONCE: Mapping[str, int] = {"full": 1, "quick": 3}
QUICK_RATE = 8.0
"""Tokens per second of a real engine on two cores, few in flight at this context: for the plan."""
USUAL_TOKENS = 100
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Cap:
    """The first `questions` of the set under one `max_tokens`."""

    max_tokens: int
    questions: int
    at_once: int
    window: int = 0
    """The engine's `max_model_len`; 0: as it is."""

    @property
    def point(self) -> str:
        """`cap-256`, or `answers-w8192` for the answers of one window."""
        return f"answers-w{self.window}" if self.window else f"cap-{self.max_tokens}"


def caps(study: Study, limits: Sequence[int] = ()) -> list[Cap]:
    """The limits to be measured on `study`, ascending as given; by default the profile's own."""
    n, at_once = ASKED[study.profile], AT_ONCE[study.profile]
    return [Cap(limit, n, at_once) for limit in limits or CAPS[study.profile]]


def spec(study: Study, cap: Cap) -> Spec:
    """The point that `cap` becomes."""
    workload = question_workload(SET, cap.questions)
    about_s = None
    if study.target.kind == "local":
        about_s = cap.questions * min(cap.max_tokens, USUAL_TOKENS) / QUICK_RATE
    return Spec(
        cap.point,
        asdict(cap),
        MODULES,
        workload,
        requests=cap.questions + 1,
        concurrency=cap.at_once,
        about_s=about_s,
    )


def at(study: Study) -> Study:
    """`study` on a fresh engine of the twin with recorded words; elsewhere as it is."""
    if study.target.kind != "twin":
        return study
    return replace(study, target=study.target.engine(words="recordings"))


def measure(study: Study, wanted: Sequence[Cap]) -> list[Record]:
    """The limits in their order: each retained already, or measured now."""
    return [_record(at(study), cap) for cap in wanted]


def _record(study: Study, cap: Cap) -> Record:
    return study.point(spec(study, cap), lambda: study.run(_measure(study, cap)))


async def _measure(study: Study, cap: Cap) -> Measured:
    server = await identify(study.target)
    asked = [replace(r, max_tokens=cap.max_tokens) for r in questions(study, cap.questions)]
    async with session(study.target, study.client) as (client, _):
        await warm(client, asked[:1])
        done, _waited = await complete_all(client, asked, cap.at_once, "question")
    judged = [judge_form(c, r.contract) for r, c in zip(asked, done, strict=True)]
    found = measured(judged, cap.max_tokens, server.max_model_len, study)
    return replace(found, server=server)


def questions(study: Study, n: int) -> list[ChatRequest]:
    """The requests for the first `n` questions of the development set."""
    how = replace(CONDITIONS["baseline"], contract=study.contract)
    return requests(load_questions(SET), how, study.catalog)[:n]


def measured(done: Sequence[Completion], max_tokens: int, window: int | None, study: Study) -> Measured:
    """The point of some judged answers: counts, the share that was cut, latency of the valid ones alone."""
    rows = [sample(c, max_tokens, window) for c in done]
    counts = Counter[str](c.outcome for c in done)
    known = sum(not r["unknown"] and r["outcome"] in ANSWERED for r in rows)
    share = counts["length"] / known if known else None
    seen = latency_summary(done)
    return Measured(
        requests={"total": len(done), "ok": 0, **counts},
        metrics=[
            Metric("cut", "share", "mean", share, known, study.target.tag),
            Metric("e2e_latency", "s", "p50", seen.p50_s, seen.n, study.target.time_tag),
        ],
        samples=rows,
        results={"clock": study.target.clock},
    )


def sample(c: Completion, max_tokens: int, window: int | None) -> Json:
    """What is kept of one answer: its text only as a hash, and its seconds whatever became of it."""
    took_s = None if c.start_s is None or c.end_s is None else c.end_s - c.start_s
    return {
        "id": c.request_id,
        "outcome": c.outcome,
        "note": c.error,
        "finish_reason": c.finish_reason,
        "http_status": c.http_status,
        "clamped": clamped(c.finish_reason, c.prompt_tokens, c.output_tokens, max_tokens, window),
        "unknown": unknown(c),
        "max_tokens": max_tokens,
        "prompt_tokens": c.prompt_tokens,
        "output_tokens": c.output_tokens,
        "took_s": took_s,
        "text_sha256": None if c.text is None else sha256(c.text.encode()).hexdigest(),
    }


def unknown(c: Completion) -> bool:
    """Did the twin decline to say more than was recorded? Neither an answer nor a failure of the endpoint."""
    return c.http_status == 422 and "recorded answer was itself cut" in (c.error or "")


@dataclass(frozen=True)
class Outcome:
    """One `max_tokens`: how many of `n` answers were whole, cut, of no valid form, or are not known."""

    max_tokens: int
    n: int
    ok: int
    cut: int
    bad: int
    """Whole, but of no valid form; or a failure of the path."""
    unknown: int
    wasted_tokens: int
    """Generated for answers that were cut."""
    wasted_s: float | None
    """What they took, together; `None` where it was not measured."""
    p50_s: float | None
    """Of the valid answers; `None` where there is none, or it was not measured."""
    total_s: float | None
    """What all requests took."""
    sent: bool
    """Or derived from what another limit gave."""
    failed: int = 0
    """Of `bad`, failures of the path: whether the limit would have cut their answers nobody knows."""

    @property
    def known(self) -> int:
        return self.n - self.unknown - self.failed

    @property
    def lost(self) -> Cut:
        """How many the limit cuts, those of which nobody knows kept apart."""
        return Cut(self.n - self.failed, self.cut, self.unknown)

    @property
    def s_per_valid(self) -> float | None:
        """Seconds of all requests for each valid answer: what was cut is paid by those that were not."""
        return self.total_s / self.ok if self.total_s is not None and self.ok else None


def outcomes(records: Sequence[Record]) -> list[Outcome]:
    """Every limit of `SHOWN`: sent, or derived from the largest one that was."""
    by_cap = {int(r.params["max_tokens"]): r for r in records}
    if not by_cap:
        return []
    longest = by_cap[max(by_cap)].samples()
    return [
        _measured(by_cap[limit]) if limit in by_cap else derived(longest, limit)
        for limit in sorted({*SHOWN, *by_cap})
    ]


def _measured(record: Record) -> Outcome:
    rows = record.samples()
    lost = [r for r in rows if r["outcome"] == "length"]
    took = [r["took_s"] for r in rows if not r["unknown"]]
    return replace(
        _counted(rows, int(record.params["max_tokens"])),
        wasted_tokens=sum(r["output_tokens"] or 0 for r in lost),
        wasted_s=sum(r["took_s"] or 0.0 for r in lost),
        p50_s=record.value("e2e_latency", "p50"),
        total_s=sum(took) if None not in took else None,
        sent=True,
    )


def _counted(rows: Sequence[Json], limit: int) -> Outcome:
    known = Counter(r["outcome"] for r in rows if not r["unknown"])
    unseen = sum(bool(r["unknown"]) for r in rows)
    bad = sum(known.values()) - known["ok"] - known["length"]
    whole, lost = known["ok"], known["length"]
    failed = sum(n for outcome, n in known.items() if outcome not in ANSWERED)
    return Outcome(limit, len(rows), whole, lost, bad, unseen, 0, None, None, None, False, failed)


def derived(rows: Sequence[Json], limit: int) -> Outcome:
    """What `rows`, measured under one limit at temperature 0, say of another `limit`: counts, no times."""
    moved = [_under(row, limit) for row in rows]
    lost = [r for r in moved if r["outcome"] == "length" and not r["unknown"]]
    return replace(_counted(moved, limit), wasted_tokens=sum(r["output_tokens"] or 0 for r in lost))


def _under(row: Json, limit: int) -> Json:
    made = row["output_tokens"]
    if made is not None and made > limit:
        return row | {"outcome": "length", "output_tokens": limit, "unknown": False}
    if row["outcome"] == "length" and limit > row["max_tokens"]:
        return row | {"unknown": True}  # nobody knows how it goes on
    return row
