"""What changed between two scrapes: the arithmetic of `window`, over every series of every page."""

from collections.abc import Iterable, Mapping

from nlqlib.analysis.continuity import Pairs
from nlqlib.analysis.exposition import Exposition, Labels
from nlqlib.analysis.histogram import Histogram, buckets_of, differences, pooled
from nlqlib.metric_names import QUANTITIES


def _base(before: Exposition, after: Exposition, key: str) -> str | None:
    """The newest name under which both pages hold the quantity."""
    quantity = QUANTITIES[key]
    both = (
        base
        for base, sample in zip(quantity.bases, quantity.samples, strict=True)
        if sample in before.samples and sample in after.samples
    )
    return next(both, None)


def _increase(before: Mapping[Labels, float], after: Mapping[Labels, float]) -> float:
    """Over all series; one that is new since began at 0."""
    return sum(value - before.get(labels, 0.0) for labels, value in after.items())


def counter(pairs: Pairs, key: str) -> float | None:
    """How far a counter rose, all engines and URLs together; `None` where a page lacks it."""
    bases = [_base(before, after, key) for before, after in pairs]
    if None in bases:
        return None
    return sum(
        _increase(before.values(f"{base}_total"), after.values(f"{base}_total"))
        for (before, after), base in zip(pairs, bases, strict=True)
    )


def histogram(pairs: Pairs, key: str) -> Histogram | None:
    """What a histogram observed, all engines and URLs pooled; `None` where a page lacks it."""
    bases = [_base(before, after, key) for before, after in pairs]
    if None in bases:
        return None
    parts = [_parts(*pair, str(base)) for pair, base in zip(pairs, bases, strict=True)]
    return None if None in parts else pooled([part for found in parts for part in found or ()])


def _parts(before: Exposition, after: Exposition, base: str) -> list[Histogram] | None:
    """The increase of each series of one histogram on one page; `None` where a sum is not there."""
    old, new = buckets_of(before.values(f"{base}_bucket")), buckets_of(after.values(f"{base}_bucket"))
    counts, sums = after.values(f"{base}_count"), after.values(f"{base}_sum")
    counted, summed = before.values(f"{base}_count"), before.values(f"{base}_sum")
    if not counts.keys() <= sums.keys():
        return None
    return [
        Histogram(
            count - counted.get(labels, 0.0),
            sums[labels] - summed.get(labels, 0.0),
            differences(new.get(labels, {}), old.get(labels, {})),
        )
        for labels, count in counts.items()
    ]


def gauges(pairs: Pairs) -> dict[str, float | int | None]:
    """Gauges of the later pages, by `Window`'s names: sums, and of the share `kv_usage` the mean."""
    pages = [after for _, after in pairs]
    usage = _values(pages, "kv_usage")
    return {
        "running": _sum(_values(pages, "running")),
        "waiting": _sum(_values(pages, "waiting")),
        "kv_usage": None if not usage else sum(usage) / len(usage),
        **_kv_cache(pages),
    }


def _sum(values: list[float] | None) -> float | None:
    return None if values is None else sum(values)


def _values(pages: Iterable[Exposition], key: str) -> list[float] | None:
    """Every series of a gauge; `None` where a page lacks it."""
    found = [page.gauge(key) for page in pages]
    return None if None in found else [v for of in found if of is not None for v in of.values()]


def _kv_cache(pages: Iterable[Exposition]) -> dict[str, int | None]:
    """Number and size of KV blocks, from the labels of `cache_config_info`."""
    found = [dict(labels) for page in pages for labels in page.gauge("cache_config") or {}]
    counts = [_whole(labels.get("num_gpu_blocks")) for labels in found]
    sizes = {_whole(labels.get("block_size")) for labels in found}
    known = [n for n in counts if n is not None]
    return {
        "blocks": sum(known) if known and len(known) == len(counts) else None,
        "block_size": sizes.pop() if len(sizes) == 1 else None,
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
