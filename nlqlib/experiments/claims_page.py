"""How the summary is shown: counts, differences, reasons, coverage and provenance, all from its lines."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from nlqlib.article import Word, exclusions
from nlqlib.article_arithmetic import arithmetic
from nlqlib.article_data import claims
from nlqlib.article_reads import coverage
from nlqlib.experiments.captions import Table
from nlqlib.experiments.claims import ORDER, Line, Summary
from nlqlib.experiments.claims_because import cut, served
from nlqlib.experiments.claims_html import ClaimsTable, cells

ROOMY = 3
"""So many targets fit the table in full: it is to stay light on a phone."""
KINDS = {"twin": "modelled times, answers replayed or drawn", "local": "measured on the machine that ran it"}
JUDGED: tuple[Word, ...] = ("differs", "reproduced")
SHORT = ["claim", "target", "article", "value", "difference", "tolerance", "tag", "because"]


def how(found: Summary) -> str:
    """`Targets: twin (modelled times …), local (measured …)`: what the numbers of each target are."""
    told = ", ".join(f"{t} ({KINDS.get(t, 'measured')})" for t in found.targets)
    return f"Targets: {told}"


def every(found: Summary) -> ClaimsTable:
    """The claims table: all lines in their order; from the fourth target on only those that have a value."""
    roomy = found.targets[:ROOMY]
    lines = tuple(x for x in found.lines if x.target in roomy or x.verdict.value is not None)
    gone = len(found.lines) - len(lines)
    less = f" {gone} lines without a value are left out." if gone else ""
    what = f"All {len(claims())} numbers of the article, differences first"
    return ClaimsTable(lines, f"{what}. {how(found)}.{less}")


def counts_table(found: Summary) -> Table:
    """How many results of each target have which verdict; settings of the article are counted apart."""
    rows = {}
    for target in found.targets:
        mine = found.of(target)
        told = Counter(x.word for x in mine if x.claim.is_result)
        settings = sum(not x.claim.is_result for x in mine)
        by_word: dict[str, int] = {word: told[word] for word in ORDER}
        rows[target] = {**by_word, "results": sum(told.values()), "settings, never judged": settings}
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("target")
    return Table(frame, f"Verdicts by target. {how(found)}.", counts_sentence(found))


def counts_sentence(found: Summary) -> str:
    """For each target, what was judged and how it came out."""
    return " ".join(_counted(target, found.of(target)) for target in found.targets)


def _counted(target: str, mine: Sequence[Line]) -> str:
    results = [x for x in mine if x.claim.is_result]
    by = Counter(x.word for x in results)
    judged = by["differs"] + by["reproduced"]
    if not judged:
        return f"On {target} none of {len(results)} results could be judged."
    fitted = sum(x.word == "reproduced" and x.verdict.tag == "fitted" for x in results)
    aside = f", {fitted} of them numbers that the model was fitted on" if fitted else ""
    return (
        f"On {target} {judged} of {len(results)} results could be judged: {by['differs']} differ and "
        f"{by['reproduced']} are reproduced{aside}."
    )


def tags_table(found: Summary) -> Table:
    """How the judged numbers came about: a fitted row that is reproduced is no confirmation."""
    told = Counter((x.target, x.verdict.tag, x.word) for x in found.results(*JUDGED))
    pairs = sorted({(t, tag) for t, tag, _ in told}, key=lambda p: (found.targets.index(p[0]), p[1]))
    rows = [
        {
            "target": t,
            "tag": tag,
            "differs": told[t, tag, "differs"],
            "reproduced": told[t, tag, "reproduced"],
        }
        for t, tag in pairs
    ]
    frame = pd.DataFrame(rows, columns=["target", "tag", "differs", "reproduced"]).set_index("target")
    return Table(frame, f"Judged numbers by how they came about. {how(found)}.", fitted_sentence(found))


def fitted_sentence(found: Summary) -> str:
    """What a reproduced number is worth, by its tag."""
    told = Counter(x.verdict.tag for x in found.results("reproduced"))
    if not told:
        return "Nothing is reproduced yet."
    parts = ", ".join(f"{n} {tag}" for tag, n in told.most_common())
    return f"Reproduced: {parts}. What was fitted made the twin, and confirms nothing by itself."


def differences(found: Summary) -> Table:
    """The lines that differ, each with its size and its reason."""
    rows = [{**cells(x), "claim": x.claim.id} for x in found.results("differs")]
    frame = pd.DataFrame(rows, columns=SHORT, dtype=object).set_index("claim")
    return Table(frame, f"Numbers that differ from the article. {how(found)}.", worst(found))


def worst(found: Summary) -> str:
    """How many differ, and which is farthest off."""
    differ = found.results("differs")
    known = [(x.verdict.relative_difference, x) for x in differ if x.verdict.relative_difference is not None]
    if not known:
        count = f"{len(differ)} numbers differ" if differ else "No judged number differs"
        return f"{count} from the article's by a share that can be given."
    off, most = max(known, key=lambda pair: abs(pair[0]))
    here, there = cells(most)["value"], cells(most)["article"]
    return (
        f"{len(differ)} numbers differ; the farthest off, as a share of the article's, is {most.claim.id} on "
        f"{most.target}: {here} where the article has {there} ({off:+.0%})."
    )


def reasons_table(found: Summary, word: Word) -> Table:
    """Why results have the verdict `word`, counted, the commonest first; details stand in the whole table."""
    told = Counter((x.target, _plainly(x)) for x in found.results(word))
    rows = [{"target": t, "numbers": n, "because": why} for (t, why), n in told.most_common()]
    frame = pd.DataFrame(rows, columns=["target", "numbers", "because"]).set_index("target")
    reading = answering(found) if word == "not comparable" else ""
    return Table(frame, f"Why {word}: {sum(told.values())} lines. {how(found)}.", reading)


def _plainly(line: Line) -> str:
    """The reason without what it says of single runs."""
    scope = line.claim.scope.reason
    return scope if line.verdict.reason.startswith(scope) else line.verdict.reason.partition("; ")[0]


def answering(found: Summary) -> str:
    """Who answers on each target, on what, and whether answers are cut, as the runs say."""
    told = []
    for target in found.targets:
        records = [r for x in found.of(target) for r in x.records]
        facts = [fact for fact in (served(target, records), cut(records)) if fact]
        told += [f"On {target}: {', '.join(facts)}."] if facts and target != "twin" else []
    return " ".join(told)


def coverage_table() -> Table:
    """Numbers of the article that are no results, by reason."""
    rows = {e.id: {"fragments": str(len(e.quotes) or "a pattern"), "because": e.reason} for e in exclusions()}
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("left out")
    return Table(
        frame, f"{len(rows)} kinds of numbers that no claim holds; all the article's.", coverage_sentence()
    )


def coverage_sentence() -> str:
    """How many numbers the article's text has, and who holds them."""
    told = coverage()
    return (
        f"The article's text has {told.numbers} numbers: {told.claimed} stand in {len(claims())} claims, "
        f"{told.excluded} are left out for the reasons above, and {told.left_over} are left over."
    )


def arithmetic_table() -> Table:
    """The article's own derived numbers that its printed inputs do not give exactly."""
    again = arithmetic()
    rows = {
        r.claim.id: {"article": r.claim.shown, "from printed inputs": f"{r.value:.4g}", "note": r.claim.note}
        for r in again
        if r.closes != "closes"
    }
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("derived number")
    broken = sum(r.closes == "does not close" for r in again)
    reading = (
        f"{len(again)} derived numbers were computed again from the printed ones: {len(rows)} need unrounded "
        f"inputs, and {broken} contradict theirs."
    )
    return Table(frame, "The article's arithmetic, computed again; nothing here is ours.", reading)


def notes_table() -> Table:
    """What the article's own numbers say about one another, where that is worth knowing."""
    rows = {c.id: {"article": c.shown, "note": c.note} for c in claims() if c.note}
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("claim")
    return Table(frame, f"Notes on {len(rows)} of the article's numbers; nothing here is ours.")


def tolerances_table() -> Table:
    """Each tolerance, why it is as wide as it is, and how many results it judges."""
    used = Counter(c.tolerance for c in claims() if c.is_result)
    rows = {t.name: {"width": str(t), "results": n, "because": t.reason} for t, n in used.items()}
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("tolerance")
    return Table(frame, "Tolerances, of the article's value or absolute in its unit; chosen by us.")


def provenance_table(found: Summary) -> Table:
    """The runs behind the table: points, when the newest ended, and by which code."""
    behind = {r.path: (x.target, x.notebook, r) for x in found.lines for r in x.records}
    rows = []
    for target, notebook in sorted({(t, n) for t, n, _ in behind.values()}):
        records = [r for t, n, r in behind.values() if (t, n) == (target, notebook)]
        commits = {str((r.run.get("provenance") or {}).get("git_commit") or "")[:10] for r in records}
        rows.append(
            {
                "target": target,
                "notebook": notebook,
                "points": len(records),
                "newest (UTC)": max(str(r.run.get("completed_at") or "")[:19] for r in records),
                "code": ", ".join(sorted(filter(None, commits))) or "—",
            }
        )
    frame = pd.DataFrame(rows, columns=["target", "notebook", "points", "newest (UTC)", "code"])
    return Table(frame.set_index("target"), f"Runs behind the table. {how(found)}.")
