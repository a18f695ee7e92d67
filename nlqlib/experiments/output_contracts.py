"""The forms of output that are compared: what is asked of the model, and what the server enforces.

`pretty` is how the service asks otherwise. `told` and `shown` ask for minified JSON in the prompt, by words
alone or by the worked examples too. The others leave the prompt as it is and constrain the generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nlqlib.experiments.conditions import Condition
from nlqlib.nlq.catalog import QuestionError
from nlqlib.records import UNCONSTRAINED

Enforced = Literal["nothing", "request", "server"]
BASIC: Mapping[str, str] = {
    "schema": "structured_outputs",
    "response_format": "response_format",
    "guided_json": "guided_json",
}
"""Contracts that promise the schema and say nothing of whitespace, by the way of the probe that tries each;
in order of preference: vLLM's field, the one that servers share, vLLM's former field."""
USABLE = ("honoured", "cannot tell", "cut", "no answer")
"""Verdicts of a way that may be relied on, the best first; what is ignored or refused is of no use."""


@dataclass(frozen=True)
class Form:
    """One form of output."""

    name: str
    prompt: str
    contract: str
    enforced: Enforced
    """What makes it compact besides the prompt: nothing, a field of the request, or a flag of the server."""
    says: str
    """In words, for tables."""

    @property
    def how(self) -> Condition:
        """How a question is asked in this form."""
        return Condition(self.name, self.prompt, self.contract)


PRETTY = Form("pretty", "baseline", "structured_outputs", "nothing", "any JSON by the schema")
FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        PRETTY,
        Form(
            "prompt_compact",
            "compact_told",
            "structured_outputs",
            "nothing",
            "the prompt asks for minified JSON",
        ),
        Form(
            "prompt_shown",
            "compact_shown",
            "structured_outputs",
            "nothing",
            "the prompt asks, and its examples are minified",
        ),
        Form("guidance", "baseline", "compact_guidance", "request", "schema with x-guidance"),
        Form("regex", "baseline", "compact_regex", "request", "regular expression from the schema"),
        Form("grammar", "baseline", "compact_grammar", "request", "EBNF grammar from the schema"),
        Form("server_flag", "baseline", "compact_flag", "server", "xgrammar, disable_any_whitespace"),
        Form("guidance_flag", "baseline", "guidance_flag", "server", "llguidance, schema with x-guidance"),
        Form("shown_guidance", "compact_shown", "compact_guidance", "request", "examples and x-guidance"),
        Form("shown_regex", "compact_shown", "compact_regex", "request", "examples and regular expression"),
        Form("shown_grammar", "compact_shown", "compact_grammar", "request", "examples and EBNF grammar"),
    )
}
ASKED = ("prompt_compact", "prompt_shown")
PER_REQUEST = ("guidance", "regex", "grammar")
"""Enforced by a field of the request, in order of preference: the schema stays one schema in the first, the
second is understood by most engines."""
FLAGGED = ("server_flag", "guidance_flag")
"""Enforced by a server that was started for it."""


def form(name: str) -> Form:
    """The form called `name`. Raises `QuestionError`."""
    if name not in FORMS:
        raise QuestionError(f"there is no form of output {name!r}: there are {', '.join(FORMS)}")
    return FORMS[name]


def basic(verdicts: Mapping[str, str]) -> str:
    """The contract that asks for the schema, by the `verdicts` on the ways of `BASIC`.

    The first that is honoured; where none is, the first of which nothing is known for certain; and
    `unconstrained` where all are ignored or refused, since then no schema can be asked for.
    """
    ranked = ((verdict, way) for verdict in USABLE for way in BASIC)
    able = (BASIC[way] for verdict, way in ranked if verdicts.get(way) == verdict)
    return next(able, UNCONSTRAINED.name)


def based(form: Form, contract: str) -> Form:
    """`form`, its schema asked for by `contract` where that is all that its own contract does."""
    if form.contract != PRETTY.contract or contract == PRETTY.contract:
        return form
    free = form.name == PRETTY.name and contract == UNCONSTRAINED.name
    says = "JSON as the prompt asks: no schema is enforced" if free else form.says
    return replace(form, contract=contract, says=says)


def compared(
    honoured: Sequence[str], quick: bool, flagged: bool, contract: str = PRETTY.contract
) -> list[Form]:
    """The forms to compare on a server that honours the forms `honoured`, the pretty one first.

    In the `quick` profile one enforced form stands for all of its kind. `flagged`: also those that need a
    server of their own flags. `contract`: by which the plain schema is asked for.
    """
    able = [name for name in PER_REQUEST if name in honoured]
    chosen = able[:1] if quick else able
    names = [PRETTY.name, *ASKED, *chosen, *(f"shown_{name}" for name in able[:1])]
    return [based(FORMS[name], contract) for name in (*names, *(FLAGGED if flagged else ()))]
