"""perftest's command lines, and what its JSON says. Pure; source: src/perftest_parameters.c, 25.01.

Its defaults stay where people compare figures made with them (inline data for latency, relaxed
ordering); what the path needs is as for our own queue pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdrcheck.outcome import ProbeError
from gdrcheck.pairing.tools import PerftestNumbers, PerftestPlan
from gdrcheck.registration import Method
from gdrcheck.transfer import Memory

TOOLS = {"bandwidth": "ib_write_bw", "latency": "ib_send_lat"}
MAX_JSON_BYTES = 64 * 1024
# As many as our own loop of bandwidth keeps in flight.
DEPTH = 32
# The exponents of the retransmission timeout, 4.096 us * 2^n, as of our own queue pairs: with
# perftest's own 14 (67 ms) emulated nodes retransmit without a loss.
_TIMEOUTS = (14, 21)
_TRIES = 7


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU whose memory the tool is to use, and how it is to register that."""

    slot: str
    method: Method


@dataclass(frozen=True, slots=True)
class Settings:
    """What of the path the tool is told at one end. ``gid_index`` None: InfiniBand, none needed."""

    device: str
    port: int
    gid_index: int | None
    pkey_index: int = 0
    traffic_class: int = 0
    service_level: int = 0
    path_mtu: int | None = None
    completion_s: float = 10
    gpu: Gpu | None = None


def server_command(
    program: Path, plan: PerftestPlan, settings: Settings, address: str, port: int
) -> tuple[str, ...]:
    """The server's command line: it listens on ``address`` and ``port`` and ends after one run."""
    options = _options(plan, settings, plan.sink, address, port)
    return (str(program), *options, "--bind_source_ip", address)


def client_command(
    program: Path,
    plan: PerftestPlan,
    settings: Settings,
    address: str,
    port: int,
    json_path: Path,
) -> tuple[str, ...]:
    """The client's command line: it measures, and writes what it found to ``json_path``."""
    options = _options(plan, settings, plan.source, address, port)
    return (
        str(program), *options, "--out_json", "--out_json_file", str(json_path), address
    )  # fmt: skip


def _options(
    plan: PerftestPlan, settings: Settings, memory: Memory, address: str, port: int
) -> list[str]:
    options = ["-d", settings.device, "-i", str(settings.port), "-p", str(port)]
    options += ["-s", str(plan.size_bytes), "-n", str(plan.iterations), "-F"]
    options += ["-u", str(timeout(settings.completion_s))]
    if settings.gid_index is not None:
        options += ["-x", str(settings.gid_index)]
    if settings.path_mtu is not None:
        options += ["-m", str(settings.path_mtu)]
    if settings.service_level:
        options += ["-S", str(settings.service_level)]
    if settings.traffic_class:
        options += ["--tclass", str(settings.traffic_class)]
    if settings.pkey_index:
        options += ["--pkey_index", str(settings.pkey_index)]
    if ":" in address:
        options += ["--ipv6-addr"]
    if plan.kind == "bandwidth":
        options += ["--report_gbits", "-q", str(plan.queue_pairs), "-t", str(DEPTH)]
    if memory == "gpu" and settings.gpu is not None:
        options += ["--use_cuda_bus_id", settings.gpu.slot]
        # It must come after the choice of the GPU.
        options += ["--use_cuda_dmabuf"] if settings.gpu.method == "dmabuf" else []
    return options


def timeout(completion_s: float) -> int:
    """The exponent with which all retries take a quarter to half of ``completion_s``."""
    low, high = _TIMEOUTS
    each_us = completion_s * 1e6 / (2 * _TRIES)
    return max(low, min(high, int(each_us / 4.096).bit_length() - 1))


class _Info(BaseModel):
    model_config = ConfigDict(extra="ignore")

    mtu: int | None = Field(default=None, alias="Mtu")
    relaxed: str = Field(default="", alias="PCIe_relax_order", max_length=32)


class _Results(BaseModel):
    model_config = ConfigDict(extra="ignore")

    size: int = Field(alias="MsgSize")
    iterations: int = Field(alias="n_iterations", ge=1)


class _Bandwidth(_Results):
    gbps: float = Field(alias="BW_average", gt=0, allow_inf_nan=False)


class _Latency(_Results):
    typical_us: float = Field(alias="t_typical", gt=0, allow_inf_nan=False)
    p99_us: float = Field(alias="percentile_99", gt=0, allow_inf_nan=False)
    min_us: float = Field(alias="t_min", gt=0, allow_inf_nan=False)
    max_us: float = Field(alias="t_max", gt=0, allow_inf_nan=False)


class _BandwidthFile(BaseModel):
    test_info: _Info
    results: _Bandwidth


class _LatencyFile(BaseModel):
    test_info: _Info
    results: _Latency


def numbers(kind: Literal["bandwidth", "latency"], text: bytes, command: str) -> PerftestNumbers:
    """What the client's JSON says. ProbeError if it is not that of such a run.

    Its ``t_max`` is the second largest (print_report_lat). Bandwidth is in Gb/s, since the command
    line asks for that.
    """
    model = _BandwidthFile if kind == "bandwidth" else _LatencyFile
    try:
        found = model.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProbeError(
            f"perftest's JSON has no usable {where or 'form'}: {first['msg']}; it begins with "
            f"{text[:200]!r}",
            step="read perftest's JSON",
        ) from problem
    results, info = found.results, found.test_info
    measured = results.model_dump(exclude={"size", "iterations"})
    return PerftestNumbers(
        command=command,
        size_bytes=results.size,
        iterations=results.iterations,
        mtu=info.mtu,
        relaxed_ordering=info.relaxed,
        **measured,
    )
