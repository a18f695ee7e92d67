"""What the GPUs behind an endpoint do: utilisation, memory, power.

From a DCGM exporter where `DCGM_URL` names one, from NVML where the engine runs on this machine; otherwise
missing, with the reason. The exporter's names, units and the values by which it says "not known" are
NVIDIA's (dcgm-exporter `default-counters.csv`, DCGM's blank values).
"""

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import Any, Protocol

from nlqlib.analysis.exposition import Exposition, ExpositionError, Labels, finite, parse
from nlqlib.analysis.samples import Gpu, GpuSample
from nlqlib.serving.inprocess import App
from nlqlib.serving.metrics import MetricsReader
from nlqlib.serving.target import Target

MIB = 1024 * 1024
BLANK = 2**31 - 16
"""DCGM writes numbers from here up for "not supported" and the like; no utilisation, MiB or W is so large."""
UTILISATION, USED, FREE, POWER = (
    f"DCGM_FI_DEV_{name}" for name in ("GPU_UTIL", "FB_USED", "FB_FREE", "POWER_USAGE")
)
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""A share of time, and the only one that a slice of a GPU (MIG) has."""


class Telemetry(Protocol):
    """Reads GPUs; belongs to the loop in which it is first used."""

    async def sample(self) -> GpuSample:
        """What the GPUs do now."""

    async def aclose(self) -> None:
        """Let go of what it holds."""


def gpu_telemetry(target: Target, dcgm_url: str | None = None) -> Telemetry:
    """How to see `target`'s GPUs; `dcgm_url` defaults to the environment's `DCGM_URL`.

    Raises `EndpointError` for an address that is none.
    """
    if target.kind == "twin":
        return Unseen("the twin is a model and has no GPU")
    url = dcgm_url or os.environ.get("DCGM_URL")
    if url:
        return Dcgm(url)
    if target.kind == "local":
        return Nvml()
    return Unseen("GPUs behind a URL are seen through a DCGM exporter only: set DCGM_URL to its /metrics")


class Unseen:
    """No telemetry, and why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def sample(self) -> GpuSample:
        """See `Telemetry`."""
        return GpuSample(asyncio.get_running_loop().time(), (), self._reason)

    async def aclose(self) -> None:
        """See `Telemetry`."""


class Dcgm:
    """Reads a DCGM exporter; no key of the endpoint goes there."""

    def __init__(self, url: str, app: App | None = None) -> None:
        self._reader = MetricsReader((url,), app=app, setting="DCGM_URL")

    async def sample(self) -> GpuSample:
        """See `Telemetry`."""
        scrape = await self._reader.scrape()
        page = scrape.pages[0]
        if page.text is None:
            return GpuSample(scrape.at_s, (), page.problem)
        try:
            gpus = dcgm_gpus(parse(page.text))
        except ExpositionError as problem:
            return GpuSample(scrape.at_s, (), str(problem))
        none = None if gpus else "the page names no GPU: is DCGM_URL the /metrics of a DCGM exporter?"
        return GpuSample(scrape.at_s, gpus, none)

    async def aclose(self) -> None:
        """See `Telemetry`."""
        await self._reader.aclose()


def dcgm_gpus(page: Exposition) -> tuple[Gpu, ...]:
    """Every GPU, or slice of one, that a DCGM exporter's page tells of."""
    fields = {name: _by_gpu(page.values(name)) for name in (UTILISATION, ENGINE_ACTIVE, USED, FREE, POWER)}
    models = {_gpu(labels): dict(labels).get("modelName") for f in fields for labels in page.values(f)}
    return tuple(
        Gpu(
            name,
            models[name],
            _utilisation(fields[UTILISATION].get(name), fields[ENGINE_ACTIVE].get(name)),
            _scaled(fields[USED].get(name), MIB),
            _memory(fields[USED].get(name), fields[FREE].get(name)),
            fields[POWER].get(name),
        )
        for name in sorted(models)
    )


def _gpu(labels: Labels) -> str:
    told = dict(labels)
    part = told.get("GPU_I_ID", "")
    return told.get("gpu", told.get("UUID", "?")) + (f"/{part}" if part else "")


def _by_gpu(series: Mapping[Labels, float]) -> dict[str, float]:
    return {_gpu(labels): v for labels, v in series.items() if finite(v) and v < BLANK}


def _utilisation(percent: float | None, share: float | None) -> float | None:
    return share if percent is None else percent / 100


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


def _memory(used: float | None, free: float | None) -> float | None:
    return None if used is None or free is None else (used + free) * MIB


class Nvml:
    """Reads this machine's GPUs through NVIDIA's own Python binding, where it is installed."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._reason: str | None = None

    async def sample(self) -> GpuSample:
        """See `Telemetry`. The calls take well under a millisecond and run in the loop."""
        at_s = asyncio.get_running_loop().time()
        if self._nvml is None and self._reason is None:
            self._open()
        if self._reason is not None:
            return GpuSample(at_s, (), self._reason)
        try:
            gpus = tuple(self._read(n) for n in range(self._nvml.nvmlDeviceGetCount()))
        except self._nvml.NVMLError as failure:
            return GpuSample(at_s, (), f"NVML failed ({failure})")
        return GpuSample(at_s, gpus, None if gpus else "NVML sees no GPU on this machine")

    async def aclose(self) -> None:
        """See `Telemetry`."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None

    def _open(self) -> None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self._reason = "NVML cannot be read without pynvml: `pip install nvidia-ml-py`, or set DCGM_URL"
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as failure:
            self._reason = f"no NVIDIA driver answers on this machine ({failure})"
            return
        self._nvml = nvml

    def _read(self, index: int) -> Gpu:
        nvml = self._nvml
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, gpu)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, gpu)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, gpu)
        name = self._ask(nvml.nvmlDeviceGetName, gpu)
        return Gpu(
            str(index),
            name.decode() if isinstance(name, bytes) else name,  # bytes before nvidia-ml-py 11.5
            None if rates is None else rates.gpu / 100,
            None if memory is None else float(memory.used),
            None if memory is None else float(memory.total),
            _scaled(milliwatts, 1e-3),
        )

    def _ask(self, call: Any, gpu: Any) -> Any:
        """What the driver answers; `None` where this GPU cannot say (a slice has no utilisation)."""
        try:
            return call(gpu)
        except self._nvml.NVMLError:
            return None
