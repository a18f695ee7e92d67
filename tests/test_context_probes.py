"""The edge of the window: refused before generation, shortened silently, and told apart."""

from pathlib import Path

import pytest
from context_world import answer, endpoint_study, point, twin_study

from nlqlib import tokens
from nlqlib.artifacts import Record
from nlqlib.experiments import context_page as page
from nlqlib.experiments import context_probes as probes
from nlqlib.experiments.context_caps import questions
from nlqlib.experiments.context_probes import Probe, Probing, behaviour, fate
from nlqlib.experiments.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return twin_study(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def refusing(study: Study) -> Record:
    return probes.measure(study, Probing(4096, 4096))


@pytest.fixture(scope="module")
def shortening(study: Study) -> Record:
    return probes.measure(study, Probing(4096, 4096, clamping=True))


@pytest.fixture(scope="module")
def larger(study: Study) -> Record:
    return probes.measure(study, Probing(8192, 4096))


def fates(record: Record) -> dict[str, str]:
    return {r["name"]: fate(r, int(record.params["window"])) for r in record.samples()}


def test_vllm_012_refuses_what_does_not_fit_before_it_generates(refusing: Record) -> None:
    assert fates(refusing) == {
        "fills the window": "answered",
        "one token too many": "refused",
        "room for 6 tokens": "refused",
        "prompt too long by itself": "refused",
    }
    lost = [r for r in refusing.samples() if r["outcome"] == "context_overflow"]
    assert all(r["http_status"] == 400 and r["output_tokens"] is None for r in lost)
    assert behaviour([refusing]) == "refuses"
    assert page.overflow_status([refusing], 4096) == 400


def test_vllm_032_shortens_and_only_an_answer_at_the_end_of_the_window_shows_it(shortening: Record) -> None:
    assert fates(shortening) == {
        "fills the window": "answered",
        "one token too many": "hidden",
        "room for 6 tokens": "clamped",
        "prompt too long by itself": "refused",
    }
    row = next(r for r in shortening.samples() if r["clamped"])
    assert (row["outcome"], row["finish_reason"]) == ("length", "length")
    assert (row["output_tokens"], row["max_tokens"]) == (6, 16)
    assert "clamped by the server" in row["note"]
    assert behaviour([shortening]) == "shortens"


def test_a_larger_window_answers_all_of_them(larger: Record) -> None:
    assert set(fates(larger).values()) <= {"answered", "cut"}
    assert "context_overflow" not in larger.requests
    assert behaviour([larger]) == "cannot tell"


def test_both_kinds_of_engine_are_points_of_their_own(refusing: Record, shortening: Record) -> None:
    assert refusing.body["fingerprint"] != shortening.body["fingerprint"]
    assert shortening.body["identity"]["engine_version"] == "0.32.0"


def test_cut_and_refused_answers_never_count_as_good(refusing: Record, shortening: Record) -> None:
    assert refusing.requests == {"total": 4, "ok": 1, "context_overflow": 3}
    assert shortening.requests == {"total": 4, "ok": 2, "length": 1, "context_overflow": 1}


@pytest.mark.parametrize("probe", Probing(4096, 4096).probes)
def test_a_prompt_has_just_as_many_tokens_as_its_probe_says(study: Study, probe: Probe) -> None:
    [short] = questions(study, 1)
    made = probes.request(short, probe)
    assert tokens.count_chat(made.messages) == probe.prompt_tokens
    assert made.messages[0] == short.messages[0]
    assert made.messages[1]["content"].endswith(short.messages[1]["content"])


def test_a_prompt_that_is_longer_than_asked_for_is_refused(study: Study) -> None:
    [short] = questions(study, 1)
    with pytest.raises(ValueError, match="larger window"):
        probes.request(short, Probe("short", 100, 16))


def test_a_quick_run_leaves_out_what_costs_answers_and_shows_nothing_new() -> None:
    names = [[p.name for p in Probing(w, 4096, quick=True).probes] for w in (4096, 8192)]
    assert names[0] == ["one token too many", "room for 6 tokens", "prompt too long by itself"]
    assert names[1] == ["room for 6 tokens", "prompt too long by itself"]


def test_an_endpoint_that_is_not_ours_is_probed_as_it_is(tmp_path: Path) -> None:
    found = probes.measure(endpoint_study(tmp_path, 4096), Probing(4096, 4096))
    assert behaviour([found]) == "refuses"


def test_another_failure_keeps_its_own_name() -> None:
    row = answer("x", "http_5xx", None, name="x", prompt_tokens=4000, max_tokens=512)
    assert fate(row, 4096) == "http_5xx"
    made = point([row], window=4096, clamping=False)
    assert behaviour([made]) == "cannot tell"
    assert page.probes_table([made]).iloc[0]["which is"] == "http_5xx"


def test_the_table_names_every_fate_and_its_engine(refusing: Record, shortening: Record) -> None:
    table = page.probes_table([refusing, shortening])
    assert list(dict.fromkeys(table.index)) == ["window 4,096, as 0.12", "window 4,096, as 0.32.0"]
    assert "6 of 16" in list(table["output tokens"])
    assert list(table["prompt + max_tokens − window"])[:2] == ["+0", "+1"]
    text = page.probes_sentence([refusing, shortening])
    assert "refuses what fits only in part" in text and "shortens max_tokens without a word" in text
    assert page.probes_sentence([]) == "No probe was sent."


def test_the_articles_400_is_by_construction_on_the_twin(study: Study, refusing: Record) -> None:
    [row] = page.against_article([refusing], study, 4096).to_dict("records")
    assert row["verdict"] == "not comparable" and "by construction" in row["reason"]
    assert page.overflow_status([], 4096) is None
