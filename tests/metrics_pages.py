"""Builds metrics pages as vLLM writes them, from a few values."""

from collections.abc import Mapping, Sequence

from nlqlib.analysis.window import Scrape, Window, scrape_of, window

PHASE_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 60.0)


def labels(engine: str | None = "0", model: str | None = "m", **more: str) -> str:
    """`{…}` with vLLM's own two labels, or without the one that is `None`."""
    found = {"engine": engine, "model_name": model, **more}
    inner = ",".join(f'{k}="{v}"' for k, v in sorted(found.items()) if v is not None)
    return f"{{{inner}}}" if inner else ""


def gauge(name: str, value: object, engine: str | None = "0", **more: str) -> str:
    return f"# TYPE {name} gauge\n{name}{labels(engine, **more)} {value}\n"


def counter(name: str, value: object, engine: str | None = "0", created: float = 1.75e9, **more: str) -> str:
    """`name` without `_total`, and the time of its creation beside it."""
    here = labels(engine, **more)
    return (
        f"# TYPE {name}_total counter\n{name}_total{here} {value}\n"
        f"# TYPE {name}_created gauge\n{name}_created{here} {created!r}\n"
    )


def histogram(
    name: str, values: Sequence[float], engine: str | None = "0", bounds: Sequence[float] = PHASE_BOUNDS
) -> str:
    """A histogram that observed `values`."""
    text = f"# TYPE {name} histogram\n"
    for bound in (*bounds, float("inf")):
        le = "+Inf" if bound == float("inf") else str(bound)
        text += f"{name}_bucket{labels(engine, le=le)} {sum(v <= bound for v in values)}\n"
    return text + f"{name}_sum{labels(engine)} {sum(values)}\n{name}_count{labels(engine)} {len(values)}\n"


def start_time(value: float = 1.75e9) -> str:
    return f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {value!r}\n"


def scrape(at_s: float, *pages: str) -> Scrape:
    return scrape_of(pages, at_s)


def between(before: str, after: str, elapsed: float = 60.0) -> Window:
    """The window between two pages of one URL."""
    return window(scrape(0.0, before), scrape(elapsed, after))


def failed(found: Window) -> Mapping[str, object]:
    """Rules that failed, with what they found."""
    return {rule.rule: rule.value for rule in found.rules if rule.ok is False}
