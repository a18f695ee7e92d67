"""`window before.txt after.txt --elapsed 60`: tables or JSON, 0 only for a valid window, 2 for no page."""

import gzip
import json
from pathlib import Path

import pytest
from metrics_pages import counter, gauge, histogram, labels, start_time

from nlqlib.__main__ import main

QUEUE, PREFILL, DECODE = (f"vllm:request_{name}_time_seconds" for name in ("queue", "prefill", "decode"))
E2E = "vllm:e2e_request_latency_seconds"


def page(requests: int, queue_s: float = 0.02, decode_s: float = 2.0, start: float = 1.75e9) -> str:
    """A server that has finished `requests` equal requests of 1,000 prompt and 50 output tokens."""
    text = start_time(start) + gauge("vllm:num_requests_running", 3) + gauge("vllm:num_requests_waiting", 5)
    text += gauge("vllm:kv_cache_usage_perc", 0.015)
    text += counter("vllm:prefix_cache_queries", 1000 * requests)
    text += counter("vllm:prefix_cache_hits", 900 * requests)
    text += counter("vllm:prompt_tokens", 1000 * requests)
    text += counter("vllm:generation_tokens", 50 * requests)
    text += counter("vllm:request_success", requests, finished_reason="stop")
    text += f"vllm:cache_config_info{labels(num_gpu_blocks='2588', block_size='16')} 1.0\n"
    for name, value in (
        (QUEUE, queue_s),
        (PREFILL, 0.1),
        (DECODE, decode_s),
        (E2E, queue_s + 0.15 + decode_s),
    ):
        text += histogram(name, [value] * requests)
    return text


def saved(folder: Path, before: str, after: str) -> list[str]:
    paths = [folder / "before.txt", folder / "after.txt"]
    for path, text in zip(paths, (before, after), strict=True):
        path.write_text(text, encoding="utf-8")
    return [str(path) for path in paths]


def told(capsys: pytest.CaptureFixture[str], files: list[str], status: int = 0, elapsed: str = "60") -> dict:
    assert main(["window", *files, "--elapsed", elapsed, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], files: list[str], elapsed: str = "60") -> str:
    assert main(["window", *files, "--elapsed", elapsed]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    return shown.err


def test_json_holds_the_differences(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = told(capsys, saved(tmp_path, page(10), page(110)))
    assert (found["valid"], found["requests_finished"], found["prompt_tokens"]) == (True, 100, 100_000)
    assert (found["hit_rate"], found["computed_prompt_tokens"]) == (0.9, 10_000)
    assert (found["running"], found["waiting"], found["kv_usage"]) == (3, 5, 0.015)
    assert (found["blocks"], found["block_size"], found["models"]) == (2588, 16, ["m"])
    assert (found["preemptions"], found["ttft_s"]) == (None, None)
    assert found["observed"]["queue_s"] == 100


def test_a_percentile_in_the_first_bucket_is_only_bounded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = told(capsys, saved(tmp_path, page(10), page(110)))
    assert found["queue_s"] == pytest.approx(0.020)
    assert found["percentiles"]["queue_s"] == {"p50": "≤ 0.3", "p95": "≤ 0.3", "p99": "≤ 0.3"}
    assert "0.285" not in json.dumps(found)


def test_the_decomposition_shows_its_residual(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    parts = told(capsys, saved(tmp_path, page(10), page(110)))["decomposition"]
    assert [t["name"] for t in parts["terms"]] == ["engine intake", "engine queue", "prefill", "decode"]
    assert parts["total_s"] == pytest.approx(2.17)
    assert parts["residual"]["mean_s"] == pytest.approx(0.05)
    assert (parts["closes"], parts["missing"], parts["n"]) == (True, ["engine intake"], 100)


def test_the_tables_name_what_they_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["window", *saved(tmp_path, page(10), page(110)), "--elapsed", "60"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("60 s, engines: 1, model: m\n")
    words = " ".join(shown.split())
    assert "requests_finished 100 1.66667 requests" in words
    assert "time_to_first_token_seconds missing" in words
    assert "≤ 0.3" in shown and "= engine E2E" in shown and "residual" in shown


def test_a_counter_that_fell_is_an_invalid_window_and_status_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = told(capsys, saved(tmp_path, page(1000), page(40)), status=1)
    assert (found["valid"], found["requests_finished"], found["queue_s"]) == (False, None, None)
    rule = next(r for r in found["rules"] if r["rule"] == "counters only grew")
    assert rule["ok"] is False and "or the two scrapes are swapped" in rule["value"]


def test_an_invalid_window_shows_its_rules_and_no_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = saved(tmp_path, page(10), page(900, start=1.75e9 + 60))
    assert main(["window", *files, "--elapsed", "60"]) == 1
    shown = capsys.readouterr().out
    assert "this window is invalid" in shown and "another process answers" in shown
    assert "INVALID" in shown and "prompt_tokens" not in shown


def test_a_mean_longer_than_the_window_is_invalid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, saved(tmp_path, page(0), page(5, decode_s=75)), status=1)["valid"] is False


def test_a_quiet_window_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["window", *saved(tmp_path, page(7), page(7)), "--elapsed", "60"]) == 0
    assert "no request finished in this window" in capsys.readouterr().out


def test_a_gzipped_page_is_read_as_it_is_retained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("before.prom.gz", "after.prom.gz")]
    for path, n in zip(files, (10, 110), strict=True):
        Path(path).write_bytes(gzip.compress(page(n).encode()))
    assert told(capsys, files)["requests_finished"] == 100


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the page is empty"),
        ("<html></html>", "this is HTML"),
        ('{"detail": "Not Found"}', "this is JSON"),
        ("up 1\n", "holds no metric of vLLM"),
        ('vllm:prompt_tokens_total{engine="0', "only a part of one"),
    ],
)
def test_a_file_that_is_no_page_of_vllm_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, reason: str
) -> None:
    said = refused(capsys, saved(tmp_path, page(1), text))
    assert "after.txt" in said and reason in said


def test_a_file_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = saved(tmp_path, page(1), page(2))
    absent = str(tmp_path / "absent.txt")
    assert "No such file" in refused(capsys, [good[0], absent])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(page(1).encode())[:40])
    assert "cut or damaged" in refused(capsys, [str(tmp_path / "cut.gz"), good[1]])
    (tmp_path / "latin").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refused(capsys, [good[0], str(tmp_path / "latin")])
    assert "Is a directory" in refused(capsys, [good[0], str(tmp_path)])


@pytest.mark.parametrize("elapsed", ["0", "-3", "nan", "inf"])
def test_the_seconds_in_between_must_be_positive(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, elapsed: str
) -> None:
    assert "--elapsed" in refused(capsys, saved(tmp_path, page(1), page(2)), elapsed)
