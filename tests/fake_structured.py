"""A server whose model answers from a script, and which reads only some of the fields that ask for a form.

What it does not read it ignores with HTTP 200, as servers do; what it refuses it answers with HTTP 400.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fake_behaviours import MODEL, Behaviour, Say, Status, error_object
from fake_server import FakeServer
from fake_target import url_target

from nlqlib import tokens
from nlqlib.serving.target import Target

END = 151645
FRUIT = {"fruit": "banana", "colour": "yellow"}
"""What the model says to the probe by itself."""
ANIMAL = {"animal": "okapi", "legs": 4, "seen_in": "1999"}
"""What it says when it has to keep to the probe's schema."""
VLLM_032 = frozenset({"json", "response_format", "x-guidance", "regex", "grammar"})
ALL = VLLM_032 | {"guided_json", "disable_any_whitespace", "whitespace_pattern"}
COMPACT = ("disable_any_whitespace", "whitespace_pattern", "x-guidance", "regex", "grammar")


@dataclass
class StructuredServer(FakeServer):
    """Reads the fields `reads`, refuses the fields `refuses`, and ignores all others."""

    reads: frozenset[str] = VLLM_032
    refuses: frozenset[str] = frozenset()
    separators: tuple[str, str] = (",", ":")
    """Of an answer that must be compact; with spaces it is compact only in part."""
    flag: bool = False
    """Is the flag set that takes the whitespace out of every JSON answer?"""
    obeys: bool = False
    """Does the model minify when its prompt asks for it?"""
    intents: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    cuts: frozenset[str] = frozenset()
    """Questions whose compact answer is reported as cut, although its text is whole."""
    rambles: frozenset[str] = frozenset()
    """Questions whose compact answer is made longer than the pretty one."""

    def _pick(self, number: int, headers: dict[str, str], body: dict[str, Any]) -> Behaviour:
        asked = fields(body)
        if refused := asked & self.refuses:
            return Status(400, error_object(400, f"unknown field {min(refused)}"))
        read = asked & self.reads
        question = body["messages"][-1]["content"].splitlines()[0].removeprefix("Question: ")
        document = self.intents.get(question) or (ANIMAL if read else FRUIT)
        minified = self._minifies(read, body)
        if minified and question in self.rambles:
            document = {**document, "evidence": "7 " * 40}
        text = (
            json.dumps(document, separators=self.separators) if minified else json.dumps(document, indent=2)
        )
        ids = (*tokens.encode(text), END)
        cut = minified and question in self.cuts
        return Say(text, finish_reason="length" if cut else "stop", output_tokens=len(ids), token_ids=ids)

    def _minifies(self, read: frozenset[str], body: dict[str, Any]) -> bool:
        told = self.obeys and "minified:" in body["messages"][0]["content"]
        return told or bool(read & set(COMPACT)) or (self.flag and "json" in read)

    def target(self) -> Target:
        """This server as a target in virtual time that may be started again with other flags."""
        plain = url_target("structured", MODEL, self, {"flag": self.flag})
        return replace(
            plain,
            variant=lambda flags: replace(self, flag="structured_outputs_config" in flags).target(),
        )


def fields(body: dict[str, Any]) -> frozenset[str]:
    """The fields of `body` that ask for a form, by name."""
    structured = body.get("structured_outputs") or {}
    found = {name for name in ("response_format", "guided_json") if name in body}
    found |= {name for name in structured if name in ALL}
    return frozenset(found | ({"x-guidance"} if "x-guidance" in (structured.get("json") or {}) else set()))
