"""What each set of questions counts as: read from the log of looks, and never more than the log bears out."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nlqlib import article, paths
from nlqlib.experiments import heldout_sets, heldout_standing
from nlqlib.experiments.heldout_sets import standing

HEAD = "| date | set | SHA-256 | event | read before rules changed |\n|---|---|---|---|---|\n"
ROW = re.compile(r"^\| `(\w+)\.jsonl` \| (\d+) \|.*\| ([^|]+?) \|$", re.MULTILINE)
LOGGED = (paths.QUESTIONS / "README.md").read_text("utf-8")
Log = Callable[[str], None]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Write a log of looks beside copies of the sets."""
    for path in paths.QUESTIONS.glob("*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(paths, "QUESTIONS", tmp_path)

    def write(rows: str) -> None:
        (tmp_path / "README.md").write_text(HEAD + rows, encoding="utf-8")

    return write


def hashed(name: str) -> str:
    """The first line of a log of the set `name`, with the hash of its file."""
    [digest] = re.findall(rf"\| {name} \| `([0-9a-f]{{64}})`", LOGGED)
    return f"| 2026-11-30 | {name} | `{digest}` | written | — |\n"


# --- the log as it is ---


def test_a_set_of_which_questions_were_read_before_rules_changed_is_development_as_a_whole() -> None:
    for name, read in (("holdout", 1), ("adversarial", 3)):
        told = standing(name)
        assert told.development and not told.held_out and told.read == read
        assert told.since == "2026-11-30" and not told.chosen_on
        assert told.words.startswith("development since 2026-11-30") and "rules changed" in told.words
        assert told.unchanged and told.looks, "its file is the one that was written, and every look is logged"


def test_choosing_is_another_matter_than_standing() -> None:
    assert frozenset({"dev"}) == heldout_sets.CHOSEN_ON
    assert standing("dev").chosen_on and standing("dev").unchanged is None
    assert not heldout_sets.CHOSEN_ON & set(heldout_sets.GATES)


def test_the_gates_are_the_articles_where_it_has_one() -> None:
    assert article.claim("gate").value == heldout_sets.ARTICLES_GATE == 0.90
    assert dict(heldout_sets.GATES) == {"holdout": 0.90, "adversarial": 0.85, "unseen": 0.90}


def test_the_table_of_the_questions_says_what_the_log_says() -> None:
    rows = ROW.findall((paths.QUESTIONS / "README.md").read_text("utf-8"))
    assert {name for name, _, _ in rows} == {p.stem for p in paths.QUESTIONS.glob("*.jsonl")}
    for name, n, counts_as in rows:
        assert (int(n), counts_as) == (standing(name).questions, standing(name).words)


# --- any log ---


def test_a_look_that_changed_no_rule_costs_nothing(log: Log) -> None:
    log(hashed("holdout") + "| 2026-12-01 | holdout, adversarial | unchanged | totals only | — |\n")
    told = standing("holdout")
    assert told.held_out and told.words == "held out" and len(told.looks) == 2
    assert not standing("adversarial").held_out, "no hash was written down: nothing bears out that it is"


def test_the_first_change_after_a_look_ends_it_for_good_and_reads_add_up(log: Log) -> None:
    log(
        hashed("holdout")
        + "| 2026-12-02 | holdout, adversarial | unchanged | again | holdout 1, adversarial 4 |\n"
        + "| 2026-12-01 | holdout | unchanged | read, then rules changed | holdout 2 |\n"
        + "| 2026-12-03 | holdout | unchanged | totals only | — |\n"
    )
    assert standing("holdout").words == "development since 2026-12-01 (3 questions read, rules changed)"
    assert standing("adversarial").words == "development since 2026-12-02 (4 questions read, rules changed)"


def test_a_changed_file_is_not_held_out(log: Log, tmp_path: Path) -> None:
    log(hashed("holdout"))
    with (tmp_path / "holdout.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n")
    assert standing("holdout").unchanged is False and not standing("holdout").held_out
    assert heldout_standing.standing_table(["holdout"]).loc["holdout", "file"] == "CHANGED since"
    assert "file changed" in standing("holdout").words


def test_a_file_of_ones_own_stands_in_no_log(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_bytes((paths.QUESTIONS / "dev.jsonl").read_bytes())
    assert standing(str(mine)).words == "not in the log of looks" and not standing(str(mine)).held_out
    assert heldout_sets.counted("mine") == "mine" and "not in the log" in heldout_sets.counts_as("mine")


def test_the_sentence_names_what_is_held_out_what_is_not_and_what_is_not_there(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(
        hashed("adversarial")
        + hashed("holdout")
        + "| 2026-12-01 | holdout | unchanged | read, then rules changed | holdout 2 |\n"
    )
    monkeypatch.setattr(heldout_sets, "SETS", (*heldout_sets.SETS, "nowhere"))
    said = heldout_standing.standing_sentence(["dev", "holdout", "adversarial", "nowhere"])
    assert said.startswith("Held out: adversarial. Not held out: dev: development; holdout: development")
    assert "A set counts as development as a whole" in said and "left out: nowhere" in said
    assert "chosen on dev alone" in said
    table = heldout_standing.standing_table(["dev", "holdout", "adversarial", "nowhere"])
    assert table.index.tolist() == ["dev", "holdout", "adversarial"]


def test_without_a_held_out_set_the_sentence_says_so() -> None:
    said = heldout_standing.standing_sentence(["dev", "holdout"])
    assert said.startswith("Held out: none of these sets.")


def test_sets_that_count_alike_are_named_together() -> None:
    note = heldout_standing.standing_note(["dev", "mine", "dev", "yours"])
    assert note == "Counts as: dev: development; mine, yours: not in the log of looks."
