"""Judges facts by every rule that needs no hardware, as the checks of a node do in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gdrcheck import gates, rails
from gdrcheck.facts import Facts, Gpu, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import (
    absence,
    arp,
    driver,
    gpu,
    gpu_health,
    gpu_settings,
    gpudirect,
    host,
    nvidia,
    nvlink,
    pci,
    pci_links,
    pci_settings,
    ports,
)

Judge = Callable[[], Finding | None]

OF_NODE = (
    host.os_differs,
    host.kernel_differs,
    host.command_line_lacks,
    host.iommu_differs,
    driver.ofed_differs,
    driver.stack_mixed,
    driver.providers_missing,
    nvidia.nvidia_missing,
    nvidia.version_differs,
    nvidia.kind_differs,
    nvidia.cuda_old,
    nvidia.fabric_manager,
    gpudirect.dmabuf_impossible,
    gpudirect.peermem_inert,
    gpudirect.peermem_symbols,
    gpu.extra,
    gpu.nvml_failed,
    gpu_settings.wrong_confidentiality,
    nvlink.switch_error,
    arp.arp_flux,
    gates.devices_extra,
    gates.pci_listed,
    absence.devices_lacking,
)
OF_GPU = (
    gpu.missing,
    gpu.lost,
    pci.errors_of_gpu,
    pci_links.width_of_gpu,
    pci_links.speed_of_gpu,
)
OF_ANSWER = (
    gpu.wrong_model,
    gpu.wrong_mig,
    gpu.small_bar1,
    gpu_settings.wrong_ecc_mode,
    gpu_health.uncorrectable,
    gpu_health.memory_repair,
    gpu_settings.wrong_compute_mode,
    gpu_settings.wrong_persistence,
    gpu_settings.low_power_limit,
    gpu_settings.wrong_vbios,
)
OF_ANSWER_AND_NODE = (gpu_health.fatal_xid, gpu_health.reset_needed, nvlink.links_down)
OF_PORT = (
    ports.lanes_missing,
    ports.rate_low,
    ports.link_layer_wrong,
    ports.firmware_wrong,
    ports.pkey_missing,
    ports.mtu_low,
    ports.traffic_class_overridden,
)
OF_RAIL = (
    pci.errors_of_nic,
    pci.rail_distance,
    pci_links.width_of_nic,
    pci_links.speed_of_nic,
    pci_settings.acs,
    pci_settings.relaxed_ordering,
    pci_settings.payload,
    pci_settings.read_request,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found, and what could not be judged, each with the reason."""

    findings: tuple[Finding, ...]
    errors: tuple[str, ...]


def judge(profile: Profile, facts: Facts) -> Judged:
    """Everything that the rules find in ``facts``; what stands on a finding is not told as well."""
    findings: list[Finding] = []
    errors: dict[str, None] = {}
    for rule in _rules(profile, facts):
        try:
            finding = rule()
        except (NotPromised, NotJudged, Blocked):
            continue
        except ProbeError as error:
            errors[str(error)] = None
        else:
            if finding is not None:
                findings.append(finding)
    return Judged(tuple(findings), tuple(errors))


def _rules(profile: Profile, facts: Facts) -> Iterator[Judge]:
    for of_node in OF_NODE:
        yield partial(of_node, profile, facts)
    for rail in rails.resolve(profile, facts):
        yield partial(absence.driver_unbound, rail, profile, facts)
        yield partial(absence.device_missing, rail, profile, facts)
        if rail.missing is not None:
            continue
        yield partial(gates.port_not_active, rail)
        for of_port in OF_PORT:
            yield partial(of_port, rail, profile)
        for of_rail in OF_RAIL:
            yield partial(of_rail, rail, profile, facts)
    for where, slot in _gpus(profile, facts):
        for of_gpu in OF_GPU:
            yield partial(of_gpu, where, slot, profile, facts)
        for of_answer in OF_ANSWER:
            yield partial(_of_answer, of_answer, where, slot, profile, facts)
        for of_both in OF_ANSWER_AND_NODE:
            yield partial(_of_both, of_both, where, slot, profile, facts)


def _gpus(profile: Profile, facts: Facts) -> Iterator[tuple[Where, str | None]]:
    there = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    for number in range(profile.gpus.count if profile.gpus else 0):
        slot = there[number].slot if number < len(there) else None
        yield Where(node=facts.node, gpu=f"gpu{number}"), slot


def _of_answer(
    rule: Callable[[Where, Gpu, Profile], Finding | None],
    where: Where,
    slot: str | None,
    profile: Profile,
    facts: Facts,
) -> Finding | None:
    return rule(where, gpu.answering(where, slot, profile, facts), profile)


def _of_both(
    rule: Callable[[Where, Gpu, Profile, Facts], Finding | None],
    where: Where,
    slot: str | None,
    profile: Profile,
    facts: Facts,
) -> Finding | None:
    return rule(where, gpu.answering(where, slot, profile, facts), profile, facts)
