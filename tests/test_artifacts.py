"""Retained points: reused when equal, whole or absent, byte-identical over runs, and free of keys."""

import dataclasses
import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib import files, paths
from nlqlib.artifact_record import OTHER_CODE, ArtifactError, load_record, load_records
from nlqlib.artifacts import Measured, PointKey, Record, Store, fingerprint, source_digest
from nlqlib.files import WriteError, canonical_json, plain, slug, write_atomic
from nlqlib.fingerprint import normalised, settings_fingerprint
from nlqlib.locking import EndpointLock, LockedError, utc_now
from nlqlib.progress import Progress
from nlqlib.records import Metric, Rule, ServerIdentity, Workload
from nlqlib.remeasured import begun_since, run_mark
from nlqlib.runs import connect_runs, overlapping, run_metrics, runs

KEY = PointKey(
    target="twin",
    notebook="05_knee",
    point="concurrency 8",
    kind="point",
    params={"concurrency": 8, "repeats": 3},
    workload=Workload("dev", "ab" * 32, 20, seed=1),
    identity={"name": "twin", "model": "Qwen2.5"},
    source="code-1",
)
MODELLED = functools.partial(Metric, tag="modelled")
MEASURED = Measured(
    server=ServerIdentity("Qwen2.5", engine="twin"),
    requests={"total": 2, "ok": 1, "timeout": 1},
    metrics=[
        Metric("e2e_s", "s", "p95", 3.25, 2, "modelled"),
        Metric("ttft_s", "s", "mean", None, None, "modelled"),
    ],
    samples=[{"request_id": "a", "e2e_s": 3.25}, {"request_id": "ü", "e2e_s": None}],
    validity=[Rule("client lag", 0.1, 0.5, True)],
    results={"note": "größer"},
    scrapes={"before": b"vllm:running 0\n", "after": b"vllm:running 1\n"},
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts", remeasured_root=tmp_path / "remeasured")


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NLQLIB_MANIFEST", "NLQLIB_PARAMS_PASSED", "NLQLIB_PROGRESS", "API_KEY_ENV", "TARGET"):
        monkeypatch.delenv(name, raising=False)


def measured() -> Measured:
    return MEASURED


def never() -> Measured:
    raise AssertionError("measured although a retained point fits")


def failing(error: BaseException) -> Callable[[], Measured]:
    def fn() -> Measured:
        raise error

    return fn


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# What is written


def test_a_point_is_one_json_file_named_by_target_notebook_point_and_fingerprint(store: Store) -> None:
    record = store.measure(KEY, measured)
    expected = store.root / "twin" / "05_knee" / f"concurrency-8-{fingerprint(KEY)[:8]}.json"
    assert record.path == expected and expected.is_file()


def test_a_body_holds_every_field_and_its_values(store: Store) -> None:
    body = json.loads(store.measure(KEY, measured).path.read_text("utf-8"))
    assert body["schema_version"] == 1 and body["status"] == "success" and body["kind"] == "point"
    assert body["params"] == {"concurrency": 8, "repeats": 3}
    assert body["workload"] == {"name": "dev", "sha256": "ab" * 32, "n": 20, "seed": 1}
    assert body["requests"] == {"total": 2, "ok": 1, "timeout": 1}
    assert body["metrics"][0]["value"] == 3.25 and body["metrics"][1]["value"] is None
    assert body["validity"] == [{"rule": "client lag", "value": 0.1, "threshold": 0.5, "ok": True}]
    assert body["provenance"] == {"source": "code-1"} and body["error"] is None


def test_times_machine_and_versions_are_in_the_sidecar_only(store: Store) -> None:
    record = store.measure(KEY, measured)
    run = json.loads(record.path.with_suffix(".run.json").read_text("utf-8"))
    assert {"run_id", "started_at", "completed_at", "params_passed", "provenance"} <= run.keys()
    assert run["provenance"]["packages"]["numpy"] == np.__version__
    assert not {"run_id", "started_at", "completed_at", "machine"} & record.body.keys()


def test_times_are_utc_with_their_offset(store: Store) -> None:
    run = store.measure(KEY, measured).run
    assert datetime.fromisoformat(run["started_at"]).utcoffset().total_seconds() == 0  # type: ignore[union-attr]
    assert run["completed_at"].endswith("+00:00")


def test_two_measurements_of_a_twin_point_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (Store(tmp_path / name).measure(KEY, measured).path.parent for name in ("a", "b"))
    stable = [
        {n: b for n, b in everything(f).items() if not n.endswith(".run.json")} for f in (first, second)
    ]
    assert stable[0] == stable[1] and len(stable[0]) == 4


def test_text_is_utf8_and_keys_are_sorted(store: Store) -> None:
    raw = store.measure(KEY, measured).path.read_bytes().decode("utf-8")
    assert "größer" in raw
    assert list(json.loads(raw)) == sorted(json.loads(raw))


def test_what_is_written_is_read_back(store: Store) -> None:
    record = load_record(store.measure(KEY, measured).path)
    assert record.metrics == tuple(MEASURED.metrics)
    assert record.value("e2e_s", "p95") == 3.25 and record.value("ttft_s", "mean") is None
    assert record.samples() == MEASURED.samples
    assert record.scrapes() == MEASURED.scrapes
    assert record.server == MEASURED.server and record.workload == KEY.workload
    assert record.validity == tuple(MEASURED.validity) and record.results == MEASURED.results


def test_numpy_numbers_become_numbers(store: Store) -> None:
    found = Measured(results={"a": np.float64(1.5), "b": np.int64(2), "c": np.bool_(True)})
    assert store.measure(KEY, lambda: found).results == {"a": 1.5, "b": 2, "c": True}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_with_their_place(store: Store, value: float) -> None:
    with pytest.raises(ValueError, match=r"results\.rows\[1\]\.x is .*None for what is missing"):
        store.measure(KEY, lambda: Measured(results={"rows": [{}, {"x": value}]}))
    assert only(store).status == "error"


def test_an_awkward_point_name_becomes_a_portable_file_name(store: Store) -> None:
    key = dataclasses.replace(KEY, point="größe {0}/../x y", target="my endpoint")
    record = store.measure(key, measured)
    assert record.path.parent == store.root / "my-endpoint" / "05_knee"
    assert record.body["point"] == "größe {0}/../x y"
    assert store.measure(key, never).reused


@given(st.text())
def test_a_slug_is_a_plain_file_name(name: str) -> None:
    found = slug(name)
    assert 0 < len(found) <= files.SLUG_LIMIT and found.isascii()
    assert "/" not in found and not found.startswith(".") and slug(found) == found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_canonical_json_keeps_every_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_foreign_types_are_refused_with_their_place() -> None:
    with pytest.raises(TypeError, match=r"\.a is a set"):
        plain({"a": {1}})
    with pytest.raises(TypeError, match="keys are text"):
        plain({1: 2})


# Reuse


def only(store: Store) -> Record:
    (record,) = load_records(store.root)
    return record


def test_a_retained_point_is_not_measured_again(store: Store) -> None:
    store.measure(KEY, measured)
    before = everything(store.root)
    again = store.measure(KEY, never)
    assert again.reused and again.value("e2e_s", "p95") == 3.25
    assert everything(store.root) == before


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"concurrency": 9, "repeats": 3}},
        {"workload": Workload("dev", "cd" * 32, 20, seed=1)},
        {"identity": {"name": "twin", "model": "other"}},
        {"source": "code-2"},
        {"kind": "bench"},
    ],
)
def test_a_point_with_any_other_setting_is_measured(store: Store, change: dict[str, Any]) -> None:
    store.measure(KEY, measured)
    other = dataclasses.replace(KEY, **change)
    assert not store.measure(other, measured).reused
    assert len(list(load_records(store.root))) == 2


def test_the_order_of_parameters_does_not_matter() -> None:
    other = dataclasses.replace(KEY, params=dict(reversed(KEY.params.items())))
    assert fingerprint(other) == fingerprint(KEY)


@pytest.mark.parametrize("status", ["started", "cancelled", "error"])
def test_a_point_that_did_not_succeed_is_measured_again(store: Store, status: str) -> None:
    path = store.measure(KEY, measured).path
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "status": status}), "utf-8")
    assert not store.measure(KEY, measured).reused
    assert only(store).status == "success"


def test_a_body_says_started_while_it_is_measured(store: Store) -> None:
    def look() -> Measured:
        assert only(store).status == "started"
        return MEASURED

    store.measure(KEY, look)


def test_a_point_of_other_code_is_found_marked_and_neither_reused_nor_lost(store: Store) -> None:
    old = store.measure(KEY, measured)
    changed = dataclasses.replace(KEY, source="code-2")
    found = store.find(changed)
    assert found is not None and found.note == OTHER_CODE and not found.current and found.path == old.path
    assert not store.measure(changed, measured).reused
    assert old.path.is_file()
    assert settings_fingerprint(changed) == settings_fingerprint(KEY)


def test_nothing_is_found_where_nothing_is_retained(store: Store) -> None:
    assert store.find(KEY) is None


def test_altered_samples_are_refused_with_what_to_do(store: Store) -> None:
    path = store.measure(KEY, measured).path.with_suffix(".jsonl")
    path.write_bytes(path.read_bytes().replace(b"3.25", b"3.20"))
    with pytest.raises(ArtifactError, match=r"jsonl is damaged \(its hash .*restore it.*delete"):
        store.measure(KEY, never)


@pytest.mark.parametrize("suffix", [".jsonl", ".before.prom.gz"])
def test_a_missing_part_is_refused(store: Store, suffix: str) -> None:
    store.measure(KEY, measured).path.with_suffix(suffix).unlink()
    with pytest.raises(ArtifactError, match="No such file"):
        store.find(KEY)


@pytest.mark.parametrize("text", ["{", "[]", "\x00", "<<<<<<< HEAD\n"])
def test_a_damaged_body_is_refused_by_name(store: Store, text: str) -> None:
    path = store.measure(KEY, measured).path
    path.write_text(text, "utf-8")
    with pytest.raises(ArtifactError, match=r"concurrency-8.*is damaged"):
        store.find(KEY)


# Failures


def test_an_error_is_recorded_and_raised_again(store: Store) -> None:
    with pytest.raises(RuntimeError, match="engine is gone"):
        store.measure(KEY, failing(RuntimeError("engine is gone")))
    assert only(store).status == "error" and only(store).body["error"] == "RuntimeError: engine is gone"


def test_an_interrupt_is_recorded_as_cancelled_and_raised_again(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        store.measure(KEY, failing(KeyboardInterrupt()))
    assert only(store).status == "cancelled"


def test_no_key_enters_an_artifact(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_KEY", "sk-very-secret")
    monkeypatch.setenv("SOME_TOKEN", "hf_abcdef")
    found = dataclasses.replace(
        MEASURED,
        results={"sent": "Bearer sk-very-secret"},
        samples=[{"error": "401 for hf_abcdef"}],
        scrapes={"before": b"# sk-very-secret\n"},
    )
    record = store.measure(KEY, lambda: found)
    other = dataclasses.replace(KEY, point="fails")
    with pytest.raises(ValueError):
        store.measure(other, failing(ValueError("refused sk-very-secret")))
    written = b"".join(everything(store.root).values()) + record.scrapes()["before"]
    assert b"sk-very-secret" not in written and b"hf_abcdef" not in written
    assert record.results == {"sent": "Bearer ***"}


def test_a_short_key_is_hidden_when_its_variable_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDPOINT_CODE", "abcd")
    monkeypatch.setenv("API_KEY_ENV", "ENDPOINT_CODE")
    assert store.measure(KEY, lambda: Measured(results={"x": "abcd"})).results == {"x": "***"}


def test_the_host_of_a_url_target_enters_no_artifact(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET_URL", "https://llm.example.org:8443/v1")
    found = Measured(results={"a": "at https://llm.example.org:8443/v1", "b": "llm.example.org"})
    assert store.measure(KEY, lambda: found).results == {"a": "at https://***/v1", "b": "***"}


def test_a_limit_on_tokens_is_no_secret(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_TOKENS", "1000000")
    assert store.measure(KEY, lambda: Measured(results={"n": "1000000"})).results == {"n": "1000000"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; where none can be mounted, a folder (`FILL` then limits the size of files)."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    mounted = os.getuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    yield place
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


FILL = """
import os, resource, sys
from pathlib import Path
from nlqlib.artifacts import Measured, Store
from test_artifacts import KEY
if not os.path.ismount(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
Store(Path(sys.argv[1])).measure(KEY, lambda: Measured(samples=[{"x": "y" * 100_000}]))
"""


def test_a_full_disk_leaves_no_half_file_and_one_clear_line(small_disk: Path) -> None:
    command = [sys.executable, "-c", FILL, str(small_disk)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "no space left while writing" in last and "finished points stay" in last
    names = sorted(p.name.split(".", 1)[1] for p in small_disk.rglob("*") if p.is_file())
    assert names == ["json", "run.json"]
    assert next(iter(load_records(small_disk))).status == "started"


def test_finished_points_survive_a_full_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.measure(KEY, measured)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("nlqlib.files.os.fsync", full)
        with pytest.raises(WriteError, match="no space left"):
            store.measure(dataclasses.replace(KEY, point="other"), measured)
    assert [r.status for r in load_records(store.root)] == ["success"]
    assert store.measure(KEY, never).reused


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr("nlqlib.files.os.replace", refuse)
    with pytest.raises(WriteError, match="make the folder writable"):
        write_atomic(path, b"new")
    assert everything(tmp_path) == {"a.json": b"old"}


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(store: Store) -> None:
    folder = store.measure(KEY, measured).path.parent
    dead = folder / ".x.json.4194304.0123abcd.tmp"
    living = folder / f".x.json.{os.getpid()}.0123abcd.tmp"
    dead.touch()
    living.touch()
    store.measure(dataclasses.replace(KEY, point="next"), measured)
    assert not dead.exists() and living.exists()


# Measured anew


def anew(store: Store, key: PointKey = KEY, found: Measured = MEASURED) -> Record:
    return dataclasses.replace(store, remeasure=True).measure(key, lambda: found)


def test_a_point_measured_anew_with_the_same_body_is_reproduced(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(KEY, measured)
    before = everything(store.root)
    record = anew(store)
    assert str(record.comparison) == "reproduced"
    assert record.path.is_relative_to(store.root) and everything(store.root) == before
    assert (store.remeasured_root / record.path.relative_to(store.root)).is_file()
    assert capsys.readouterr().out == "05_knee concurrency 8: reproduced\n"


def test_a_point_measured_anew_with_another_value_says_what_moved(store: Store) -> None:
    store.measure(KEY, measured)
    moved = [
        Metric("e2e_s", "s", "p95", 3.9, 2, "modelled"),
        Metric("ttft_s", "s", "mean", 0.5, None, "modelled"),
    ]
    record = anew(store, found=dataclasses.replace(MEASURED, metrics=moved))
    assert str(record.comparison) == ("changed: e2e_s p95 3.25 → 3.9 s (+20.0%); ttft_s mean missing → 0.5 s")


def test_a_point_measured_anew_without_a_retained_one_is_new(store: Store) -> None:
    assert str(anew(store).comparison) == "new"


def test_a_point_is_compared_with_one_of_other_code_and_says_so(store: Store) -> None:
    store.measure(KEY, measured)
    record = anew(store, dataclasses.replace(KEY, source="code-2"))
    assert str(record.comparison) == f"reproduced ({OTHER_CODE})"


def test_the_environment_asks_for_a_new_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in {"1": True, "": False, "0": False}.items():
        monkeypatch.setenv("REMEASURE", value)
        assert Store.from_environment().remeasure is expected


# A run that measures anew, interrupted and resumed


def run_began(store: Store, since: str) -> Store:
    """The store of a run that measures anew and began at `since`."""
    return dataclasses.replace(store, remeasure=True, since=since)


def test_a_resumed_run_measures_nothing_anew_twice_and_compares_all_of_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.measure(KEY, measured)
    began = utc_now()
    moved = dataclasses.replace(MEASURED, metrics=[Metric("e2e_s", "s", "p95", 3.9, 2, "modelled")])
    first = run_began(store, began).measure(KEY, lambda: moved)
    before = everything(store.remeasured_root)
    again = run_began(store, began).measure(KEY, never)
    assert again.reused and again.path == first.path and again.value("e2e_s", "p95") == 3.9
    assert again.comparison == first.comparison and everything(store.remeasured_root) == before
    assert capsys.readouterr().out.count("changed: e2e_s p95 3.25 → 3.9 s") == 2


def test_a_run_that_begins_now_measures_what_an_earlier_one_measured_anew(store: Store) -> None:
    run_began(store, utc_now()).measure(KEY, measured)
    later = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    assert not run_began(store, later).measure(KEY, measured).reused
    assert not anew(store).reused


@pytest.mark.parametrize("change", [{"source": "code-2"}, {"params": {"concurrency": 9, "repeats": 3}}])
def test_a_resumed_run_measures_what_is_another_point_now(store: Store, change: dict[str, Any]) -> None:
    began = utc_now()
    run_began(store, began).measure(KEY, measured)
    assert not run_began(store, began).measure(dataclasses.replace(KEY, **change), measured).reused


def test_a_resumed_run_measures_what_was_interrupted(store: Store) -> None:
    began = utc_now()
    with pytest.raises(KeyboardInterrupt):
        run_began(store, began).measure(KEY, failing(KeyboardInterrupt()))
    assert not run_began(store, began).measure(KEY, measured).reused


def test_the_environment_may_say_when_the_run_began(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = "2026-05-04T03:02:01.5+00:00"
    for value, expected in {mark: mark, "1": None, "yes": None, "0": None}.items():
        monkeypatch.setenv("REMEASURE", value)
        assert Store.from_environment().since == expected


def test_a_run_mark_is_a_time_with_its_day_and_utc_without_an_offset() -> None:
    assert [run_mark(text) for text in ("1", "2026", "2026-05-04", "2026-05-04T25:00", "")] == [None] * 5
    run = {"started_at": "2026-05-04T03:00:00.000+00:00"}
    assert begun_since(run, "2026-05-04T03:00:00") and begun_since(run, "2026-05-04T04:59:59+02:00")
    assert not begun_since(run, "2026-05-04T03:00:00.001") and not begun_since({}, "2026-05-04T03:00:00")


def test_a_manifest_lists_every_point_for_the_driver(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "manifest.jsonl"
    monkeypatch.setenv("NLQLIB_MANIFEST", str(manifest))
    monkeypatch.setenv("NLQLIB_PARAMS_PASSED", '{"repeats": 3}')
    assert store.measure(KEY, measured).run["params_passed"] == {"repeats": 3}
    store.measure(KEY, never)
    with pytest.raises(ValueError):
        store.measure(dataclasses.replace(KEY, point="fails"), failing(ValueError("no")))
    lines = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    assert [(x["event"], x["point"]) for x in lines] == [
        ("started", "concurrency 8"),
        ("measured", "concurrency 8"),
        ("reused", "concurrency 8"),
        ("started", "fails"),
        ("failed", "fails"),
    ]


# The source digest


def test_a_digest_ignores_newlines_and_blanks_but_no_code() -> None:
    assert normalised("a = 1  \r\n\r\nb = 2\r\n") == normalised("a = 1\nb = 2")
    assert normalised("a = 1\n") != normalised("a = 2\n")
    assert normalised("if a:\n    b()") != normalised("if a:\n  b()")


def test_a_package_counts_with_all_its_files() -> None:
    import nlqlib.twin

    assert source_digest(["nlqlib.twin"]) == source_digest([nlqlib.twin])
    assert source_digest(["nlqlib.twin"]) != source_digest(["nlqlib.twin.recordings"])


def test_a_followed_digest_changes_with_what_a_module_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nlqlib"
    package.mkdir()
    (package / "a.py").write_text("from nlqlib import b\nfrom nlqlib.plots import show\n")
    (package / "b.py").write_text("x = 1\n")
    (package / "plots.py").write_text("show = 1\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def digests() -> tuple[str, str]:
        return source_digest(["nlqlib.a"]), source_digest(["nlqlib.a"], follow=True)

    alone, followed = digests()
    (package / "plots.py").write_text("show = 2\n")
    assert digests() == (alone, followed)
    (package / "b.py").write_text("x = 2\n")
    assert digests()[0] == alone and digests()[1] != followed


@pytest.mark.parametrize("name", ["json", "nlqlib.nothing", "nlqlibx"])
def test_a_digest_of_what_is_not_ours_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"name a module|no module of"):
        source_digest([name])


# Locks and overlaps


def test_a_second_run_on_one_endpoint_is_refused_with_the_holder(tmp_path: Path) -> None:
    with (
        EndpointLock("https://a", tmp_path),
        pytest.raises(LockedError, match=rf"by process {os.getpid()} since 20.*\+00:00"),
        EndpointLock("https://a", tmp_path),
    ):
        raise AssertionError("two runs hold one endpoint")


def test_a_lock_is_free_again_after_its_run_and_after_its_death(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from nlqlib.locking import EndpointLock\n"
        "EndpointLock('e', Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    for _ in range(2):
        with EndpointLock("e", tmp_path):
            pass


def test_other_endpoints_are_free_and_no_host_is_in_the_name(tmp_path: Path) -> None:
    with EndpointLock("https://a.example", tmp_path) as lock, EndpointLock("https://b.example", tmp_path):
        assert "example" not in lock.path.name and "example" not in lock.path.read_text()


def test_a_point_that_cannot_lock_its_endpoint_is_not_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "cache"))
    with EndpointLock("e"), pytest.raises(LockedError):
        store.measure(KEY, never, endpoint="e")
    assert list(load_records(store.root)) == []
    assert not store.measure(KEY, measured, endpoint="e").reused


def interval(name: str, start: float, end: float, instance: str | None = "one") -> Record:
    return Record(Path(name), {"point": name}, {"interval_s": [start, end], "instance": instance})


def test_points_of_one_instance_that_overlap_are_found() -> None:
    long, inside, touching, later = (
        interval("long", 0, 10),
        interval("inside", 2, 3),
        interval("touching", 10, 12),
        interval("later", 9, 9.5),
    )
    assert overlapping([later, touching, inside, long]) == [(long, inside), (long, later)]


def test_points_of_two_instances_or_of_none_do_not_overlap() -> None:
    assert overlapping([interval("a", 0, 9), interval("b", 1, 2, "two")]) == []
    assert overlapping([interval("a", 0, 9, None), interval("b", 1, 2, None)]) == []


def test_a_real_point_carries_its_endpoint_for_the_check(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "cache"))
    first = store.measure(KEY, measured, endpoint="e")
    second = store.measure(dataclasses.replace(KEY, point="next"), measured, endpoint="e")
    assert first.run["instance"] == "e" and overlapping([first, second]) == []


# Runs as SQL


def test_runs_of_an_empty_or_missing_folder_are_empty(tmp_path: Path) -> None:
    assert runs(tmp_path).fetchall() == [] and run_metrics(tmp_path / "none").fetchall() == []


def test_runs_have_one_row_per_point_and_metrics_one_per_metric(store: Store) -> None:
    store.measure(KEY, measured)
    with pytest.raises(ValueError):
        store.measure(dataclasses.replace(KEY, point="fails"), failing(ValueError("no")))
    rows = runs(store.root).project("point, status, requests_ok, model").order("point").fetchall()
    assert rows == [("concurrency 8", "success", 1, "Qwen2.5"), ("fails", "error", None, None)]
    values = run_metrics(store.root).project("name, stat, value, n").order("name").fetchall()
    assert values == [("e2e_s", "p95", 3.25, 2), ("ttft_s", "mean", None, None)]


def test_runs_can_be_joined_with_their_metrics_and_their_parameters_queried(store: Store) -> None:
    store.measure(KEY, measured)
    query = (
        "select (params->>'concurrency')::int, value from runs join run_metrics using (path) "
        "where name = 'e2e_s' and valid and completed_at > '2020-01-01 00:00:00+00'"
    )
    assert connect_runs(store.root).execute(query).fetchall() == [(8, 3.25)]


def test_the_newest_of_several_codes_is_marked(store: Store) -> None:
    store.measure(KEY, measured)
    store.measure(dataclasses.replace(KEY, source="code-2"), measured)
    rows = runs(store.root).project("source, newest").order("source").fetchall()
    assert rows == [("code-1", False), ("code-2", True)]


# Progress


def test_progress_lines_come_at_most_once_a_second_and_the_last_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLQLIB_PROGRESS", str(tmp_path / "lines"))
    with Progress(50, "concurrency") as bar:
        for n in range(50):
            bar.advance(str(n))
    lines = (tmp_path / "lines").read_text("utf-8").splitlines()
    assert lines == ["[1/50] concurrency 0 … 0 s", "[50/50] concurrency 49 … 0 s"]
