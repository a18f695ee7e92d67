"""Arguments and examples of the small commands: sql, serve, engine, simulate, validate-twin, window."""

import argparse

from nlqlib.commands_form import Commands, subcommand

SQL = """Translate one intent into SQL, run it, and show bound values and rows; no model is asked.

An intent has these nine keys. query_type is breakdown, top_n_by_metric or time_series; names and values are
those of data/catalog.toml; each line of data/questions/dev.jsonl has one under "gold"."""
SQL_EXAMPLE = """example: intent.json holds
  {"evidence": "", "query_type": "breakdown", "metrics": ["revenue"], "dimensions": ["region"],
   "filters": [], "period": "2024", "grain": null, "sort": null, "limit": null}
  python -m nlqlib sql intent.json
prints (shortened)
  WITH "line_rows" AS (
  SELECT o.region AS "region", sum(l.net_amount) AS "revenue"
  …
  bound values: 2024-01-01 05:00:00, 2025-01-01 05:00:00

  revenue by region; 2024-01-01 to 2024-12-31, America/New_York time

     region revenue (money)
    Central      1399220.37
       East      1761518.89
  …"""

SERVE = """Serve an endpoint in real time on the loopback, until Ctrl-C.

local: the real vLLM of this machine. twin: the modelled endpoint, which takes as long as it models."""
SERVE_EXAMPLE = """example: a modelled endpoint that answers whatever it is asked, in lengths that are drawn
  python -m nlqlib serve twin --port 8001 --words synthetic
prints
  twin: times modelled (Qwen2.5-3B-Instruct on one NVIDIA L4 under vLLM 0.12.0);
    lengths drawn (115 ± 3 tokens)
  twin: http://127.0.0.1:8001/v1; Ctrl-C ends it
and is then a target like any other
  python -m nlqlib sweep --target http://127.0.0.1:8001/v1 --concurrency 1,4 --requests 8"""

SIMULATE = """Run the twin on an explicit list of requests and show the times of each, by its own clock.

engine takes vLLM's names (num_gpu_blocks, max_num_seqs, max_num_batched_tokens, block_size …), and
vllm_version, which sets the flags that versions differ in. step_time takes coefficients such as fixed_s, or
{"twin": "l4-qwen2.5-3b"}, whose engine then fills what engine leaves out. A request has arrival_s,
output_tokens, and prompt_tokens or prompt_token_ids (which decide what a prefix cache finds); it may have
output_token_ids, cache_salt and an id. What is not understood is refused, with the nearest known name."""
SIMULATE_EXAMPLE = """example: scenario.json holds
  {"engine": {"num_gpu_blocks": 100, "max_num_seqs": 8},
   "step_time": {"fixed_s": 0.01},
   "requests": [{"arrival_s": 0.0, "prompt_tokens": 100, "output_tokens": 5},
                {"arrival_s": 0.105, "prompt_tokens": 100, "output_tokens": 5, "id": "late"}]}
  python -m nlqlib simulate scenario.json
prints (shortened: prompt, cached and output tokens and preemptions stand beside them)
    id  queued (s)  scheduled (s)  first token (s)  last token (s)
     0    0.000000       0.000000         0.010000        0.050000
  late    0.105000       0.105000         0.115000        0.155000
  …
  2 requests, 10 steps, prefix cache 0 of 200 tokens, 0 preemptions"""

VALIDATE = """Check every stated bound of the twin; exit status 0 only if all were looked at and are met.

groups: throughput, fit, tokens, rtx-4090, engine, counters, speed, socket, determinism"""
VALIDATE_EXAMPLE = """example
  python -m nlqlib validate-twin --only tokens
prints (shortened)
  what                                 bound   value  tag
  ITL and TTFT: TTFT, warm            ≤ 8.0%  +0.03%  predicted  met
  ITL and TTFT: TTFT, diverse prefix  ≤ 8.0%  -7.04%  predicted  met
  …
  5 of 13 bounds met, 0 not met, 8 not run"""

WINDOW = "Show what a server did between two saved /metrics pages: counts, times, and where latency goes."
WINDOW_EXAMPLE = """example
  curl -s http://127.0.0.1:8000/metrics > before.txt; sleep 60
  curl -s http://127.0.0.1:8000/metrics > after.txt
  python -m nlqlib window before.txt after.txt --elapsed 60
prints (shortened)
  60 s, engines: 1, model: m
  …
       requests_finished     100    1.66667    requests
           prompt_tokens  100000    1666.67      tokens
  …
           term mean (s) share
  engine intake  missing
   engine queue     0.02  0.9%
        prefill      0.1  4.6%
         decode        2 92.2%
       residual     0.05  2.3%
   = engine E2E     2.17"""


def register(commands: Commands) -> None:
    """Add the commands and their arguments."""
    sql = subcommand(commands, "sql", "intent → SQL, bound values, rows (no model)", SQL, SQL_EXAMPLE)
    sql.add_argument("intent", help="a JSON file with one intent; - reads standard input")
    _as_json(sql)
    sql.set_defaults(command=_sql)
    _engine(commands)
    _twin(commands)
    between = "two saved /metrics pages → what the server did in between"
    window = subcommand(commands, "window", between, WINDOW, WINDOW_EXAMPLE)
    window.add_argument("before", help="the page at the beginning, a text file, plain or gzipped")
    window.add_argument("after", help="the page at the end")
    window.add_argument("--elapsed", type=float, required=True, help="seconds between the two")
    _as_json(window)
    window.set_defaults(command=_window)


def _engine(commands: Commands) -> None:
    serve = subcommand(commands, "serve", "an endpoint in real time, until Ctrl-C", SERVE, SERVE_EXAMPLE)
    serve.add_argument("what", choices=["local", "twin"])
    serve.add_argument("--port", type=int, help="port on the loopback (default: a free one)")
    twin = serve.add_argument_group("serve twin")
    twin.add_argument("--twin", help="name or file of a twin document (default: the article's L4)")
    twin.add_argument("--words", choices=["recordings", "synthetic"], help="replayed, or lengths drawn")
    twin.add_argument("--output-tokens", type=float, help="mean of the lengths drawn (default: 115)")
    twin.add_argument("--output-sd", type=float, help="their spread (default: 3)")
    twin.add_argument("--seed", type=int, help="seed of the lengths drawn (default: 0)")
    twin.add_argument("--max-num-seqs", type=int, help="sequences running at once (default: the document's)")
    serve.set_defaults(command=_serve)
    install = commands.add_parser("engine", help="install vLLM and its model into the cache")
    install.set_defaults(command=_install)


def _twin(commands: Commands) -> None:
    times = "twin on an explicit request list → per-request times"
    simulate = subcommand(commands, "simulate", times, SIMULATE, SIMULATE_EXAMPLE)
    simulate.add_argument(
        "scenario", help="a JSON file with engine, step_time and requests; - reads standard input"
    )
    _as_json(simulate)
    simulate.set_defaults(command=_simulate)
    bounds = "every stated bound of the twin, met or not"
    validate = subcommand(commands, "validate-twin", bounds, VALIDATE, VALIDATE_EXAMPLE)
    validate.add_argument(
        "--only", nargs="+", default=[], metavar="GROUP", help="these groups of bounds alone"
    )
    _as_json(validate)
    validate.set_defaults(command=_validate)


def _as_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="JSON instead of tables")


def _sql(args: argparse.Namespace) -> int:
    from nlqlib.commands import sql  # what a command needs is imported when it runs, not for --help

    return sql(args.intent, args.json)


def _install(args: argparse.Namespace) -> int:
    from nlqlib.commands import install

    return install()


def _serve(args: argparse.Namespace) -> int:
    if args.what == "local":
        from nlqlib.commands import serve

        return serve(args.port)
    from nlqlib import commands_serve

    names = ("twin", "words", "output_tokens", "output_sd", "seed", "max_num_seqs")
    settings = commands_serve.twin_settings(**{name: getattr(args, name) for name in names})
    return commands_serve.twin(args.port, settings)


def _simulate(args: argparse.Namespace) -> int:
    from nlqlib.commands_twin import simulate

    return simulate(args.scenario, args.json)


def _validate(args: argparse.Namespace) -> int:
    from nlqlib.commands_twin import validate

    return validate(args.only, args.json)


def _window(args: argparse.Namespace) -> int:
    from nlqlib.commands_window import window

    return window(args.before, args.after, args.elapsed, args.json)
