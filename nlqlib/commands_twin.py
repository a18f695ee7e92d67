"""Commands of the modelled endpoint: `simulate` and `validate-twin`. Each returns the exit status."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from nlqlib.commands import SHOWN_ROWS, InputError
from nlqlib.twin.scenario import Outcome, RequestTimes, Scenario, ScenarioError, parse, run

LATEST_S = 1e10
"""Beyond it a double no longer resolves microseconds. Times of day (1.8e9 s) are still good."""


def simulate(path: str, as_json: bool) -> int:
    """The times of every request of the scenario in `path` (`-`: standard input). Raises `InputError`."""
    outcome = run(read_scenario(path))
    late = next((r for r in outcome.requests if not r.last_token_s < LATEST_S), None)
    if late is not None:
        raise InputError(
            f"{path}: request {late.id!r} ends at {late.last_token_s:g} s, where a clock no longer tells two "
            f"steps apart; give arrival_s and step times so that all ends before {LATEST_S:g} s"
        )
    print(json.dumps(outcome.to_json(), indent=1, allow_nan=False) if as_json else outcome_table(outcome))
    return 0


def validate(only: Sequence[str], as_json: bool) -> int:
    """Every stated bound of the twin; 0 only if all were looked at and are met. Raises `InputError`."""
    from nlqlib.experiments import twin_validation  # the whole client path, which `simulate` has no use for
    from nlqlib.experiments.twin_validation_check import all_met, summary, table

    try:
        checks = twin_validation.validate(only, tell=lambda line: print(line, file=sys.stderr, flush=True))
    except twin_validation.UnknownGroupError as error:
        raise InputError(str(error)) from error
    met = all_met(checks)
    told = {"met": met, "summary": summary(checks), "checks": [check.to_json() for check in checks]}
    print(json.dumps(told, indent=1, ensure_ascii=False) if as_json else table(checks))
    return 0 if met else 1


def read_scenario(path: str) -> Scenario:
    """The checked scenario in `path`. Raises `InputError` with the file and the place in it."""
    name = "standard input" if path == "-" else path
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    try:
        return parse(text)
    except ScenarioError as error:
        raise InputError(f"{name}: {error}") from error
    except (ValueError, OverflowError, RecursionError) as error:  # numbers or nesting beyond any scenario
        raise InputError(f"{name} holds a number or a nesting that no scenario needs: {error}") from error


def outcome_table(outcome: Outcome) -> str:
    """The times as text, seconds with microseconds, the first 40 of many requests, and the totals."""
    rows = [_row(times) for times in outcome.requests[:SHOWN_ROWS]]
    shown = pd.DataFrame(rows).to_string(index=False, float_format="{:.6f}".format)
    left = len(outcome.requests) - SHOWN_ROWS
    more = f"\n… and {left} more requests (all of them with --json)" if left > 0 else ""
    return f"{shown}{more}\n\n{_totals(outcome)}"


def _row(times: RequestTimes) -> dict[str, object]:
    return {
        "id": times.id,
        "queued (s)": times.queued_s,
        "scheduled (s)": times.scheduled_s,
        "first token (s)": times.first_token_s,
        "last token (s)": times.last_token_s,
        "prompt (tok)": times.prompt_tokens,
        "cached (tok)": times.cached_tokens,
        "output (tok)": times.output_tokens,
        "preemptions": times.preemptions,
    }


def _totals(outcome: Outcome) -> str:
    hits, queries = outcome.prefix_cache_hits, outcome.prefix_cache_queries
    return (
        f"{len(outcome.requests)} requests, {outcome.steps} steps, prefix cache {hits} of {queries} tokens, "
        f"{outcome.preemptions} preemptions"
    )
