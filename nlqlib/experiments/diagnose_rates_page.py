"""The measured error of the diagnosis as a retained document, and as text for the page about methods."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nlqlib import paths
from nlqlib.experiments.diagnose_rates import JUDGED, LIMITING, NOISES, SEEDS, TRUTHS, VIEWS, Case
from nlqlib.experiments.diagnose_world import GRID, LEAST, WAVES
from nlqlib.files import canonical_json

RETAINED = paths.DATA / "diagnosis" / "rates.json"
FIELDS = ("truth", "view", "spread", "drift", "seed", "judged", "said", "marked")
Row = Mapping[str, Any]


def document(found: Iterable[Case]) -> dict[str, Any]:
    """All judged cases, and the world they are from; plain data."""
    return {
        "is": "verdicts of the diagnosis on simulated queues whose limit is known; nothing is measured",
        "world": {"grid": list(GRID), "least": LEAST, "waves": WAVES, "repeats": 0, "seeds": list(SEEDS)},
        "fields": list(FIELDS),
        "cases": [[getattr(case, name) for name in FIELDS] for case in found],
    }


def write(found: Mapping[str, Any], path: Path = RETAINED) -> None:
    """Keep the document, a line for each case."""
    head = {k: v for k, v in found.items() if k != "cases"}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found["cases"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{canonical_json(head)[:-1]},"cases":[\n{lines}\n]}}\n', "utf-8")


def retained(path: Path = RETAINED) -> dict[str, Any]:
    """The kept document."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def rows(found: Mapping[str, Any]) -> list[Row]:
    """The cases by the names of their fields."""
    return [dict(zip(found["fields"], case, strict=True)) for case in found["cases"]]


def page(found: Mapping[str, Any]) -> str:
    """What the page about methods says: the world, the totals, two tables, and the worst of it."""
    cases = rows(found)
    return "\n\n".join(
        [
            _world(found),
            sentence(cases),
            table(cases, ("view", "answers differ", "machine drifts"), _by_noise),
            "By deployment, without headers and metrics:",
            table(
                [c for c in cases if c["view"] == "from outside"], ("deployment",), lambda c: (c["truth"],)
            ),
            wrong_sentence(cases),
        ]
    )


def _world(found: Mapping[str, Any]) -> str:
    grid = ", ".join(map(str, found["world"]["grid"]))
    seeds = len(found["world"]["seeds"])
    silent = sum("cannot tell" in truth.kinds for truth in TRUTHS)
    return (
        f"The diagnosis rests on thresholds, so its error is stated. {len(TRUTHS)} deployments whose limit "
        f"is known are swept at {grid} in flight in a simulated world of queues, {seeds} times under each "
        f"of {len(NOISES)} noises, and every sweep is judged by what three observers see. Levels are not "
        "repeated, as the command would repeat them where noise leaves the verdict open. Of "
        f"{silent} deployments that have no limit on requests, silence is the right verdict. "
        "`python -m nlqlib validate-diagnosis` counts anew."
    )


def sentence(cases: Sequence[Row]) -> str:
    """The totals, observer by observer."""
    told = []
    for view in VIEWS:
        counts = Counter(c["judged"] for c in cases if c["view"] == view)
        n = counts.total()
        shares = ", ".join(f"{name} {counts[name] / n:.0%}" for name in JUDGED)
        told.append(f"{view}: {shares} of {n}")
    return f"Verdicts with {'; '.join(told)}."


def _by_noise(case: Row) -> tuple[str, ...]:
    return case["view"], f"{case['spread']:.0%}", f"{case['drift']:.0%}"


def table(cases: Sequence[Row], heads: Sequence[str], by: Callable[[Row], tuple[str, ...]]) -> str:
    """Counts by group as a Markdown table."""
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for case in cases:
        groups.setdefault(by(case), Counter())[case["judged"]] += 1
    ordered = (
        sorted(groups, key=lambda g: (list(VIEWS).index(g[0]), *g[1:])) if heads[0] == "view" else groups
    )
    lines = [[*heads, "cases", *JUDGED], ["---"] * len(heads) + ["--:"] * (1 + len(JUDGED))]
    lines += [[*g, str(groups[g].total()), *(str(groups[g][name]) for name in JUDGED)] for g in ordered]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def wrong_sentence(cases: Sequence[Row]) -> str:
    """What the wrong verdicts were, most frequent first."""
    wrong = Counter((c["truth"], _kind(c["said"]), c["view"]) for c in cases if c["judged"] == "wrong")
    if not wrong:
        return "No verdict was wrong."
    told = [f"{truth} called *{said}* {n} times ({view})" for (truth, said, view), n in wrong.most_common(5)]
    rest = wrong.total() - sum(n for _, n in wrong.most_common(5))
    others = f"; {rest} others" if rest else ""
    marked = sum(bool(c["marked"]) for c in cases if c["judged"] == "wrong")
    return (
        f"Wrong verdicts, most frequent first: {'; '.join(told)}{others}. Of these {wrong.total()}, {marked} "
        "carried a reservation, which names what else would look the same or why the number is vague."
    )


def _kind(said: str) -> str:
    return "limited" if said.startswith(LIMITING) else said
