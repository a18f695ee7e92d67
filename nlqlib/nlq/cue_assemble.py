"""Facts to an intent: every slot from the facts that fill it, with the contract's defaults for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Fact
from nlqlib.nlq.cue_periods import Period
from nlqlib.nlq.intent import Filter, Intent, Sort
from nlqlib.nlq.schema import MAX_DIMENSIONS, MAX_FILTERS, MAX_LIMIT, MAX_METRICS, MAX_VALUES

UNIT_CODES = "TU"


@dataclass(frozen=True)
class Assembly:
    """The intent that facts make, or the reason why they make none."""

    intent: Intent | None
    problem: str = ""


class _Doubt(ValueError):
    """The facts contradict one another, or cannot be said in an intent."""


def assemble(facts: Sequence[Fact], catalog: Catalog) -> Assembly:
    """The intent of `facts`."""
    try:
        return Assembly(_Slots(facts, catalog).intent())
    except _Doubt as doubt:
        return Assembly(None, str(doubt))
    except ValidationError as error:
        return Assembly(None, error.errors()[0]["msg"])


class _Slots:
    """The slots of one intent, each computed from its facts."""

    def __init__(self, facts: Sequence[Fact], catalog: Catalog) -> None:
        self.facts = facts
        self.catalog = catalog
        self.ranked = bool(self._values("rank")) or bool(self._values("rank among"))
        entity = self._last("entity")
        self.entity: tuple[str, str] | None = entity
        self.bucket = entity[1] if entity and entity[0] in UNIT_CODES else None

    def _values(self, slot: str) -> list[Any]:
        return list(dict.fromkeys(fact.value for fact in self.facts if fact.slot == slot))

    def _last(self, slot: str) -> Any:
        found = [fact.value for fact in self.facts if fact.slot == slot]
        return found[-1] if found else None

    def intent(self) -> Intent:
        kind, grain = self._kind()
        metrics = self._metrics()
        dimensions = self._dimensions(kind)
        return Intent(
            evidence="",
            query_type=kind,
            metrics=tuple(metrics),
            dimensions=tuple(dimensions),
            filters=tuple(self._filters()),
            period=self._period(),
            grain=grain,
            sort=self._sort(kind, metrics, dimensions),
            limit=self._limit(kind),
        )

    def _kind(self) -> tuple[Any, Any]:
        grains = self._values("grain")
        if self.bucket:
            return "time_series", self.bucket
        if grains:
            return "time_series", grains[-1]
        if self._values("trend"):
            return "time_series", self._last("trend") or "month"
        return ("top_n_by_metric" if self.ranked else "breakdown"), None

    def _metrics(self) -> list[str]:
        metrics = self._values("metric")
        first = self._rank_metric()
        if self.ranked and first and first not in metrics:
            metrics = [*metrics, first] if metrics else [first]
        if not metrics:
            sorts = [key for key, _ in self._values("sort") if key in self.catalog.metrics]
            spare = [name for name, _ in self._values("reserve")]
            metrics = self._values("threshold metric") or sorts[:1] or spare[:1]
        if not metrics:
            raise _Doubt("no metric is named")
        if len(metrics) > MAX_METRICS:
            raise _Doubt(f"more than {MAX_METRICS} metrics are named")
        return metrics

    def _rank_metric(self) -> str | None:
        """What a ranking goes by: the metric beside its cue, the adjective, else the first one named."""
        if not self.ranked:
            return None
        spare = [name for name, near in self._values("reserve") if near]
        named = self._values("metric")
        return self._last("rank metric") or (spare[0] if spare else None) or (named[0] if named else None)

    def _dimensions(self, kind: str) -> list[str]:
        found = self._values("dimension")
        if self.entity and not self.bucket:
            found = [self.entity[1], *found]
        found += [dimension for dimension, _ in self._values("rank among")]
        found += [key for key, _ in self._values("sort") if key in self.catalog.dimensions]
        found = list(dict.fromkeys(found))
        if len(found) > (1 if kind == "time_series" else MAX_DIMENSIONS):
            raise _Doubt(f"too many dimensions for a {kind}: {', '.join(found)}")
        return found

    def _filters(self) -> list[Filter]:
        merged: dict[tuple[str, str], list[Any]] = {}
        for field, op, values in self._values("filter"):
            listed = merged.setdefault((field, op), [])
            listed += [value for value in values if value not in listed]
        filters = [Filter(field=f, op=op, values=tuple(v)) for (f, op), v in merged.items()]  # type: ignore[arg-type]
        filters += [Filter(field=f, op=op, values=(v,)) for f, op, v in self._values("threshold")]
        if len(filters) > MAX_FILTERS or any(len(f.values) > MAX_VALUES for f in filters):
            raise _Doubt("more conditions than an intent can hold")
        return filters

    def _period(self) -> str:
        told: list[Period] = self._values("period")
        dated = [p for p in told if p.wire != "all"]
        if not dated:
            return "all"
        narrow = min(dated, key=lambda p: p.end - p.start)
        if narrow.wire is None or any(p.start > narrow.start or p.end < narrow.end for p in dated):
            raise _Doubt("the periods named are no one stretch of time")
        return narrow.wire

    def _direction(self, said: str | None, metric: str | None) -> Any:
        """`best` and `worst` follow what is good for `metric`."""
        if said in ("best", "worst"):
            known = self.catalog.metrics.get(metric or "")
            good = known.good if known else "high"
            return "desc" if (good == "high") == (said == "best") else "asc"
        return said

    def _sort(self, kind: str, metrics: list[str], dimensions: list[str]) -> Sort | None:
        if self.ranked and (kind == "top_n_by_metric" or self.bucket):
            by = self._rank_metric() or metrics[0]
            return Sort(by=by, direction=self._direction(self._last("rank") or "desc", by))
        told = self._last("sort")
        if told is None:
            return None
        key, said = told
        if said in ("name", "rname"):
            key = key or (dimensions[0] if dimensions else None)
            return Sort(by=key, direction="asc" if said == "name" else "desc") if key else None
        key = key or metrics[0]
        default = "asc" if key in self.catalog.dimensions else "desc"
        return Sort(by=key, direction=self._direction(said or default, key))

    def _limit(self, kind: str) -> int | None:
        told = [f for f in self.facts if f.slot == "limit"]
        stated = [f.value for f in told if f.rule != "ranking default"] or [f.value for f in told]
        limit = stated[-1] if stated else None
        if limit is not None and not 1 <= limit <= MAX_LIMIT:
            raise _Doubt(f"a limit of {limit} is out of range")
        return limit
