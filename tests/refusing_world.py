"""Somebody's endpoint that refuses request fields, and a notebook's own code run on it, cell by cell."""

import ast
import contextlib
import io
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import MODEL, Behaviour, Json, Say, Status, error_object
from fake_server import FakeServer
from fake_structured import ANIMAL
from fake_target import url_target

import nlqlib
from nlqlib import paths, plots, tokens
from nlqlib.artifacts import Store
from nlqlib.experiments import study as studies
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Profile, Study
from nlqlib.serving.target import Target

PLAIN = frozenset({"model", "messages", "max_tokens", "temperature", "stream", "stream_options"})
"""What every OpenAI-compatible endpoint takes."""
WINDOW = 4096


@dataclass
class RefusingServer(FakeServer):
    """Answers every question with one right form; HTTP 400 to what it refuses, as strict servers do."""

    refuses: frozenset[str] = frozenset()
    strict: bool = False
    """Refuse every field that is not `PLAIN`."""
    text: str = field(default_factory=lambda: load_questions("dev")[0].golds[0].text(2))

    def _pick(self, number: int, headers: dict[str, str], body: Json) -> Behaviour:
        extra = sorted(set(body) - PLAIN if self.strict else set(body) & self.refuses)
        if extra:
            said = f"Unrecognized request argument supplied: {extra[0]}"
            return Status(400, error_object(400, said, param=extra[0]))
        prompt, most = tokens.count_chat(body["messages"]), body["max_tokens"]
        if prompt + most > WINDOW:
            said = f"This model's maximum context length is {WINDOW} tokens"
            return Status(400, error_object(400, said))
        return self._answer(self._text(body), prompt, most, bool(body.get("ignore_eos")))

    def _text(self, body: Json) -> str:
        """The probe of contracts asks for an animal by its schema."""
        asked = (body.get("structured_outputs") or {}).get("json") or {}
        return json.dumps(ANIMAL, indent=2) if "animal" in asked.get("properties", {}) else self.text

    def _answer(self, text: str, prompt: int, most: int, fixed: bool) -> Say:
        whole = most if fixed else _length(text)
        made = min(whole, most)
        reason = "length" if fixed or made < whole else "stop"
        latency_s = 0.05 + 0.02 * made
        return Say(text, finish_reason=reason, prompt_tokens=prompt, output_tokens=made, latency_s=latency_s)

    def target(self) -> Target:
        """This server by URL: no metrics are known, nothing is ours to set; time is virtual."""
        return url_target("refusing", MODEL, self, {}, timeout_s=600.0)


@lru_cache(maxsize=4)
def _length(text: str) -> int:
    return len(tokens.encode(text)) + 1


@dataclass
class Page:
    """What a notebook showed."""

    names: dict[str, Any]
    """Its variables after the last cell."""
    tables: list[str]
    sentences: list[str]
    alts: list[str]
    drawn: list[str]
    """Texts within its figures."""

    @property
    def text(self) -> str:
        return "\n".join([*self.tables, *self.sentences, *self.alts, *self.drawn])


def opened(notebook: str, server: RefusingServer, folder: Path, profile: Profile = "full") -> Study:
    """The notebook's study of `server`, retained in `folder`."""
    return Study(notebook, server.target(), profile, "wire", Store(folder))


def run(notebook: str, study: Study, patch: pytest.MonkeyPatch, **params: Any) -> Page:
    """Every code cell of `notebook` on `study`, its parameters changed to `params`."""
    page = Page({}, [], [], [], [])
    shown = plots.show

    def show(fig: Any, alt: str, **more: Any) -> None:
        page.alts.append(alt)
        page.drawn.extend(text.get_text() for ax in fig.axes for text in ax.texts)
        with contextlib.redirect_stdout(io.StringIO()):
            shown(fig, alt=alt, **more)

    patch.setattr(studies, "display", lambda shown: page.sentences.append(shown.data))
    patch.setattr(Study, "open", classmethod(lambda cls, *args, **settings: study))
    patch.setattr(nlqlib, "show", show, raising=False)
    cells = json.loads((paths.ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        value = _executed("".join(cell["source"]), page.names)
        if "parameters" in cell["metadata"].get("tags", []):
            page.names.update(params)
        if value is not None:
            page.tables.append(repr(value))
    return page


def _executed(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of `source`, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        return exec(compile(tree, "cell", "exec"), names)
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
