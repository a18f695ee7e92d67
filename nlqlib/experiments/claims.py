"""Every number of the article beside what each target retained: one line per claim and target.

From artifacts alone. A claim finds its value by `data/article/reads.toml`; what that value says is judged as
on the notebooks' own pages (`nlqlib.article`), and here only more is said about *why* it cannot be compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nlqlib import paths
from nlqlib.analysis.stats import summary
from nlqlib.article import NO_VALUE, Verdict, Word, claims, verdict, verdicts_of
from nlqlib.article_data import Claim
from nlqlib.article_reads import Read, reads_of
from nlqlib.artifacts import Record
from nlqlib.experiments.claims_because import because, cut, replayed
from nlqlib.experiments.claims_readers import READERS
from nlqlib.experiments.claims_retained import Retained, comparable_as, retained, targets
from nlqlib.experiments.study import Spec, Study
from nlqlib.records import Json

ORDER: tuple[Word, ...] = ("differs", "reproduced", "not comparable", "not measured")
"""Differences come first."""

ByNotebook = Mapping[str, Retained]


@dataclass(frozen=True)
class Line:
    """One claim beside one target's value of it."""

    verdict: Verdict
    target: str
    notebook: str
    """The notebook whose runs answer; the claim's own where none does."""
    records: tuple[Record, ...] = ()
    """The retained points the value rests on."""
    others: tuple[tuple[str, Verdict], ...] = ()
    """What other notebooks found for the claim, or this one under an assumption that its reason names."""

    @property
    def claim(self) -> Claim:
        return self.verdict.claim

    @property
    def word(self) -> Word:
        return self.verdict.verdict

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Paths of the points, relative to the artifacts' root."""
        return tuple("/".join(r.path.parts[-3:]) for r in self.records)


@dataclass(frozen=True)
class Summary:
    """Every claim on every target, differences first."""

    targets: tuple[str, ...]
    lines: tuple[Line, ...]

    def of(self, target: str) -> tuple[Line, ...]:
        """The lines of one target."""
        return tuple(line for line in self.lines if line.target == target)

    def results(self, *words: Word) -> tuple[Line, ...]:
        """The lines of these verdicts, without the article's settings."""
        return tuple(line for line in self.lines if line.claim.is_result and line.word in words)


def summarised(first: str = "twin", root: Path = paths.ARTIFACTS, only: Sequence[str] = ()) -> Summary:
    """Every claim on twin, local and whatever else is retained; the target called `first` leads.

    `only`: these targets and no others. Contacts nothing. Raises `ArtifactError` for a damaged artifact.
    """
    names = tuple(only) or targets(first, root)
    found = [line for name in names for line in target_lines(name, root)]
    place = {c.id: i for i, c in enumerate(claims())}
    found.sort(key=lambda line: (ORDER.index(line.word), place[line.claim.id], names.index(line.target)))
    return Summary(names, tuple(found))


def target_lines(target: str, root: Path = paths.ARTIFACTS) -> list[Line]:
    """Every claim beside what `target` retained, in the article's order."""
    by_notebook = retained(target, root)
    tables = _tables(by_notebook)
    return [_line(c, target, by_notebook, tables) for c in claims()]


def _tables(by_notebook: ByNotebook) -> dict[tuple[str, str], tuple[Verdict, ...]]:
    """(notebook, comparison) → the verdicts of that notebook's own comparison."""
    wanted = {(r.notebook, r.by) for c in claims() for r in reads_of(c) if r.by}
    found = {}
    for notebook, by in sorted(wanted):
        table = READERS[by](by_notebook[notebook]) if notebook in by_notebook else None
        found[notebook, by] = () if table is None else verdicts_of(table)
    return found


Tables = Mapping[tuple[str, str], tuple[Verdict, ...]]


def _line(c: Claim, target: str, by_notebook: ByNotebook, tables: Tables) -> Line:
    """The first read that has a value; else the first that says why not; else that nothing was measured."""
    tried = [line for read in reads_of(c) if (line := _tried(c, read, target, by_notebook, tables))]
    valued = [line for line in tried if line.verdict.value is not None]
    best = next(iter([*valued, *tried]), None)
    if best is None:
        missing = verdict(c, None, target=target)
        why = because(missing, target, (), _absence(c, by_notebook))
        return Line(replace(missing, reason=why), target, c.notebook)
    elsewhere = [line for line in valued if line.notebook != best.notebook]
    pairs = [pair for line in elsewhere for pair in ((line.notebook, line.verdict), *line.others)]
    others = (*best.others, *pairs)
    absence = _absence(c, by_notebook) if best.verdict.reason == NO_VALUE else ""
    told = because(best.verdict, target, best.records, absence, others)
    return replace(best, verdict=replace(best.verdict, reason=told), others=others)


def _absence(c: Claim, by_notebook: ByNotebook) -> str:
    """Why there is no value at all."""
    asked = {read.notebook for read in reads_of(c)} or {c.notebook}
    ran = sorted(asked & set(by_notebook))
    if ran:
        return f"the retained runs of {', '.join(ran)} have no point of this setting"
    return f"no run of {' or '.join(sorted(asked))} is retained"


def _tried(c: Claim, read: Read, target: str, by_notebook: ByNotebook, tables: Tables) -> Line | None:
    """What one read gives; `None` where its notebook retained nothing for it."""
    if read.notebook not in by_notebook:
        return None
    found = by_notebook[read.notebook]
    records = tuple(found.named(*read.points(c)))
    mine = _own(c, tables[read.notebook, read.by]) if read.by else _read_off(c, read, records, target)
    if not mine:
        return None
    first, *more = (_unlike(_as_l4(v, target, records), records) for v in mine)
    assumed = tuple((read.notebook, v) for v in more if v.target is not None)
    return Line(first, target, read.notebook, records if first.value is not None else (), assumed)


def _own(c: Claim, of: Iterable[Verdict]) -> list[Verdict]:
    """The page's verdicts on the claim: those with a value first, the target's before arithmetic's."""
    mine = [v for v in of if v.claim.id == c.id]
    return sorted(mine, key=lambda v: (v.value is None, v.target is None))


def _read_off(c: Claim, read: Read, records: Sequence[Record], target: str) -> list[Verdict]:
    """The mean of a metric or a result over the points."""
    told = [(value, tag) for r in records for value, tag in [_value(r, read)] if value is not None]
    if not told:
        return []
    over = summary([value * read.scale for value, _ in told])
    tag = read.twin if read.twin and target == "twin" else told[0][1]
    return [verdict(c, over.mean, over.interval if over.n > 2 else None, tag, target)]


def _value(record: Record, read: Read) -> tuple[float | None, str]:
    if read.result:
        found: object = record.results
        for part in read.result.split("/"):
            found = _step(found, part)
        number = float(found) if isinstance(found, int | float) else None
        return number, "replayed" if record.body["target"] == "twin" else "measured"
    metric = next((m for m in record.metrics if (m.name, m.stat) == (read.metric, read.stat)), None)
    return (metric.value, metric.tag) if metric else (None, "measured")


def _step(found: object, part: str) -> object:
    """One step down a path: by key, or by `name` in a list of named entries."""
    if isinstance(found, dict):
        return found.get(part)
    if isinstance(found, list):
        return next((e for e in found if isinstance(e, dict) and e.get("name") == part), None)
    return None


def _unlike(v: Verdict, records: Sequence[Record]) -> Verdict:
    """No verdict on a time of the twin where its answers have another model's lengths."""
    speaker = replayed(records)
    if v.target != "twin" or v.claim.scope.name != "deployment" or not speaker:
        return v
    return replace(v, verdict="not comparable", reason=f"answers are replayed at the lengths of {speaker}'s")


def _as_l4(v: Verdict, target: str, records: Sequence[Record]) -> Verdict:
    """The verdict once more where the endpoint says that it is what the article measured.

    Cut answers are nobody's: then it is an endpoint like any other.
    """
    name = comparable_as(target, records)
    if name == "l4" and cut(records):
        name = "url"
    return v if name == target else replace(verdict(v.claim, v.value, v.interval, v.tag, name), target=target)


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Nothing is measured here: the plan has no points."""
    return []
