"""GPUs: from a DCGM exporter, through NVML, or missing with the reason."""

import asyncio
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_server import serve

from nlqlib.analysis.exposition import parse
from nlqlib.analysis.samples import Gpu, GpuSample, gpu_levels
from nlqlib.serving.endpoint import EndpointError
from nlqlib.serving.target import open_target
from nlqlib.serving.telemetry import MIB, Dcgm, Nvml, Telemetry, dcgm_gpus, gpu_telemetry

GPUS = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA L4"} 87
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",modelName="NVIDIA L4"} 2147483632
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA L4"} 20000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",modelName="NVIDIA L4"} 1000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA L4"} 2480
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA L4"} 71.5
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",modelName="NVIDIA L4"} NaN
"""


def sampled(telemetry: Telemetry) -> GpuSample:
    async def main() -> GpuSample:
        try:
            return await telemetry.sample()
        finally:
            await telemetry.aclose()

    return asyncio.run(main())


def answering(text: str, status: int = 200) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    return app


def test_an_exporter_is_read_in_shares_bytes_and_watts() -> None:
    with serve(answering(GPUS)) as base:
        found = sampled(Dcgm(f"{base}/metrics"))
    assert found.problem is None
    assert found.gpus[0] == Gpu("0", "NVIDIA L4", 0.87, 20000 * MIB, 22480 * MIB, 71.5)


def test_what_an_exporter_does_not_know_is_missing() -> None:
    assert dcgm_gpus(parse(GPUS))[1] == Gpu("1", "NVIDIA L4", None, 1000 * MIB, None, None)


def test_a_slice_of_a_gpu_is_known_by_its_share_of_active_time() -> None:
    page = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",GPU_I_ID="{part}"}} {share}\n'
        for part, share in ((1, 0.25), (2, 0.5))
    )
    assert [(g.name, g.utilisation) for g in dcgm_gpus(parse(page))] == [("0/1", 0.25), ("0/2", 0.5)]


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("up 1\n", 200, "the page names no GPU: is DCGM_URL"),
        ("nothing", 404, "there is no metrics page here (HTTP 404): set DCGM_URL"),
        ("<html></html>", 200, "is DCGM_URL a page of metrics?"),
        ("DCGM_FI_DEV_GPU_UTIL{", 200, "only a part of one"),
    ],
)
def test_an_exporter_that_cannot_be_read_says_why(text: str, status: int, reason: str) -> None:
    found = sampled(Dcgm("http://gpu/metrics", app=answering(text, status)))
    assert found.gpus == () and reason in str(found.problem)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(EndpointError, match="DCGM_URL cannot be used"):
        Dcgm("gpu:9400")


class NVMLError(Exception):
    """What NVML raises."""


def binding(gpus: Mapping[int, Mapping[str, Any]], fails: str | None = None) -> ModuleType:
    """NVIDIA's Python binding on a machine with `gpus`; what one of them lacks is an error."""

    def ask(name: str) -> Any:
        def call(gpu: int) -> Any:
            if name not in gpus[gpu]:
                raise NVMLError("Not Supported")
            return gpus[gpu][name]

        return call

    def start() -> None:
        if fails:
            raise NVMLError(fails)

    module = ModuleType("pynvml")
    calls = {"UtilizationRates": "rates", "MemoryInfo": "memory", "PowerUsage": "power", "Name": "name"}
    for call, name in calls.items():
        setattr(module, f"nvmlDeviceGet{call}", ask(name))
    vars(module).update(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=lambda index: index,
    )
    return module


def test_nvml_is_read_in_the_same_units(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "rates": SimpleNamespace(gpu=87, memory=40),
        "memory": SimpleNamespace(used=7, total=24),
        "power": 71500,
        "name": b"NVIDIA L4",
    }
    monkeypatch.setitem(sys.modules, "pynvml", binding({0: told, 1: {"name": "NVIDIA L4"}}))
    found = sampled(Nvml())
    assert found.gpus == (Gpu("0", "NVIDIA L4", 0.87, 7, 24, 71.5), Gpu("1", "NVIDIA L4"))


def test_without_the_binding_everything_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = sampled(Nvml())
    assert found.gpus == () and "pip install nvidia-ml-py" in str(found.problem)


def test_without_a_driver_everything_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", binding({}, fails="Driver Not Loaded"))
    assert sampled(Nvml()).problem == "no NVIDIA driver answers on this machine (Driver Not Loaded)"


def test_a_machine_without_gpus_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", binding({}))
    assert sampled(Nvml()).problem == "NVML sees no GPU on this machine"


def test_the_twin_has_no_gpu_whatever_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGM_URL", "http://gpu:9400/metrics")
    assert sampled(gpu_telemetry(open_target("twin"))).problem == "the twin is a model and has no GPU"


def test_a_url_target_is_seen_through_its_exporter_only(monkeypatch: pytest.MonkeyPatch) -> None:
    target = open_target("http://somewhere.example/v1")
    monkeypatch.delenv("DCGM_URL", raising=False)
    assert "set DCGM_URL" in str(sampled(gpu_telemetry(target)).problem)
    monkeypatch.setenv("DCGM_URL", "http://gpu:9400/metrics")
    assert isinstance(gpu_telemetry(target), Dcgm)


def test_the_local_engine_is_seen_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCGM_URL", raising=False)
    assert isinstance(gpu_telemetry(open_target("local")), Nvml)


def test_levels_of_gpus_sum_over_them_and_average_over_time() -> None:
    samples = [
        GpuSample(0, (Gpu("0", None, 0.5, 4, 24, 50), Gpu("1", None, 0.7, 2, 24, 60))),
        GpuSample(1, (), "HTTP 503"),
        GpuSample(2, (Gpu("0", None, 0.9, 8, 24, 70), Gpu("1", None, None, 2, 24, None))),
    ]
    found = gpu_levels(samples)
    assert (found.n, found.gpus) == (2, 2)
    assert found.utilisation_mean == pytest.approx(0.7)
    assert (found.utilisation_max, found.memory_used_max_bytes, found.memory_total_bytes) == (0.9, 10, 48)
    assert found.power_mean_w == 110


def test_without_gpus_every_level_is_missing() -> None:
    found = gpu_levels([GpuSample(0, (), "no GPU")])
    assert (found.n, found.gpus, found.utilisation_mean, found.power_mean_w) == (0, None, None, None)
