"""The text of `/metrics`, read: samples by exact name, each with its labels.

A `Scrape` is what every metrics page of an endpoint said at one time. Reading is exact: a name is the whole
name, a value that was not on the page is missing and never 0.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from prometheus_client.parser import text_string_to_metric_families

from nlqlib.metric_names import QUANTITIES, Quantity, is_of_vllm

Labels = tuple[tuple[str, str], ...]
"""Name and value of each label, sorted."""
NO_ENGINE = ""
"""The engine of a page that names none."""


class ExpositionError(ValueError):
    """The text is no metrics page; says what it looks like instead."""


@dataclass(frozen=True)
class Exposition:
    """One page: `samples[name][labels]` is a value, in the page's own unit."""

    samples: Mapping[str, Mapping[Labels, float]]

    def values(self, name: str) -> Mapping[Labels, float]:
        """Every series of the sample called exactly `name`; empty where there is none."""
        return self.samples.get(name, {})

    def base(self, quantity: Quantity) -> str | None:
        """The name under which this page holds `quantity`, the newest where there are two."""
        present = (b for b, s in zip(quantity.bases, quantity.samples, strict=True) if s in self.samples)
        return next(present, None)

    def gauge(self, key: str) -> Mapping[Labels, float] | None:
        """The series of a gauge or info metric, by its key in `metric_names`; `None`: missing."""
        base = self.base(QUANTITIES[key])
        return None if base is None else self.values(base)

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """The `engine` labels of vLLM's own series, sorted; one without a name where they have none."""
        return self._named("engine") or (NO_ENGINE,)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models whose series are here, sorted."""
        return self._named("model_name")

    def _named(self, label: str) -> tuple[str, ...]:
        ours = (of for name, of in self.samples.items() if is_of_vllm(name))
        return tuple(sorted({_label(labels, label) for of in ours for labels in of} - {""}))

    @property
    def has_vllm(self) -> bool:
        """Whether any sample comes from vLLM."""
        return any(is_of_vllm(name) for name in self.samples)

    def only(self, engine: str) -> "Exposition":
        """The page without the series of other engines; series without an engine stay."""
        wanted = (engine, NO_ENGINE)
        kept = {
            name: {labels: v for labels, v in of.items() if _label(labels, "engine") in wanted}
            for name, of in self.samples.items()
        }
        return Exposition({name: of for name, of in kept.items() if of})


def parse(text: str) -> Exposition:
    """The page `text`. Raises `ExpositionError` where it is none."""
    start = text.lstrip()[:1]
    if start in ("<", "{", "["):
        what = "HTML" if start == "<" else "JSON"
        raise ExpositionError(f"this is {what}, not a metrics page: is it the /metrics of the engine?")
    samples: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                samples.setdefault(sample.name, {})[labels] = float(sample.value)
    except ValueError as problem:
        raise ExpositionError(
            f"this is no metrics page, or only a part of one ({str(problem)[:80]}): save the whole page"
        ) from None
    return Exposition(samples)


@dataclass(frozen=True)
class Page:
    """What one metrics URL answered: its text, or why there is none."""

    text: str | None
    problem: str | None = None
    """Without host and key, for people."""

    @cached_property
    def exposition(self) -> Exposition | None:
        """The page read; `None` where there is none, or it cannot be read (see `reason`)."""
        return self._read[0]

    @property
    def reason(self) -> str | None:
        """Why `exposition` is `None`, or holds nothing of vLLM's."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Exposition | None, str | None]:
        if self.text is None:
            return None, self.problem or "no page"
        if not self.text.strip():
            return None, "the page is empty"
        try:
            found = parse(self.text)
        except ExpositionError as problem:
            return None, str(problem)
        if not found.has_vllm:
            return None, "the page holds no metric of vLLM: is it the engine's own /metrics?"
        return found, None


@dataclass(frozen=True)
class Scrape:
    """Every metrics page of an endpoint at one time."""

    at_s: float
    """Seconds of the loop that read it; only differences mean anything."""
    pages: tuple[Page, ...]
    """One per URL, in the order of the URLs; empty where the endpoint has no metrics."""

    @property
    def texts(self) -> tuple[str | None, ...]:
        """The raw text of each page."""
        return tuple(page.text for page in self.pages)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why pages cannot be used, numbered where there are several; empty when all can."""
        if not self.pages:
            return ("no metrics URL is known: set METRICS_URL",)
        several = len(self.pages) > 1
        numbered = ((f"page {n}: " if several else "", p) for n, p in enumerate(self.pages, 1))
        return tuple(f"{prefix}{page.reason}" for prefix, page in numbered if page.reason)

    @property
    def expositions(self) -> tuple[Exposition, ...] | None:
        """Every page read; `None` where one is missing, since a part of a sum is no sum."""
        found = tuple(page.exposition for page in self.pages)
        return None if not found or None in found else found  # type: ignore[return-value]

    def raw(self, name: str) -> dict[str, bytes]:
        """The texts to be retained under `name` (`before`), numbered where there are several pages."""
        texts = [t for t in self.texts if t is not None]
        names = [name] if len(self.pages) == 1 else [f"{name}-{n}" for n in range(len(texts))]
        return {n: t.encode("utf-8", "surrogateescape") for n, t in zip(names, texts, strict=True)}


def scrape_of(texts: Iterable[str], at_s: float) -> Scrape:
    """A scrape from texts that are already here, read at `at_s` seconds."""
    return Scrape(at_s, tuple(Page(text) for text in texts))


def finite(value: float) -> bool:
    """Whether `value` is a number: neither NaN nor infinite."""
    return math.isfinite(value)


def _label(labels: Labels, name: str) -> str:
    return next((value for key, value in labels if key == name), "")
