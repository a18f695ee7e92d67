"""The page on adding something is followed as it stands, in a copy of the house, step by step."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.experiments.questions import load_questions

PAGE = (paths.NOTEBOOKS / "extending.md").read_text("utf-8")
COPIED = ("nlqlib", "data", "notebooks")
WORKLOADLESS = ("TARGET", "PROFILE", "NOTEBOOKS", "CLIENT", "REMEASURE", "MAX_REQUESTS", "MAX_TOKENS")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of what the recipes change; nothing of ours is touched."""
    left_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in COPIED:
        shutil.copytree(paths.ROOT / name, tmp_path / name, ignore=left_out)
    shutil.copy(paths.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def python(house: Path, *argv: str) -> str:
    """What Python says when it is run in the copy; it must end well."""
    clean = {k: v for k, v in os.environ.items() if k not in WORKLOADLESS}
    env = {**clean, "PYTHONPATH": str(house), "PYTHONUTF8": "1"}
    command = [sys.executable, *argv]
    ran = subprocess.run(command, cwd=house, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-2000:]
    return ran.stdout


def edit(path: Path, old: str, new: str) -> None:
    """Replace `old`, which stands there once."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1, (path.name, old)
    path.write_text(text.replace(old, new), "utf-8")


def section(title: str) -> str:
    """The text of the page under `## title`."""
    found: str = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return found


# ---- a notebook ------------------------------------------------------------------------------------------


@pytest.fixture
def with_notebook(house: Path) -> Path:
    """Steps 1 to 4: two modules, a notebook, and its lines among the plans."""
    experiments = house / "nlqlib" / "experiments"
    shutil.copy(experiments / "saturation.py", experiments / "again.py")
    shutil.copy(experiments / "saturation_page.py", experiments / "again_page.py")
    source = (house / "notebooks" / "06_saturation.ipynb").read_text("utf-8")
    for old, new in (("06_saturation", "18_again"), ("saturation_page", "again_page")):
        source = source.replace(old, new)
    source = re.sub(r"\bsaturation\b(?=[.,]| as)", "again", source)
    (house / "notebooks" / "18_again.ipynb").write_text(source, "utf-8")
    edit(experiments / "plans.py", "    admission,\n", "    admission,\n    again,\n")
    edit(
        experiments / "plans.py",
        '    "17_control_to_signal": control.points,\n',
        '    "17_control_to_signal": control.points,\n    "18_again": again.points,\n',
    )
    return house


def test_a_notebook_is_planned_run_and_retained(with_notebook: Path) -> None:
    few = ("--notebooks", "18", "--profile", "quick", "-p", "beyond=[32]", "-p", "repeats=1")
    planned = json.loads(python(with_notebook, "-m", "nlqlib", "plan", *few, "--json"))
    assert planned["18_again"]["requests"] > 0
    said = python(with_notebook, "-m", "nlqlib", "reproduce", *few)
    assert "1 of 1 notebooks" in said
    assert list((with_notebook / "artifacts/twin/18_again").glob("*.json"))
    assert (with_notebook / "build/executed/twin/18_again.ipynb").is_file()


# ---- a metric of the server ------------------------------------------------------------------------------

READ = """
from nlqlib.analysis.window import scrape_of, window
def page(n):
    return (f'vllm:request_success_total {n}\\nvllm:swapped_total {7 * n}\\n'
            f'vllm:swap_seconds_bucket{{le="+Inf"}} {n}\\n'
            f'vllm:swap_seconds_sum {0.5 * n}\\nvllm:swap_seconds_count {n}\\n')
def bare(n):
    return f'vllm:request_success_total {n}\\n'
found = window(scrape_of([page(2)], 0.0), scrape_of([page(10)], 60.0))
assert found.valid, found.rules
without = window(scrape_of([bare(1)], 0.0), scrape_of([bare(2)], 60.0))
print(found.histograms["swap_s"].mean, found.swapped, without.mean("swap_s"), without.swapped)
"""


def test_a_metric_of_the_server_is_one_entry_and_for_a_counter_one_field(house: Path) -> None:
    edit(
        house / "nlqlib" / "metric_names.py",
        '    _quantity("cache_config"',
        '    _quantity("swap_s", "histogram", "s", "swap_seconds"),\n'
        '    _quantity("swapped", "counter", "blocks", "swapped"),\n    _quantity("cache_config"',
    )
    edit(
        house / "nlqlib" / "analysis" / "window.py",
        "    preemptions: float | None = None\n",
        "    preemptions: float | None = None\n    swapped: float | None = None\n",
    )
    assert python(house, "-c", READ).split() == ["0.5", "56.0", "None", "None"]


# ---- a metric of the business ----------------------------------------------------------------------------


def test_a_metric_of_the_business_is_one_table_and_no_code(house: Path) -> None:
    [table] = re.findall(r"```toml\n(.*?)```", section("A metric of the business"), re.DOTALL)
    added = table + '\n[measures.lines]\nfact = "line"\nvalue = "count(*)"\n'
    catalog = house / "data" / "catalog.toml"
    catalog.write_text(f"{catalog.read_text('utf-8')}\n{added}", "utf-8")
    wire = {**load_questions("dev")[0].golds[0].wire(), "metrics": ["lines_per_order"]}
    (house / "intent.json").write_text(json.dumps(wire), "utf-8")
    said = python(house, "-m", "nlqlib", "sql", "intent.json")
    assert "lines_per_order" in said and "count(*)" in said


# ---- a guardrail rule ------------------------------------------------------------------------------------

RULE = '''
"""A rule for a test: a breakdown of everything stays one."""
from nlqlib.nlq.decision import GuardDecision

def correct(question, raw, catalog):
    """`raw`, and the decision to keep it."""
    kind = raw.query_type if raw else None
    return raw, (GuardDecision("stays", (), kind, kind, "kept"),)
'''


def test_a_guardrail_rule_is_a_module_a_name_and_a_condition(house: Path) -> None:
    (house / "nlqlib" / "nlq" / "steady.py").write_text(RULE, "utf-8")
    correction = house / "nlqlib" / "nlq" / "correction.py"
    edit(correction, '    "guardrail": LEXICAL,\n', '    "guardrail": LEXICAL,\n    "steady": LEXICAL,\n')
    edit(correction, "import cues, guardrail\n", "import cues, guardrail, steady\n")
    edit(
        correction,
        '    if name == "guardrail":\n',
        '    if name == "steady":\n        return _forced(*steady.correct(question, heard.raw, catalog))\n'
        '    if name == "guardrail":\n',
    )
    edit(
        house / "nlqlib" / "experiments" / "conditions.py",
        '        _asking("cues", "baseline", "cues"),\n',
        '        _asking("steady", "baseline", "steady"),\n        _asking("cues", "baseline", "cues"),\n',
    )
    rows = [{"id": q.id, "raw": q.golds[0].wire()} for q in load_questions("dev")]
    (house / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    argv = ("guard", "dev", "--raw", "rows.jsonl", "--condition", "steady", "--json")
    told = json.loads(python(house, "-m", "nlqlib", *argv))
    assert told["correction"] == "steady" and not any(row["changed"] for row in told["rows"])
    assert all(row["decisions"][0]["rule"] == "stays" for row in told["rows"])


# ---- the page itself -------------------------------------------------------------------------------------


def test_every_file_and_command_that_the_page_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    known = capsys.readouterr().out
    assert all(re.search(rf"\b{c}\b", known) for c in re.findall(r"python -m nlqlib ([a-z]+)", PAGE))
    for target in re.findall(r"`make ([a-z-]+)", PAGE):
        assert re.search(rf"^{target}:", (paths.ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"`((?:nlqlib|tests|data|notebooks)/[\w/]+\.(?:py|toml|ipynb))`", PAGE)
    assert named and all((paths.ROOT / name).is_file() for name in named if "NAME" not in name)


def test_every_recipe_of_the_page_is_followed_here_or_in_a_test_it_names() -> None:
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert titles == [
        "A notebook",
        "A metric of the server",
        "A metric of the business",
        "A guardrail rule",
        "A catalog",
    ]
    assert "tests/test_other_trade.py" in section("A catalog")
