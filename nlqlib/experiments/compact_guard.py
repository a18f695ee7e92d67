"""What was lost is asked again: a request that failed and may succeed next time leaves no retained point."""

from collections.abc import Collection, Iterable

from nlqlib.records import ANSWERED

REFUSED = frozenset({"http_4xx", "context_overflow"})
"""The endpoint's word on a request: asked again it says the same."""
BROKEN = REFUSED | {"http_5xx"}
"""Besides, what a server may always answer to a field that it cannot work with."""


def keep_nothing_lost(
    outcomes: Iterable[tuple[str, str | None]], what: str, lasting: Collection[str] = REFUSED
) -> None:
    """Do nothing where the (outcome, reason) of every request may be retained.

    Raises `RuntimeError` where one failed in another way than those that are `lasting`, and where not one was
    answered: nothing is retained then, and the next run asks again.
    """
    found = list(outcomes)
    failed = [(outcome, reason) for outcome, reason in found if outcome not in ANSWERED]
    lost = [one for one in failed if one[0] not in lasting]
    if not failed or (not lost and len(failed) < len(found)):
        return
    outcome, reason = (lost or failed)[0]
    raise RuntimeError(
        f"{what}: {len(failed)} of {len(found)} requests failed ({outcome}: {reason or 'no reason given'}); "
        "nothing was retained: see to the endpoint and run again"
    )
