"""Small executed notebooks for the tests of the site."""

import base64

import pandas as pd
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from nlqlib import plots

ALT = "Schema compliance of two arms: structured outputs reach 20 of 20."
TINY = pd.DataFrame({"arm": ["x"], "s": [1.0]})
ALT_2 = "Output tokens of two arms: the median of the first one is 25."
PNG = base64.b64encode(
    plots.png(plots.strip(TINY, "s", by="arm", unit="s", target="twin", kind="modelled"))
).decode()


def figure(alt: str | None = ALT):
    about = {"alt": alt, "width": 300} if alt is not None else {}
    return new_output("display_data", {"image/png": PNG, "text/plain": "fig"}, metadata={"image/png": about})


def stream(text: str):
    return new_output("stream", name="stdout", text=text)


def code(source: str, *outputs, count: int | None = 1, **metadata):
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata=metadata)


def notebook(*cells, **about):
    opening = [new_markdown_cell("# Claim\n\nWhat to see."), new_markdown_cell("## Why?")]
    nb = new_notebook(cells=[*opening, *cells])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    if about:
        nb.metadata["nlqlib"] = about
    return nb
