"""Pages 08 and 10 as their notebooks make them, on endpoints that show no metrics and refuse request fields.

Each ends, says what cannot be observed there, and shows no number that rests on requests which failed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from refusing_world import Page, RefusingServer, opened, run

from nlqlib.artifacts import Record
from nlqlib.experiments import prefix_page
from nlqlib.experiments.prefix_sending import sent
from nlqlib.experiments.study import Profile

CASES: dict[str, tuple[RefusingServer, Profile]] = {
    "no metrics": (RefusingServer(), "full"),
    "no cache_salt": (RefusingServer(refuses=frozenset({"cache_salt"})), "full"),
    "no field of its own": (RefusingServer(strict=True), "quick"),
}
STRICT = "no field of its own"
pytestmark = pytest.mark.filterwarnings("error::UserWarning")


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def prefixes(case: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from _page("08_prefix_cache", case, tmp_path_factory.mktemp("prefix"), n_requests=3)


@pytest.fixture(scope="module")
def budgets(case: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("budget")
    server, _ = CASES[
        case
    ]  # the full profile, as is usual of an endpoint: the quick one asks for `ignore_eos`
    study = opened("10_context_budget", server, folder)
    with pytest.MonkeyPatch.context() as patch:
        yield run("10_context_budget", study, patch, n_requests=4, swept=[1, 2], deployed=4096)


def _page(notebook: str, case: str, folder: Path, **params: object) -> Iterator[Page]:
    server, profile = CASES[case]
    with pytest.MonkeyPatch.context() as patch:
        yield run(notebook, opened(notebook, server, folder, profile), patch, **params)


def cells(page: Page) -> list[Record]:
    return list(page.names["records"])


def unset(text: str) -> list[str]:
    """Words that a missing value leaves where nobody formatted it."""
    return re.findall(r"\b(?:nan|NaN|inf|NaT)\b", text)


# ---- 08 --------------------------------------------------------------------------------------------------


def test_page_08_ends_and_says_what_is_not_observable(case: str, prefixes: Page) -> None:
    assert len(prefixes.tables) == 8 and len(prefixes.alts) == 3
    assert prefixes.text.count("not observable here") >= 5
    assert "Set METRICS_URL" in prefixes.text
    assert not unset(prefixes.text)


def test_page_08_answers_every_request_by_leaving_out_what_is_refused(case: str, prefixes: Page) -> None:
    refused = {
        "no metrics": (),
        "no cache_salt": ("cache_salt",),
        STRICT: ("cache_salt", "ignore_eos"),
    }[case]
    for record in cells(prefixes):
        assert sent(record).refused == refused
        assert record.requests["ok"] == record.requests["total"] == 3
    said = " ".join(prefixes.sentences)
    assert [name for name in refused if f"`{name}`" not in said] == []
    assert ("No schema is enforced here" in said) is (case == STRICT)


def test_page_08_shows_the_clients_latency_and_none_of_the_servers(case: str, prefixes: Page) -> None:
    table = prefix_page.latency_table(prefixes.names["cells"])
    assert set(table["failed"]) == {"0"}
    assert (pd.to_numeric(table["client p50 (ms)"].str.replace(",", "")) > 0).all()
    unseen = ["prefix hit", "computed tokens", "TTFT (ms)", "prefill (ms)", "decode (ms)", "ITL (ms)"]
    assert set(table[unseen].to_numpy().ravel()) == {"—"}


def test_page_08_plans_what_cannot_be_counted(case: str, prefixes: Page) -> None:
    rates = prefixes.names["rates"]
    assert set(rates["equal"]) == {"not observable here"} and set(rates["hit rate, counted"]) == {"—"}
    assert rates.loc["cold cache", "hit rate, planned"] == "0.00%"


# ---- 10 --------------------------------------------------------------------------------------------------


def test_page_10_ends_and_says_what_is_not_observable(case: str, budgets: Page) -> None:
    assert len(budgets.alts) == 2
    assert "not observable here: the window of this endpoint is not ours to set" in budgets.text
    assert "how many full windows fit is not observable" in budgets.text
    assert not unset(budgets.text)


def test_page_10_takes_no_latency_from_failures(case: str, budgets: Page) -> None:
    for record in (*budgets.names["capped"], *budgets.names["swept_levels"]):
        if not record.requests["ok"]:
            assert record.value("e2e_latency", "p50") is None
            assert record.value("throughput_run", "mean") is None


def test_page_10_reads_valid_answers_where_its_fields_are_taken(case: str, budgets: Page) -> None:
    largest = max(budgets.names["capped"], key=lambda r: int(r.params["max_tokens"]))
    answered = largest.requests["ok"] == largest.requests["total"]
    assert answered is (budgets.names["max_tokens"] is not None) is (case != STRICT)


def test_page_10_measures_nothing_where_nobody_says_which_window_is_deployed(tmp_path: Path) -> None:
    study = opened("10_context_budget", RefusingServer(strict=True), tmp_path, "quick")
    with pytest.MonkeyPatch.context() as patch:
        page = run("10_context_budget", study, patch, swept=[1], n_requests=2)
    assert page.names["swept_levels"] == [] and not unset(page.text)
    assert "not observable here: the window of this endpoint is not ours to set" in page.text
