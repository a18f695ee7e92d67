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
from nlqlib.experiments import context, context_page, prefix_page
from nlqlib.experiments import context_window_page as window_page
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


def test_page_10_answers_by_a_contract_that_the_endpoint_takes(case: str, budgets: Page) -> None:
    said = "No schema is enforced here" if case == STRICT else "asked for by `structured_outputs`"
    assert said in budgets.text
    for record in (*budgets.names["capped"], *budgets.names["swept_levels"]):
        assert record.requests["ok"] + record.requests.get("length", 0) == record.requests["total"]
    largest = max(budgets.names["capped"], key=lambda r: int(r.params["max_tokens"]))
    assert largest.requests["ok"] == largest.requests["total"]
    assert budgets.names["max_tokens"] is not None


def test_page_10_sees_what_does_not_fit_refused(case: str, budgets: Page) -> None:
    assert context_page.overflow_status(budgets.names["probes"], 4096) == 400
    assert "refuses what fits only in part" in budgets.text


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Page 10 where every request that asks for a schema failed, as it was once retained."""
    study = opened(
        "10_context_budget", RefusingServer(strict=True), tmp_path_factory.mktemp("failures"), "quick"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "asking", lambda study, design: study)
        yield run("10_context_budget", study, patch, n_requests=4, swept=[1, 2], deployed=4096)


def test_page_10_takes_no_number_from_failures(failures: Page) -> None:
    assert all(r.requests["ok"] == 0 for r in (*failures.names["capped"], *failures.names["swept_levels"]))
    table = context_page.caps_table(failures.names["capped"])
    unseen = ["share cut", "95 % interval", "tokens for nothing", "seconds for nothing", "p50 of valid (s)"]
    assert set(table[unseen].to_numpy().ravel()) == {"—"}
    assert "what a limit cuts is not observable here" in failures.text
    assert "what a limit would cut is not observable here" in failures.text
    swept = window_page.sweep_table(failures.names["found"])[["X run (req/s)", "mean (s)", "p95 (s)"]]
    assert set(swept.to_numpy().ravel()) == {"—"}
    assert not unset(failures.text)


def test_a_refused_field_is_no_refused_window(failures: Page) -> None:
    assert context_page.overflow_status(failures.names["probes"], 4096) is None
    assert "refuses what fits only in part" not in failures.text
    assert "gave no answer to what fits only in part that would tell" in failures.text


def test_page_10_measures_nothing_where_nobody_says_which_window_is_deployed(tmp_path: Path) -> None:
    study = opened("10_context_budget", RefusingServer(strict=True), tmp_path, "quick")
    with pytest.MonkeyPatch.context() as patch:
        page = run("10_context_budget", study, patch, swept=[1], n_requests=2)
    assert page.names["swept_levels"] == [] and not unset(page.text)
    assert "not observable here: the window of this endpoint is not ours to set" in page.text
