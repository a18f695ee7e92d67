"""Endpoints that show nothing of themselves: really hidden, or what was seen taken away afterwards."""

from dataclasses import replace
from typing import Any

from nlqlib.experiments.diagnose_world import from_outside
from nlqlib.serving.target import Target, open_target

outside = from_outside
"""A level as it would be without headers and metrics, where running it again would cost too much."""


def blind(target: Target) -> Target:
    """The same endpoint without `/metrics`."""
    hidden = replace(target, connect=lambda: replace(target.connect(), metrics_urls=()))
    return replace(hidden, variant=lambda flags: blind(target.engine(**flags)))


def twin(shown: bool = True, **limits: Any) -> Target:
    """The twin behind `limits`, if there are any; not `shown`: the gateway and the engine tell nothing."""
    plain = open_target("twin")
    target = plain.limited(headers=shown, **limits) if limits else plain
    return target if shown else blind(target)
