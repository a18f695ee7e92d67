"""`python -m nlqlib ask`, `evaluate` and `guard`: their arguments; each body has a module of its own."""

import argparse
import os

from nlqlib.commands_form import Commands, subcommand

ASK = """Answer one question: intent, SQL and rows, or a reason for giving none.

The model's intent is corrected by the condition (default: cues); what was changed, and on which words it
rests, is shown. A question for what the catalog does not have is refused, with close names."""
ASK_EXAMPLE = """example
  python -m nlqlib ask "profit per employee"
prints
  nlqlib: refused: there is no dimension 'employee'; there are region, channel, category, product, …"""

EVALUATE = """Judge every question of a set against its golds, before and after the correction.

Each line of the set: {"id", "question", "gold": {intent}, "accept": [{intent}…], "cluster", "slice"}.
Reported are raw and final accuracy (strict, kind, execution) with Wilson 95 % intervals, interventions with
precision, harm and recall by error category (n/a for 0 of 0), errors, latency, tokens and cost. Several
conditions, or all, are compared with the first by exact McNemar tests with Holm's adjustment. An interrupted
run on a real endpoint is taken up where it ended, and what a notebook retained of the local engine is not
asked again (REMEASURE=1 asks); a failed request is never an answer, and makes the exit status 1.

conditions: baseline, contrastive (prompts alone); guardrail, contrastive_guardrail (the article's guardrail);
cues, contrastive_cues (refined); planner, clarifier; rules_only, majority (no model)."""
EVALUATE_EXAMPLE = """example
  python -m nlqlib evaluate dev --condition baseline,cues --target twin
prints a table with one column for each condition
  condition                    baseline                       cues
  raw strict     30% (15%–52%), 6 of 20     30% (15%–52%), 6 of 20
  final strict   30% (15%–52%), 6 of 20  100% (84%–100%), 20 of 20"""

GUARD = """Correct raw intents that are given; no model is asked.

Each line of RAW: {"id", "raw": {intent} or null}, or {"id", "text": the answer as it was written}. What
`evaluate --out` writes is such a file. Questions without golds are corrected and not judged."""
GUARD_EXAMPLE = """example
  python -m nlqlib guard dev --raw rows.jsonl --condition cues
prints what was changed, and on which words it rests
  dev-02 changed query_type: "breakdown" → "top_n_by_metric"  ('biggest')"""


def register(commands: Commands) -> None:
    """Add the commands and their arguments."""
    ask = subcommand(commands, "ask", "question → intent, SQL, rows", ASK, ASK_EXAMPLE)
    ask.add_argument("question")
    ask.add_argument("--condition", default="cues", help="prompt and correction (default: cues)")
    _target(ask)
    ask.set_defaults(command=_ask)
    judged = "every question of a set, judged against its golds"
    evaluate = subcommand(commands, "evaluate", judged, EVALUATE, EVALUATE_EXAMPLE)
    add = evaluate.add_argument
    add("questions", help="a .jsonl file, or the name of a set such as dev")
    add(
        "--condition",
        default="baseline",
        help="one, a list such as baseline,cues, or all (default: baseline)",
    )
    add("--concurrency", type=in_flight, default=4, help="requests in flight (default: 4)")
    add("--out", help="write one JSON line for each question and condition here")
    add("--token-prices", metavar="IN,OUT[,CACHED]", help="dollars per million tokens, for the cost")
    add("--price-per-hour", type=float, metavar="D", help="dollars per hour of the endpoint, for the cost")
    _target(evaluate)
    evaluate.set_defaults(command=_evaluate)
    guard = subcommand(commands, "guard", "a correction alone, on given raw intents", GUARD, GUARD_EXAMPLE)
    guard.add_argument("questions", help="a .jsonl file, or the name of a set such as dev")
    guard.add_argument("--raw", required=True, help="a .jsonl file with the model's answers")
    guard.add_argument("--condition", default="cues", help="which correction (default: cues)")
    guard.add_argument("--out", help="write one JSON line for each question here")
    guard.add_argument("--json", action="store_true", help="JSON instead of text")
    guard.set_defaults(command=_guard)


def in_flight(text: str) -> int:
    """A number of requests in flight, at least 1. Raises `argparse.ArgumentTypeError`."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"give a whole number of at least 1, not {text!r}")
    return number


def _target(command: argparse.ArgumentParser) -> None:
    default = os.environ.get("TARGET") or "twin"
    command.add_argument(
        "--target", default=default, help="twin, local or https://host/v1 (default: %(default)s)"
    )
    command.add_argument("--json", action="store_true", help="JSON instead of text")


def _ask(args: argparse.Namespace) -> int:
    from nlqlib.commands_ask import ask  # what a command needs is imported when it runs, not for --help

    return ask(args.question, args.target, args.condition, args.json)


def _evaluate(args: argparse.Namespace) -> int:
    from nlqlib.commands_evaluate import Asking, evaluate, prices

    paid = prices(args.token_prices, args.price_per_hour)
    asking = Asking(args.questions, args.target, args.condition, args.concurrency, args.out, paid)
    return evaluate(asking, args.json)


def _guard(args: argparse.Namespace) -> int:
    from nlqlib.commands_guard import guard

    return guard(args.questions, args.raw, args.condition, args.out, args.json)
