"""Executed notebooks as the front page finds them: named calls, captioned tables, said sentences."""

from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from site_pages import code, figure

TABLE = """<div><table border="0" class="dataframe">
<caption>{caption}. Target: {target} (modelled times).</caption>
<tbody><tr><td>{cell}</td></tr></tbody></table>
<p>{reading}</p></div>"""

TWO_FITS = "Two fits are drawn here. The knee is at 8 in flight."


def says(text: str):
    return new_output("display_data", {"text/markdown": text, "text/plain": text})


def shows(caption: str, cell: str, reading: str, target: str = "twin"):
    filled = TABLE.format(caption=caption, cell=cell, reading=reading, target=target)
    return new_output("execute_result", {"text/html": filled, "text/plain": caption}, execution_count=1)


def notebook(target: str, *cells):
    nb = new_notebook(cells=[new_markdown_cell("# Claim\n\nWhat to see."), *cells])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nb.metadata["nlqlib"] = {"target": target, "what": f"what {target} is"}
    nb.metadata["papermill"] = {"start_time": "2026-01-02T03:04:05+00:00"}
    return nb


def question(text: str):
    return new_markdown_cell(f"## {text}")


def admission(target: str = "twin"):
    """A page on admission: a figure with its sentence, and a diagnosis."""
    return notebook(
        target,
        question("Does more buy more?"),
        code(
            "nlqlib.show(page.sweeps_figure(s), alt=a)", figure(), says("It costs $1, not $2. More follows.")
        ),
        question("Diagnosis"),
        code(
            "captioned(d.verdicts_table(f), x)",
            shows("Verdicts", "limited", "limited at 1, by the router", target),
        ),
        code(
            "captioned(d.evidence_table(m), x)",
            shows("Evidence", "flat", "Not observable here: the queue.", target),
        ),
        code(
            "captioned(d.remedy_table(m), x)", shows("Where to change it", "concurrency_target", "", target)
        ),
    )


def knee(target: str = "twin"):
    """A page on the knee: a figure whose sentence is the reading above it, costs and policies."""
    return notebook(
        target,
        question("Where is the knee?"),
        code("captioned(b.bend_table(r), x)", shows("Fits", "not observable here", "It bends at 8.", target)),
        code(
            "nlqlib.show(b.bend_figure(r), alt=a)",
            figure(TWO_FITS),
        ),
        question("What does it cost?"),
        code(
            "f = o.efficiency_figure(r); nlqlib.show(f, alt=a)", figure(), says("A thousand cost 0.04 USD.")
        ),
        code(
            "captioned(o.policy_rows(c), x)",
            shows("Policies", "16", "Operate at 16 for p95 below 4 s.", target),
        ),
    )
