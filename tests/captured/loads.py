"""What NVML says of a GPU while data is copied to it, and of one that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gdrcheck.facts import Facts, GpuHealth, Nvml, PcieLink
from gdrcheck.gpu_load import GpuNow, Load

COPIED_BYTES = 20_000_000_000


def now(facts: Facts, slot: str) -> GpuNow:
    """The GPU at ``slot`` as its facts say: an idle one."""
    gpu = facts.nvml.gpu(slot) if isinstance(facts.nvml, Nvml) else None
    assert gpu is not None
    assert isinstance(gpu.health, GpuHealth)
    health = gpu.health
    return GpuNow(health.pcie, health.clocks, health.clock_limits, health.power, health.temperature)


def whole_load(idle: GpuNow) -> Load:
    """A copy during which the GPU that was ``idle`` has its whole link and its highest clocks."""
    clocks = {"graphics_mhz": idle.clocks.max_graphics_mhz}
    busy = replace(
        idle,
        pcie=idle.pcie.model_copy(update={"generation": idle.pcie.max_generation}),
        clocks=idle.clocks.model_copy(update=clocks),
        clock_limits=None if idle.clock_limits is None else (),
    )
    return Load(idle, (busy, busy, busy), COPIED_BYTES, took_s=0.4)


def link(**changes: object) -> Callable[[Load], Load]:
    """The link under load is otherwise."""
    return lambda load: _last_two(load, lambda one: replace(one, pcie=_with(one.pcie, changes)))


def held(*limits: str) -> Callable[[Load], Load]:
    """``limits`` hold the clocks down."""
    return lambda load: _last_two(load, lambda one: replace(one, clock_limits=limits))


def _with(link: PcieLink, changes: dict[str, object]) -> PcieLink:
    return PcieLink.model_validate(link.model_dump() | changes)


def _last_two(load: Load, change: Callable[[GpuNow], GpuNow]) -> Load:
    first, *last = load.under_load
    return replace(load, under_load=(first, *map(change, last)))
