"""Where request time goes: arms on the twin and behind a gateway, their terms and their closure."""

from dataclasses import replace
from pathlib import Path

import pytest
from arm_records import ALONE, arm
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import decomposition, decomposition_article, decomposition_bars
from nlqlib.experiments import decomposition_closure as closure
from nlqlib.experiments import decomposition_page as page
from nlqlib.experiments.arm import Arm, at, spec
from nlqlib.experiments.arm import arm as varied
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import levels
from nlqlib.serving.target import open_target

PARAMS = {"loads": [], "n_requests": 0, "seed": 0}


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Study:
    store = Store(tmp_path_factory.mktemp("store"))
    return Study("07_latency_decomposition", open_target("twin"), "full", "wire", store)


@pytest.fixture
def local(tmp_path: Path) -> Study:
    return Study("07_latency_decomposition", open_target("local"), "quick", "wire", Store(tmp_path))


@pytest.fixture(scope="module")
def alone(twin: Study) -> Record:
    return decomposition.alone(twin, n=8)


@pytest.fixture(scope="module")
def streamed(twin: Study) -> Record:
    return decomposition.streamed(twin, n=6)[0]


@pytest.fixture(scope="module")
def gateway(twin: Study) -> Record:
    return decomposition.gateway(twin, n=32)[0]


def texts(figure: Figure) -> str:
    return " | ".join(t.get_text() for ax in figure.axes for t in ax.texts)


# ---- measured on the twin --------------------------------------------------------------------------------


def test_the_terms_close_and_the_residual_is_the_twins_own_setting(alone: Record) -> None:
    found, whole = page.terms(alone), page.total_s(alone)
    assert whole is not None
    assert sum(v or 0.0 for v in found.values()) == pytest.approx(whole, rel=1e-9)
    assert found["residual"] == pytest.approx(0.0675, abs=1e-6)
    assert found["engine intake"] == pytest.approx(0.0025, abs=1e-6)
    assert closure.outside_s(alone) == pytest.approx(0.0675, abs=1e-6)
    assert closure.by_difference(alone).ok is True


def test_a_twin_without_a_gateway_has_no_admission_queues(alone: Record) -> None:
    assert list(page.terms(alone)) == ["engine intake", "engine queue", "prefill", "decode", "residual"]
    assert page.terms_table([alone]).loc["alone", "router queue (ms)"] == "none"


def test_a_streaming_client_sees_its_first_token_a_way_later_than_the_engine(streamed: Record) -> None:
    client, engine = streamed.value("client_ttft", "mean"), streamed.value("ttft", "mean")
    assert client is not None and engine is not None
    assert client - engine == pytest.approx(0.0675, abs=1e-6)
    assert streamed.value("client_tpot", "mean") == pytest.approx(streamed.value("itl", "mean"), rel=1e-6)
    assert "alone, streamed" in page.first_token_sentence([streamed])


def test_the_gateways_queues_hold_the_time_that_the_limits_cost(gateway: Record) -> None:
    found, whole = page.terms(gateway), page.total_s(gateway)
    queued = (found["router queue"] or 0.0) + (found["replica queue"] or 0.0)
    assert whole is not None and queued > 0.3 * whole
    assert found["residual"] == pytest.approx(0.0675, abs=1e-3)
    assert (found["engine queue"] or 0.0) < 0.05
    assert closure.by_difference(gateway).ok is True
    assert "nothing queues" in page.gateway_sentence([gateway])


def test_every_request_is_kept_with_its_first_token(streamed: Record) -> None:
    rows = streamed.samples()
    assert len(rows) == 6
    assert all(r["start_s"] < r["first_token_s"] < r["end_s"] for r in rows)


def test_a_second_run_reuses_the_arms(twin: Study, alone: Record) -> None:
    assert decomposition.alone(twin, n=8).reused


# ---- what is planned -------------------------------------------------------------------------------------


def test_a_full_run_on_the_twin_has_every_arm(twin: Study) -> None:
    names = [s.name for _, s in decomposition.points(twin, PARAMS)]
    assert names == [
        *("alone-n01", "load-n08", "load-n16", "load-n32"),
        *("streamed-n01", "streamed-n16", "gateway-n16"),
    ]


def test_a_quick_run_on_a_real_engine_is_short_and_cuts_its_answers(local: Study) -> None:
    wanted = [
        *decomposition.alone_arms(local, 0, 0),
        *decomposition.load_arms(local, (), 0, 0),
        *decomposition.streamed_arms(local, 0, 0),
        *decomposition.gateway_arms(local, 0, 0),
    ]
    assert [(a.concurrency, a.requests) for a in wanted] == [(1, 4), (4, 8), (16, 32), (1, 4), (4, 8), (4, 8)]
    assert {a.output_tokens for a in wanted} == {16}
    assert not local.target.connected


def test_no_gateway_where_the_limits_are_not_ours(tmp_path: Path) -> None:
    target = replace(open_target("twin"), kind="url", can=frozenset())
    study = Study("07_latency_decomposition", target, "full", "wire", Store(tmp_path))
    assert decomposition.gateway_arms(study, 0, 0) == []
    assert "not ours to set" in page.gateway_sentence([])


def test_an_arm_declares_what_varies(twin: Study) -> None:
    plain = levels(twin, "x", (4,), n=8)[0]
    limited = varied(plain, router=3, replica=2)
    assert at(twin, limited).target.declared["admission"] == {"router": 3, "replica": 2}
    assert twin.key(spec(limited)) != twin.key(spec(varied(plain)))
    assert spec(varied(plain, unshared=True)).requests == 8
    assert isinstance(limited, Arm) and limited.limited


# ---- tables and sentences --------------------------------------------------------------------------------


def test_a_term_that_was_not_seen_is_a_dash_and_named() -> None:
    blind = arm(8, {"router queue": None, "engine queue": 0.02, "prefill": 0.03, "decode": None}, 3.5, None)
    row = page.terms_table([blind]).loc["8 in flight"]
    assert row["decode (ms)"] == row["router queue (ms)"] == "—"
    assert row["replica queue (ms)"] == "none"
    assert "Not observable here: router queue, decode" in page.missing([blind])
    assert "cannot be told" in closure.closure_sentence([blind, arm()], _twin())


def test_an_engine_without_timers_closes_nothing() -> None:
    blind = arm(1, {"engine queue": None, "prefill": None, "decode": None}, 3.2, None)
    assert closure.closure_sentence([blind], _twin()).startswith("The engine shows no timers")
    assert "does not say" in page.terms_sentence([blind])
    assert "cannot be checked" in page.arithmetic_sentence([blind])
    assert closure.closure_table([blind]).loc["alone", "closes by timers"] == "cannot tell"


def test_tokens_times_gap_of_the_article_and_of_an_arm() -> None:
    table = page.arithmetic_table([arm(output_tokens=116, itl=0.027, decode=3.105)], _twin())
    # 115 x 27.2 = 3,128 and 114 x 27.2 = 3,100.8, of 3,110
    assert list(table.loc["article, alone"])[2:] == ["3,128", "3,101", "3,110", "0.997"]
    assert table.loc["alone", "(tokens − 1) × gap / decode"] == "1.000"


def test_arms_are_named_by_what_varies() -> None:
    assert page.name(arm(16, settings={"router": 12, "replica": 8})) == "16 behind limits 12/8"
    assert page.name(arm(16, settings={"stream": True})) == "16 in flight, streamed"
    assert page.name(arm(1)) == "alone"


def test_bars_name_their_terms_the_article_and_the_target() -> None:
    figure = decomposition_bars.bars_figure([arm(), arm(32, total_s=4.6)], _twin())
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels == ["article, alone", "alone", "32 in flight"]
    assert "decode\n3.11 s" in texts(figure)
    assert "residual 86 ms" in texts(figure)
    assert plots.png(figure).startswith(b"\x89PNG")


def test_the_articles_bar_is_left_out_where_it_does_not_compare(local: Study) -> None:
    figure = decomposition_bars.bars_figure([arm()], local)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["alone"]


# ---- the article -----------------------------------------------------------------------------------------


def test_every_claim_of_the_page_is_judged_once(alone: Record, twin: Study) -> None:
    table = decomposition_article.against_article(alone, twin)
    wanted = {c.id for c in article.claims() if c.notebook == "07_latency_decomposition"}
    assert sorted(table["claim"]) == sorted(wanted)


def test_fitted_rows_are_those_of_the_twins_document(alone: Record, twin: Study) -> None:
    table = decomposition_article.against_article(alone, twin).set_index("claim")
    tags = table["tag"].str.removeprefix("decomposition.")
    assert {c for c, t in tags.items() if t == "fitted"} == {
        *("decomposition.prefill", "decomposition.itl", "decomposition.token_rate"),
        *("decomposition.ttft", "decomposition.share.ttft"),
    }
    assert tags["decomposition.decode"] == tags["decomposition.e2e"] == "predicted"
    assert tags["decomposition.queue"] == "by construction"
    assert set(table["verdict"]) == {"reproduced", "not comparable"}


def test_the_articles_rows_add_up_inside_its_engine() -> None:
    sentence = decomposition_article.article_sentence(_twin())
    assert "3,144 of its 3,145 ms" in sentence
    assert "86 ms above" in sentence
    found = decomposition_article.article_terms()
    assert found["decode"] == ALONE["decode"]


def _twin() -> Study:
    return Study("07_latency_decomposition", open_target("twin"), "full", "wire", Store(Path("unused")))
