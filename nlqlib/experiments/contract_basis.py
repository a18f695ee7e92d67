"""How a page asks this endpoint for its schema: by the first contract that the probe saw honoured.

The twin replays what was asked by `structured_outputs`, and our own engine honours it; an endpoint by URL is
probed once for each page, and what its probe found is retained with that page.
"""

from nlqlib.experiments.contract_probe import findings, probe, probe_spec, schema_contract
from nlqlib.experiments.output_contracts import BASIC, PRETTY
from nlqlib.experiments.study import Spec, Study
from nlqlib.records import UNCONSTRAINED


def contract_points(study: Study) -> list[tuple[Study, Spec]]:
    """What `page_contract` sends, for the plan of a page: the probe, of an endpoint that is not ours."""
    return [(study, probe_spec())] if study.target.kind == "url" else []


def page_contract(study: Study) -> str:
    """The contract by which a page asks this target for intents: our own engines need no probe."""
    return schema_contract(findings(probe(study))) if study.target.kind == "url" else PRETTY.contract


def planned_contract(study: Study) -> str:
    """The same from files alone; before the first probe the usual one is counted on."""
    kept = study.store.find(study.key(probe_spec())) if study.target.kind == "url" else None
    return schema_contract(findings(kept)) if kept else PRETTY.contract


def contract_sentence(contract: str) -> str:
    """By which request field the page asks for its schema, in one sentence."""
    if contract == UNCONSTRAINED.name:
        tried = ", ".join(f"`{name}`" for name in BASIC.values())
        return f"No schema is enforced here ({tried} were tried): the form of an answer rests on the prompt."
    return f"The schema is asked for by `{contract}`."
