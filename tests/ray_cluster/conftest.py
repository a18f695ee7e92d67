"""These tests need the optional extra `ray`, which `make test` installs; a run without it says so."""

import importlib.util

HAS_RAY = importlib.util.find_spec("ray") is not None
collect_ignore_glob = [] if HAS_RAY else ["test_*.py"]


def pytest_report_header() -> str:
    """Whether the workers on Ray are tested in this run."""
    return "ray: installed" if HAS_RAY else "ray: not installed, so its workers are not tested: use make test"
