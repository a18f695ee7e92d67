"""House figures: what is drawn, what is said about it, and what is refused."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from nlqlib import plots

TWIN = {"target": "twin", "kind": ("modelled", "replayed")}
ALT = "Schema compliance of three arms: structured outputs reach 20 of 20."
ARMS = pd.DataFrame(
    [
        {"arm": "unconstrained", "metric": "compliance", "share": 0.05, "low": 0.01, "high": 0.24, "n": 20},
        {"arm": "structured", "metric": "compliance", "share": 1.0, "low": 0.84, "high": 1.0, "n": 20},
        {"arm": "unconstrained", "metric": "kind", "share": None, "low": None, "high": None, "n": None},
        {"arm": "structured", "metric": "kind", "share": 0.7, "low": 0.48, "high": 0.85, "n": 20},
    ]
)


def texts(fig: Figure) -> list[str]:
    return [t.get_text() for t in fig.findobj(lambda a: hasattr(a, "get_text")) if t.get_text()]


def luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def diamonds(fig: Figure) -> list[tuple[float, float]]:
    lines = [ln for ax in fig.axes for ln in ax.get_lines() if ln.get_label() == "_article"]
    assert all(ln.get_marker() == "D" and ln.get_markerfacecolor() == "none" for ln in lines)
    return [tuple(p) for ln in lines for p in ln.get_xydata()]


def test_every_colour_has_its_own_marker_and_none_is_used_twice():
    assert len(set(plots.PALETTE)) == len(plots.PALETTE) == len(set(plots.MARKERS)) == len(plots.MARKERS)


def test_text_colours_have_the_contrast_wcag_asks_of_text_on_white():
    assert 1.05 / (luminance(plots.GREY) + 0.05) >= 4.5


def test_a_figure_names_its_target_and_kind():
    fig, _ = plots.figure("twin", ("modelled", "replayed"))
    assert "target: twin (modelled times, replayed answers)" in texts(fig)


@pytest.mark.parametrize(("target", "kind"), [("", "measured"), ("twin", "guessed"), ("twin", ())])
def test_a_figure_without_target_or_with_an_unknown_kind_is_refused(target, kind):
    with pytest.raises(ValueError, match="measured, modelled, replayed"):
        plots.figure(target, kind)


def test_figures_are_opaque_white_so_that_they_read_on_a_dark_page():
    pixels = imread(io.BytesIO(plots.png(plots.share_bars(ARMS, **TWIN))))
    assert pixels[0, 0, :3].tolist() == [1.0, 1.0, 1.0] and pixels[..., 3].min() == 1.0


def test_the_same_frame_gives_the_same_bytes():
    assert plots.png(plots.share_bars(ARMS, **TWIN)) == plots.png(plots.share_bars(ARMS, **TWIN))


def test_axes_carry_quantity_and_unit():
    _, ax = plots.figure("twin", "modelled")
    plots.name_axes(ax, "concurrency", "E2E latency p95", y_unit="s")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("concurrency", "E2E latency p95 (s)")


def test_a_share_is_drawn_with_its_interval_and_a_missing_one_says_so():
    fig = plots.share_bars(ARMS, **TWIN)
    widths = [round(p.get_width(), 3) for ax in fig.axes for p in ax.patches]
    assert widths == [0.05, 1.0, 0.7]
    assert {"5%\nn = 20", "100%\nn = 20", "70%\nn = 20", "not observed"} <= set(texts(fig))
    first = fig.axes[0].collections[0].get_segments()[0]
    assert first[:, 0].tolist() == [0.01, 0.24]


def test_share_bars_mark_the_article_where_it_says_something():
    fig = plots.share_bars(ARMS.assign(article=[0.1, None, None, 0.9]), **TWIN)
    assert diamonds(fig) == [(0.1, 0.0), (0.9, 1.0)]


def test_one_row_stands_for_one_arm_however_many_metrics():
    fig = plots.share_bars(ARMS, **TWIN)
    labels = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert labels == ["unconstrained", "structured"] and len(fig.axes) == 2


def test_two_shares_for_one_row_are_refused():
    with pytest.raises(ValueError, match="one row per arm and panel"):
        plots.share_bars(pd.concat([ARMS, ARMS]), **TWIN)


def test_article_points_drop_pairs_with_a_missing_value_and_name_the_rest_once():
    fig, ax = plots.figure("twin", "modelled")
    drawn = plots.article_points(ax, [1, 8, None, 32], [3.2, None, 4.0, 102.0])
    assert drawn == 2 and diamonds(fig) == [(1, 3.2), (32, 102.0)]
    assert texts(fig).count("article") == 1


def test_article_points_without_any_value_draw_nothing():
    fig, ax = plots.figure("twin", "modelled")
    assert plots.article_points(ax, [1], [None]) == 0 and "article" not in texts(fig)


def test_line_labels_stand_apart_even_where_lines_end_together():
    _, ax = plots.figure("twin", "modelled")
    for i in range(3):
        ax.plot([1, 2], [0, 1 + i / 1000], label=f"line {i}")
    ax.set_ylim(0, 2)
    plots.label_lines(ax, gap_pt=12)
    at = sorted(ax.transData.transform(t.xy)[1] * 72 / ax.figure.dpi + t.xyann[1] for t in ax.texts)
    assert min(np.diff(at)) >= 11.99


def test_a_line_that_ends_in_gaps_is_named_at_its_last_value():
    _, ax = plots.figure("twin", "modelled")
    ax.plot([1, 2, 3], [1.0, 2.0, float("nan")], label="seen")
    ax.plot([1], [float("nan")], label="never seen")
    plots.label_lines(ax)
    assert [(t.get_text(), t.xy) for t in ax.texts] == [("seen", (2.0, 2.0))]


def test_curves_draw_one_line_per_group_with_intervals_and_the_article():
    frame = pd.DataFrame(
        {"n": [1, 8, 1, 8], "p95": [3.0, 9.0, 3.0, 4.0], "limit": ["one", "one", "none", "none"]}
    ).assign(low=lambda f: f.p95 - 1, high=lambda f: f.p95 + 1, article=[3.2, None, None, None])
    fig = plots.curves(
        frame, "n", "p95", "limit", target="twin", kind="modelled", y_unit="s", article="article"
    )
    assert {"one", "none", "p95 (s)", "article"} <= set(texts(fig))
    assert len(fig.axes[0].collections) == 2 and diamonds(fig) == [(1, 3.2)]


def test_more_lines_than_can_be_told_apart_are_refused():
    frame = pd.DataFrame({"n": range(9), "y": range(9), "by": range(9)})
    with pytest.raises(ValueError, match="9 lines: split the figure"):
        plots.curves(frame, "n", "y", "by", target="twin", kind="modelled")


def test_strip_draws_every_value_and_names_the_median():
    frame = pd.DataFrame({"arm": ["a"] * 5 + ["b"], "tokens": [10, 20, 30, 40, 1000, None]})
    fig = plots.strip(frame, "tokens", by="arm", unit="tokens", target="local", kind="measured")
    assert len(fig.axes[0].collections[0].get_offsets()) == 5
    assert {"median 30", "not observed", "tokens (tokens)"} <= set(texts(fig))


def test_strip_marks_the_article_once_per_row():
    frame = pd.DataFrame({"arm": ["a", "a", "b"], "s": [1.0, 2.0, 3.0], "art": [3.2, 3.2, None]})
    fig = plots.strip(frame, "s", by="arm", unit="s", target="local", kind="measured", article="art")
    assert diamonds(fig) == [(3.2, 0.0)]


@pytest.mark.parametrize("alt", ["", "   \n ", "a figure"])
def test_a_figure_without_a_telling_alt_text_is_refused(alt):
    with pytest.raises(ValueError, match="say what the figure shows and its main number"):
        plots.show(plots.share_bars(ARMS, **TWIN), alt)


def test_an_empty_figure_is_refused():
    fig, _ = plots.figure("twin", "modelled")
    with pytest.raises(ValueError, match="figure is empty"):
        plots.show(fig, ALT)


@pytest.mark.parametrize("backend", ["agg", "module://matplotlib_inline.backend_inline"])
def test_show_displays_one_png_with_its_alt_text_and_its_numbers_below_under_any_backend(backend, tmp_path):
    code = f"""
import json
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
import pandas as pd
from nlqlib import plots
InteractiveShell.instance()
frame = pd.DataFrame({{"arm": ["a"], "s": [1.0]}})
with capture_output() as seen:
    plots.show(plots.strip(frame, "s", by="arm", unit="s", target="twin", kind="modelled"), alt={ALT!r})
data, about = seen.outputs[0].data, seen.outputs[0].metadata
kinds = [sorted(o.data) for o in seen.outputs]
print("RESULT", json.dumps([kinds, data["image/png"][:8], data["text/plain"], about]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env={"MPLBACKEND": backend, "HOME": str(tmp_path), "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.split("RESULT ")[1])
    kinds = [["image/png", "text/plain"], ["text/html", "text/plain"]]
    assert found == [kinds, "iVBORw0K", ALT, {"image/png": {"alt": ALT, "width": 653}}]
