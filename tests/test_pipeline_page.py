"""The page on the pipeline: what so few questions can tell, from the recorded answers."""

from pathlib import Path

from nlqlib.artifacts import Store
from nlqlib.experiments import pipeline
from nlqlib.experiments import pipeline_page as page
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target


def test_how_roughly_twenty_questions_tell_a_share_is_computed_for_ours_and_the_articles(
    tmp_path: Path,
) -> None:
    study = Study("01_pipeline", open_target("twin"), "full", "openai", Store(tmp_path))
    found = pipeline.arms(study, concurrency=8)
    told = page.widths_sentence(found)
    ours = page.arms_table(found).loc["structured_outputs", "kind named right"]
    assert ours.endswith("of 20") and told.startswith(f"The kind is named right in {ours};")
    # Wilson's interval of 15 of 20
    assert told.endswith("the article's share, ≈ 75% of 20, would have the interval 53%–89%.")
