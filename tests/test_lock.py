"""`make` and `environment.yml` install the same pinned list."""

import tomllib

import lock
import yaml


def locked() -> dict[str, str]:
    return lock.pins(lock.LOCK.read_text())


def pip_lines() -> list[str]:
    return yaml.safe_load(lock.ENVIRONMENT.read_text())["dependencies"][-1]["pip"]


def test_environment_installs_the_lock_itself() -> None:
    assert "-r requirements.lock" in pip_lines()


def test_environment_names_the_prescribed_packages_at_the_locks_versions() -> None:
    named = lock.pins("\n".join(pip_lines()))
    vllm = named.pop("vllm")
    assert vllm == lock.VLLM.split("==")[1]
    assert named == {name: locked()[name] for name in lock.NAMED}


def test_every_dependency_of_pyproject_is_pinned() -> None:
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert set(wanted) <= set(locked())


def test_no_line_of_the_lock_names_a_registry() -> None:
    text = lock.LOCK.read_text()
    assert "://" not in text and "--index" not in text
