"""What is known around a registration of GPU memory: from the facts and from the attempt itself."""

from __future__ import annotations

import errno as numbers
import os

from gdrcheck import topology
from gdrcheck.expect import Distance
from gdrcheck.facts import Facts, Gpu, NvidiaDriver, Nvml, PciFunction, Peermem, Unreadable
from gdrcheck.memory_rules import limited_by_memlock, limits_evidence
from gdrcheck.rails import GpuNic
from gdrcheck.registration import Attempt, Method, Movement, Refusal, Support
from gdrcheck.rules.driver import log_lines
from gdrcheck.rules.gpudirect import EFA_PEERMEM, clients_text, peermem_refusals
from gdrcheck.rules.promises import shown
from gdrcheck.rules.registration_cause import ENOTSUPP, Evidence
from gdrcheck.sizes import size_text

ATTACH_REFUSED = ("dma-buf attach failed", "topology not supported for mapping type")
TOPOLOGY_PARAMETER = "GrdmaPciTopoCheckOverride"
SHOWN_LINES = 3
NOTHING_KNOWN = Support(dmabuf_errno=None, dmabuf_attribute=None, gdr_attribute=None)


def evidence_of_attempt(attempt: Attempt, pair: GpuNic, facts: Facts) -> Evidence:
    """The evidence of an attempt to register memory of ``pair``'s GPU with its NIC."""
    proof, refusal = attempt.proof, attempt.refusal
    gpu_memory = proof.gpu_memory if proof else None
    own = {"buffer": proof.text()} if proof else {}
    registered = attempt.registered_bytes
    own["registered before"] = f"{registered} bytes at most" if registered else "nothing"
    if sizes := _sizes_text(attempt):
        own["sizes"] = sizes
    if refused := next((one.other_refused for one in attempt.regions if one.other_refused), ""):
        own["the other mapping"] = refused
    return _evidence(
        attempt.method,
        refusal,
        pair,
        facts,
        attempt.support,
        registered_bytes=attempt.registered_bytes,
        gpu_memory=gpu_memory,
        own=own,
    )


def _sizes_text(attempt: Attempt) -> str:
    """What was tried and where it ended; without a refusal what limited the sizes, if anything."""
    if attempt.refusal is None:
        return attempt.limited_by
    tried = [size_text(size) for size in attempt.sizes_bytes]
    return f"{', '.join(tried)} tried, failed at {tried[-1]}" if tried else "none tried"


def evidence_of_movement(
    movement: Movement, pair: GpuNic, facts: Facts, support: Support = NOTHING_KNOWN
) -> Evidence:
    """The evidence of transfers. ``support`` is that of the attempt before, if there was one."""
    own = {"transfers that completed": str(len(movement.moved))}
    if movement.flag:
        own["mapping of the export"] = movement.flag
    if movement.way:
        own["transfer"] = f"{movement.operation}, {movement.way}"
    if movement.status:
        own["completion status"] = movement.status
    if movement.vendor_error is not None:
        own["vendor error"] = f"{movement.vendor_error:#x}"
    if movement.moved:
        own["flush"] = movement.moved[-1].flushed
    refusal = movement.refusal
    return _evidence(movement.method, refusal, pair, facts, support, own=own)


def _evidence(
    method: Method,
    refusal: Refusal | None,
    pair: GpuNic,
    facts: Facts,
    support: Support,
    *,
    registered_bytes: int = 0,
    gpu_memory: bool | None = None,
    own: dict[str, str],
) -> Evidence:
    driver = facts.nvidia if isinstance(facts.nvidia, NvidiaDriver) else None
    gpu = _gpu(pair, facts)
    length_bytes = refusal.length_bytes if refusal else 0
    refused = log_lines(facts, *ATTACH_REFUSED)
    return Evidence(
        method=method,
        stage=refusal.stage if refusal else None,
        errno=refusal.errno if refusal else None,
        cuda=refusal.cuda if refusal else None,
        length_bytes=length_bytes,
        registered_bytes=registered_bytes,
        gpu_memory=gpu_memory,
        dmabuf_errno=support.dmabuf_errno,
        dmabuf_attribute=support.dmabuf_attribute,
        gdr_attribute=support.gdr_attribute,
        peermem_loaded=_loaded(driver),
        peermem_registered=_registered(driver),
        bar1_total_bytes=_number(gpu.bar1_total_bytes) if gpu else None,
        bar1_used_bytes=_number(gpu.bar1_used_bytes) if gpu else None,
        memlock_limited=limited_by_memlock(length_bytes, facts.limits),
        virtual_gpu=gpu is not None and gpu.virtualization == "vgpu",
        distance=_distance(pair, facts),
        topology_allowed=_parameter(driver) == "1",
        attach_refused=refused[-1] if refused else None,
        around={
            "method": method,
            **(_of_refusal(refusal) if refusal else {}),
            **own,
            **_of_support(method, support),
            **_of_software(method, driver, facts),
            **_of_place(pair, gpu, facts),
        },
    )


def errno_text(number: int) -> str:
    """``14 EFAULT (Bad address)``."""
    if number == ENOTSUPP:
        return f"{number} ENOTSUPP (the kernel's own: operation is not supported)"
    # Python's name for 95 is ENOTSUP, which nobody looks for.
    known = {**numbers.errorcode, numbers.EOPNOTSUPP: "EOPNOTSUPP"}
    return f"{number} {known.get(number, 'unknown')} ({os.strerror(number)})"


def _of_refusal(refusal: Refusal) -> dict[str, str]:
    found: dict[str, str] = {"step": refusal.stage}
    if refusal.errno is not None:
        found["errno"] = errno_text(refusal.errno)
    if refusal.cuda is not None:
        found["CUDA error"] = refusal.cuda
    if refusal.range is not None:
        found["range"] = f"{refusal.range}, {refusal.length_bytes} bytes"
    return found


def _of_support(method: Method, support: Support) -> dict[str, str]:
    words = {True: "1", False: "0", None: "not known to the driver"}
    found = {
        "attributes of the GPU": f"GPUDirect RDMA {words[support.gdr_attribute]}, "
        f"dma-buf {words[support.dmabuf_attribute]}"
    }
    if method == "dmabuf":
        number = support.dmabuf_errno
        told = " (the call is there)" if number == numbers.EBADF else ""
        text = "nothing" if number is None else f"errno {errno_text(number)}{told}"
        found["dma-buf registration of no descriptor gives"] = text
    return found


def _of_software(method: Method, driver: NvidiaDriver | None, facts: Facts) -> dict[str, str]:
    found = {"kernel": shown(facts.host.kernel), "OFED": shown(facts.rdma_stack.ofed)}
    if driver is not None:
        found["driver"] = (
            f"{shown(driver.version)}, CUDA {shown(driver.cuda)}, open kernel module: "
            f"{shown(driver.open_module)}"
        )
    if method == "peermem" and driver is not None:
        found["nvidia-peermem"] = _peermem_text(driver.peermem)
    if method == "dmabuf" and (value := _parameter(driver)) is not None:
        found[TOPOLOGY_PARAMETER] = value
    lines = peermem_refusals(facts) if method == "peermem" else ()
    lines = lines or log_lines(facts, *(ATTACH_REFUSED if method == "dmabuf" else ("peermem",)))
    if lines:
        found["kernel log, before the checks"] = " | ".join(lines[-SHOWN_LINES:])
    if isinstance(facts.nvml, Nvml) and facts.nvml.confidential_computing is not None:
        found["confidential computing"] = shown(facts.nvml.confidential_computing)
    return {**found, **limits_evidence(facts.limits), "SELinux": shown(facts.host.selinux)}


def _of_place(pair: GpuNic, gpu: Gpu | None, facts: Facts) -> dict[str, str]:
    """The GPU, and what lies between it and the NIC."""
    found = {"GPU": pair.gpu_slot or "unknown"}
    if gpu is not None:
        found["BAR1, before the checks"] = (
            f"{shown(gpu.bar1_total_bytes)} bytes, {shown(gpu.bar1_used_bytes)} in use"
        )
        found["virtualization"] = shown(gpu.virtualization)
    nic = pair.rail.device.slot if pair.rail.device else None
    found["distance"] = _distance(pair, facts) or "unknown"
    found["IOMMU"] = shown(facts.host.iommu.default_domain)
    if isinstance(facts.pci, Unreadable) or nic is None or pair.gpu_slot is None:
        return found
    for what, slot in (("GPU", pair.gpu_slot), ("NIC", nic)):
        function = facts.pci.function(slot)
        group = function.iommu_group_type if function else None
        if group is not None:
            found["IOMMU"] += f"; of the {what}: {shown(group)}"
    bridges = topology.bridges_between(facts.pci, nic, pair.gpu_slot)
    found["ACS redirect"] = ", ".join(_acs_text(bridge) for bridge in bridges) or "no bridge seen"
    return found


def _acs_text(bridge: PciFunction) -> str:
    settings = bridge.settings
    if settings is None or isinstance(settings, Unreadable):
        return f"{bridge.slot} unreadable"
    if settings.acs is None or isinstance(settings.acs, Unreadable):
        return f"{bridge.slot} {'none' if settings.acs is None else 'unreadable'}"
    return f"{bridge.slot} {'on' if settings.acs.redirects else 'off'}"


def _gpu(pair: GpuNic, facts: Facts) -> Gpu | None:
    if pair.gpu_slot is None or not isinstance(facts.nvml, Nvml):
        return None
    return facts.nvml.gpu(pair.gpu_slot)


def _distance(pair: GpuNic, facts: Facts) -> Distance | None:
    nic = pair.rail.device.slot if pair.rail.device else None
    if nic is None or pair.gpu_slot is None:
        return None
    return topology.distance(facts, nic, pair.gpu_slot)


def _loaded(driver: NvidiaDriver | None) -> bool | None:
    loaded = driver.peermem.loaded if driver else None
    return loaded if isinstance(loaded, bool) else None


def _registered(driver: NvidiaDriver | None) -> bool | None:
    """None where the stack shows no clients: some serve peermem all the same."""
    peermem = driver.peermem if driver else None
    if peermem is None or peermem.clients is None or peermem.module == EFA_PEERMEM:
        return None
    return peermem.registered if isinstance(peermem.registered, bool) else None


def _peermem_text(peermem: Peermem) -> str:
    loaded = {True: f"yes, as {peermem.module}", False: "no"}
    words = loaded[peermem.loaded] if isinstance(peermem.loaded, bool) else shown(peermem.loaded)
    return f"loaded: {words}; clients of the RDMA stack: {clients_text(peermem)}"


def _parameter(driver: NvidiaDriver | None) -> str | None:
    parameters = driver.parameters if driver else None
    return parameters.get(TOPOLOGY_PARAMETER) if isinstance(parameters, dict) else None


def _number(value: int | Unreadable) -> int | None:
    return value if isinstance(value, int) else None
