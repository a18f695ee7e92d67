"""The front page: what it lifts out of executed notebooks, and what it says where one is missing."""

import re

import pytest
from front_pages import admission, knee, notebook, question, says, shows
from nbformat.v4 import new_output
from site_pages import ALT, ALT_2, PNG, code, figure

from nlqlib import front_page, front_page_data, front_page_lift, front_page_twin
from nlqlib.front_page_study import opening, summary
from nlqlib.front_page_targets import about_target

SUITE = ("03_admission", "05_knee", "06_saturation", "99_summary")
TWO = {"twin/03_admission": admission(), "twin/05_knee": knee()}


def test_a_figure_is_found_by_the_function_that_draws_it():
    lifted = front_page_lift.figure(knee(), "twin/05_knee", "efficiency_figure")
    assert (lifted.heading, lifted.sentence) == ("What does it cost?", "A thousand cost 0.04 USD.")
    assert lifted.png.startswith(b"\x89PNG") and lifted.width_px == 300


def test_without_a_sentence_of_its_own_a_figure_takes_the_reading_above_it():
    assert front_page_lift.figure(knee(), "p", "bend_figure").sentence == "It bends at 8."


def test_with_no_reading_either_it_takes_its_alternative_text_after_what_is_drawn():
    nb = notebook(
        "twin", question("Q"), code("show(f)", figure("Bars of two arms are drawn. One is 4 of 5."))
    )
    assert front_page_lift.figure(nb, "p").sentence == "One is 4 of 5."


def test_a_sentence_of_another_section_is_not_taken():
    nb = notebook(
        "twin",
        question("A"),
        code("x", says("Of A.")),
        question("B"),
        code("f", figure("Bars of B. B is 3.")),
    )
    assert front_page_lift.figure(nb, "p").sentence == "B is 3."


def test_a_tagged_cell_goes_before_the_first_figure():
    nb = notebook("twin", question("Q"), code("a", figure(ALT)), code("b", figure(ALT_2), tags=["front"]))
    assert front_page_lift.figure(nb, "p").alt == ALT_2


@pytest.mark.parametrize("made_by", ["bend_figure_2", "end_figure"])
def test_a_figure_of_another_name_is_not_mistaken(made_by):
    assert front_page_lift.figure(knee(), "p", made_by) is None


def test_the_folded_numbers_of_a_figure_come_with_it():
    numbers = '<details class="figure-data"><summary>s</summary><table></table></details>'
    shown = new_output("display_data", {"text/html": numbers})
    nb = notebook("twin", question("Q"), code("f", figure(), shown))
    assert front_page_lift.figure(nb, "p").numbers == numbers


def test_a_quotation_is_one_sentence_and_every_caveat_of_construction():
    text = "X is 6.57 req/s. It is all interaction. On the twin it is by construction alike. The end."
    assert front_page_lift.shortened(text) == "X is 6.57 req/s. On the twin it is by construction alike."
    told = "X is 6.57 req/s; it is all interaction. On the twin it is by construction alike."
    assert front_page_lift.shortened(text, 2) == told


def test_sentences_told_together_are_one_sentence_whose_names_keep_their_capitals():
    both = ["As it is: **parallel**.", "Behind a limit: **serial**."]
    assert front_page_lift.as_one(both) == "As it is: **parallel**; behind a limit: **serial**."
    assert front_page_lift.as_one(["So.", "TTFT is 1 s.", "`X` is 2."]) == "So; TTFT is 1 s; `X` is 2."


def test_dollars_are_no_formula_and_code_stays_code():
    assert front_page_lift.as_myst("$1 < $2, `a$b`") == "\\$1 &lt; \\$2, `a$b`"


def test_the_story_keeps_its_order_and_spare_steps_fill_gaps():
    told = front_page.story(
        {**TWO, "twin/04_propagation": notebook("twin", code("scrape_figure(x)", figure()))}, "twin"
    )
    drawn = [scene.made_by for scene, _ in told]
    assert drawn == ["sweeps_figure", "scrape_figure", "bend_figure", "efficiency_figure"]


def test_the_story_has_at_most_ten_figures_and_spare_ones_give_way():
    loaded = {}
    for scene in front_page.STORY:
        page = f"twin/{scene.notebook}_x"
        cell = code(f"{scene.made_by or 'any'}(x)", figure())
        loaded.setdefault(page, notebook("twin", question("Q"))).cells.append(cell)
    told = front_page.story(loaded, "twin")
    main = [scene for scene in front_page.STORY if not scene.spare]
    assert (
        len(told) == front_page.FIGURES
        and [s for s, _ in told][: len(main)]
        and set(main) <= {s for s, _ in told}
    )


def test_the_front_page_draws_each_picture_once_with_its_alternative_text():
    made = front_page.front(TWO, "twin", SUITE)
    assert re.findall(r'<img src="([^"]+)" alt="([^"]+)"', made.texts["story"]) == [
        ("_static/front/twin-01.png", ALT),
        ("_static/front/twin-02.png", "Two fits are drawn here. The knee is at 8 in flight."),
        ("_static/front/twin-03.png", ALT),
    ]
    assert sorted(made.pictures) == [f"_static/front/twin-0{i}.png" for i in (1, 2, 3)]
    assert "It costs \\$1, not \\$2. [Page twin/03_admission]" in made.texts["story"]


@pytest.mark.parametrize("target", ["twin", "my-l4"])
def test_the_study_opens_with_diagnosis_operating_point_cost_and_what_was_not_seen(target):
    loaded = {f"{target}/03_admission": admission(target), f"{target}/05_knee": knee(target)}
    text = opening(loaded, target, SUITE)
    said = [
        "**Limited at 1, by the router**",
        "concurrency_target",
        "Operate at 16 for p95 below 4 s.",
        "A thousand cost 0.04 USD.",
        "Not observable here: the queue.",
        f"[05_knee]({target}/05_knee.ipynb) (1)",
        "Not run on this target: `06_saturation`, `99_summary`.",
    ]
    places = [text.index(words) for words in said]
    assert places == sorted(places)


def test_what_was_not_run_is_named_with_the_command_that_runs_it():
    text = opening({"my-l4/06_saturation": notebook("my-l4", code("x"))}, "my-l4", SUITE)
    command = "make reproduce TARGET=https://… TARGET_NAME=my-l4 NOTEBOOKS="
    assert f"`{command}03`, with the same key, metrics and profile settings as before." in text
    assert f"`{command}05`" in text
    twin, local = (opening({f"{t}/06_saturation": notebook(t)}, t, SUITE) for t in ("twin", "local"))
    assert "`make reproduce NOTEBOOKS=03`." in twin
    assert "`make reproduce TARGET=local NOTEBOOKS=03`." in local


def test_the_counts_of_the_claims_table_lead_to_it():
    nb = notebook("twin", code("page.counts_table(found)", shows("How claims come out", "12", "")))
    text = summary({"twin/99_summary": nb}, "twin")
    assert "12" in text and "(twin/99_summary.ipynb)" in text
    assert "NOTEBOOKS=99" in summary({}, "twin")


def test_the_box_of_a_target_names_its_runs():
    text = front_page.front(TWO, "twin", SUITE).texts["front"]
    assert "Target **twin**: what twin is." in text and "Run of 2 notebooks, 2026-01-02 03:04 UTC." in text


def test_the_box_of_a_target_says_all_that_its_pages_say_of_answers():
    pages = {f"twin/{n}": notebook("twin") for n in ("a", "b", "c")}
    some = "times modelled; some replayed, others drawn"
    told = ("times modelled; words replayed", some, "times modelled; lengths drawn")
    for nb, what in zip(pages.values(), told, strict=True):
        nb.metadata["nlqlib"] = {"target": "twin", "what": what}
    box = about_target(pages, "twin")
    assert "Modelled times, answers replayed or drawn" in box and f"Target **twin**: {some}." in box
    alone = about_target({"twin/c": pages["twin/c"]}, "twin")
    assert "Modelled, not measured" in alone and "replayed" not in alone


def test_the_error_of_the_twin_is_told_of_predicted_rows_alone():
    rows = [("a", "fitted", 0.9), ("b", "predicted", 0.02), ("c", "predicted", -0.04)]
    seen = [
        {"name": n, "tag": t, "error": e, "quantity": "p95_s", "low": 1, "high": 1, "value": 1}
        for n, t, e in rows
    ]
    said = front_page_twin.error_sentence({"title": "An L4", "observations": seen})
    assert "p95 of latency 3.0% on average and 4.0% at most (2 rows)" in said


def test_every_row_of_the_committed_twin_is_in_its_table():
    twin = front_page_twin.document()
    assert len(front_page_twin.error_table(twin).splitlines()) == 2 + len(twin["observations"])


def test_every_recording_names_its_model_and_engine():
    rows = front_page_data.recordings().splitlines()[2:]
    assert rows and all("Qwen" in row and "vllm" in row for row in rows)


def test_pictures_are_the_notebooks_own_bytes():
    import base64

    made = front_page.front(TWO, "twin", SUITE)
    assert set(made.pictures.values()) == {base64.b64decode(PNG)}
