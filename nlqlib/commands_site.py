"""`site`, `publish` and `readme`: the executed notebooks as pages, as one archive, as the README's story.

What the prose pages say about a run's cost is planned here, from the notebooks' own parameters.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlqlib import front_page_data, front_page_readme, front_page_twin, paths, publish, run_settings, site
from nlqlib.experiments import diagnose_rates_page
from nlqlib.experiments.plans import PLANS
from nlqlib.files import slug
from nlqlib.notebook_params import declared
from nlqlib.plan import HEADER, Asked, Plan, plan_rows

ANY_URL = "https://host/v1"
"""Planning contacts nothing; it counts what a new endpoint would be sent."""
PLANNED = {
    "plan url": (ANY_URL, "full"),
    "plan local": ("local", "quick"),
}


def build(argv: Sequence[str]) -> int:
    """`python -m nlqlib site`: the pages; with `TARGET` a URL, those of that endpoint alone."""
    began = time.monotonic()
    return site.main([*argv, *_own_target(argv)], texts(), began)


def _own_target(argv: Sequence[str]) -> list[str]:
    """For a configured endpoint, what of it ran to its end, unless targets are named."""
    settings = run_settings.parse("site", [])
    named = any(text.startswith(("--target", "-h", "--help")) for text in argv)
    return (
        ["--partial", "--target", slug(settings.target_name)]
        if "://" in settings.target and not named
        else []
    )


def texts() -> dict[str, str]:
    """What the prose pages hold that no executed notebook says, by mark."""
    twin = front_page_twin.document()
    return {
        **{mark: plan_table(target, profile) for mark, (target, profile) in PLANNED.items()},
        "twin error": f"{front_page_twin.error_sentence(twin)}\n\n{front_page_twin.error_table(twin)}",
        "twin is not": front_page_twin.limits(twin),
        "diagnosis error": diagnose_rates_page.page(diagnose_rates_page.retained()),
        "data origins": front_page_data.origins(),
        "recordings": front_page_data.recordings(),
    }


def plans(target: str, profile: str) -> Mapping[str, Plan | None]:
    """What each notebook sends to a `target` on which nothing is retained; contacts nothing."""
    found = sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))
    return {p.stem: _plan(p, target, profile) for p in found}


def _plan(notebook: Path, target: str, profile: str) -> Plan | None:
    if notebook.stem not in PLANS:
        return None
    return PLANS[notebook.stem](
        Asked(notebook.stem, target, profile, None, declared(notebook), remeasure=True)
    )


def plan_table(target: str, profile: str) -> str:
    """`plans` as a Markdown table."""
    lines = [HEADER, ["---"] * len(HEADER), *plan_rows(plans(target, profile))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def archive(argv: Sequence[str]) -> int:
    """`python -m nlqlib publish`: the built site as one archive; prints its path, size and hash."""
    parser = argparse.ArgumentParser(
        prog="python -m nlqlib publish", description="The site as one zip archive."
    )
    parser.add_argument("--site", type=Path, default=paths.BUILD / "site", help="the built site")
    parser.add_argument("--out", type=Path, default=paths.BUILD / "site.zip", help="the archive")
    args = parser.parse_args(argv)
    try:
        made = publish.publish(args.site, args.out)
    except publish.PublishError as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    print(f"{made.path}: {made.size_bytes / 1e6:.1f} MB, {made.files} files, sha256 {made.sha256}")
    return 0


def readme(argv: Sequence[str]) -> int:
    """`python -m nlqlib readme`: the README's story, pictures and costs from executed notebooks."""
    parser = argparse.ArgumentParser(prog="python -m nlqlib readme", description="Renew the README's story.")
    parser.add_argument("--executed", type=Path, default=paths.BUILD / "executed", help="executed notebooks")
    args = parser.parse_args(argv)
    costs = {mark: plan_table(*PLANNED[mark]) for mark in ("plan url", "plan local")}
    try:
        written = front_page_readme.renew(paths.ROOT / "README.md", site.load(args.executed), costs)
    except site.SiteError as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    print("\n".join(str(path.relative_to(paths.ROOT)) for path in written))
    return 0
