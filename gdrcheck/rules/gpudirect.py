"""What is judged of the two ways by which a NIC may reach GPU memory: dma-buf and peermem.

Source: NVIDIA's GPUDirect RDMA documentation; perftest's README (kernel 5.12, CUDA 11.7, open
kernel module); kernel-open/nvidia-peermem of NVIDIA's open driver.
"""

from __future__ import annotations

import re

from gdrcheck import gates
from gdrcheck.facts import Facts, NvidiaDriver, Peermem, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.registration import Method
from gdrcheck.rules import driver as modules
from gdrcheck.rules.nvidia import driver_of, version
from gdrcheck.rules.promises import shown

FIRST_KERNEL = (5, 12)
FIRST_CUDA = "11.7"
# NVIDIA's nv-dmabuf.c asks for no other; with CONFIG_PCI_P2PDMA off, exports were seen to work.
OPTION = "CONFIG_DMA_SHARED_BUFFER"
SHOWN_OPTIONS = ("CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY")
RELEASE = re.compile(r"(\d{1,3})\.(\d{1,4})")
# Red Hat's 4.18 carries many parts of newer kernels.
BACKPORTED = re.compile(r"\.el8")
PEERMEM_SYMBOLS = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
EFA_PEERMEM = "efa_nv_peermem"
SYMBOL_TOPICS = ("peermem", "symbols")


def dmabuf_impossible(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-DMABUF-IMPOSSIBLE when kernel or driver cannot export GPU memory as a dma-buf.

    NotJudged, with the reading, unless the profile demands registration by dma-buf.
    """
    driver = driver_of(profile, facts)
    kernel, config = facts.host.kernel, facts.host.kernel_config
    reading = (
        f"kernel {shown(kernel)}, open kernel module: {shown(driver.open_module)}, "
        f"CUDA {shown(driver.cuda)}"
    )
    if profile.registration not in ("dmabuf", "both"):
        raise NotJudged(f"{reading}; the profile does not demand dma-buf")
    where = Where(node=facts.node)
    reasons = list(_obstacles(facts, driver))
    if reasons:
        return Finding(
            code="DRV-DMABUF-IMPOSSIBLE",
            where=where,
            observed="; ".join(reasons),
            expected=f"kernel 5.12 or newer with {OPTION}; open kernel module with CUDA "
            f"{FIRST_CUDA} or newer",
            evidence={"reading": reading, **_shown_options(facts)},
        )
    gates.readable(kernel, where, "kernel release")
    gates.readable(driver.open_module, where, "kind of NVIDIA's kernel module")
    gates.judged(config, where, "kernel configuration", promised=False)
    if not _new_enough(facts):
        raise NotJudged(f"{reading}: what was ported back to that kernel is not known")
    return None


def peermem_inert(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-PEERMEM-INERT when nvidia-peermem is loaded, but not among the RDMA stack's clients.

    NotJudged, with the reading, unless the profile demands registration by peermem, or when the
    stack shows no clients at all: some serve peermem all the same.
    """
    peermem, where = driver_of(profile, facts).peermem, Where(node=facts.node)
    reading = f"peermem loaded: {shown(peermem.loaded)}, clients: {clients_text(peermem)}"
    if not _demanded(profile):
        raise NotJudged(f"{reading}; the profile does not demand peermem")
    _require_loaded(peermem, profile, facts)
    if peermem.module == EFA_PEERMEM:
        raise NotJudged(f"{reading}; EFA's driver asks that module itself, not by ib_core")
    if gates.readable(peermem.registered, where, "clients of peer memory"):
        return None
    if peermem.clients is None:
        raise NotJudged(f"{reading}; some stacks serve peermem all the same")
    return Finding(
        code="DRV-PEERMEM-INERT",
        where=where,
        observed=reading,
        expected="nv_mem or nv_mem_nc among the clients",
        evidence={"module": shown(peermem.module), "OFED": shown(facts.rdma_stack.ofed)},
    )


def peermem_symbols(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-PEERMEM-SYMBOLS when nvidia-peermem was built for another RDMA stack.

    The kernel refused to load it, or the one that is loaded is not the one on the disk. NotJudged,
    with the reading, unless the profile demands registration by peermem.
    """
    peermem = driver_of(profile, facts).peermem
    if not _demanded(profile):
        lines = peermem_refusals(facts)
        reading = lines[-1] if lines else f"peermem loaded: {shown(peermem.loaded)}"
        raise NotJudged(f"{reading}; the profile does not demand peermem")
    finding = _built_for_another(peermem, facts)
    if finding is not None:
        return finding
    where = Where(node=facts.node)
    if peermem.module is None:
        gates.judged(facts.host.kernel_log, where, "kernel log", promised=False)
    _require_loaded(peermem, profile, facts)
    module = facts.host.module(peermem.module or "")
    if module is not None and not isinstance(module, Unreadable):
        gates.judged(module.disk_source_version, where, "module on the disk", promised=False)
    return None


def clients_text(peermem: Peermem) -> str:
    """The RDMA stack's clients, or that it does not show them: no folder is no empty folder."""
    if peermem.clients is None:
        return "unknown (no /sys/kernel/mm/memory_peers)"
    return shown(peermem.clients)


def require_not_explained(name: str, profile: Profile, facts: Facts) -> None:
    """Blocked when another finding explains why the module is not loaded.

    That is a missing driver of NVIDIA's, for its modules, and symbols that do not fit.
    """
    if not name.startswith("nv"):
        return
    try:
        driver = driver_of(profile, facts)
    except (NotPromised, ProbeError):
        return
    if name != "nvidia_peermem" or not _demanded(profile):
        return
    if driver.peermem.loaded is False:
        gates.block(_built_for_another(driver.peermem, facts))


def require_method(method: Method, profile: Profile, facts: Facts) -> None:
    """Blocked when the profile demands ``method`` and a check of this file found that it cannot be.

    What the profile does not demand is no finding here, and can be tried.
    """
    rules = (peermem_symbols, peermem_inert) if method == "peermem" else (dmabuf_impossible,)
    for rule in rules:
        try:
            gates.block(rule(profile, facts))
        except (NotJudged, NotPromised, ProbeError):
            continue


def _obstacles(facts: Facts, driver: NvidiaDriver) -> list[str]:
    kernel, config = facts.host.kernel, facts.host.kernel_config
    found = []
    if isinstance(kernel, str) and not _new_enough(facts) and not _may_be_ported_back(facts):
        found.append(f"kernel {kernel}")
    if driver.open_module is False:
        found.append(f"proprietary kernel module {shown(driver.version)}")
    if isinstance(driver.cuda, str) and version(driver.cuda) < version(FIRST_CUDA):
        found.append(f"CUDA {driver.cuda}")
    if isinstance(config, dict):
        found += [f"{OPTION}=n"] if config.get(OPTION) == "n" else []
    return found


def _shown_options(facts: Facts) -> dict[str, str]:
    config = facts.host.kernel_config
    if isinstance(config, Unreadable):
        return {}
    return {option: config[option] for option in SHOWN_OPTIONS if option in config}


def _new_enough(facts: Facts) -> bool:
    found = RELEASE.match(shown(facts.host.kernel))
    return found is not None and (int(found[1]), int(found[2])) >= FIRST_KERNEL


def _may_be_ported_back(facts: Facts) -> bool:
    return bool(BACKPORTED.search(shown(facts.host.kernel))) or facts.rdma_stack.ofed != "inbox"


def _demanded(profile: Profile) -> bool:
    return profile.registration in ("peermem", "both")


def _require_loaded(peermem: Peermem, profile: Profile, facts: Facts) -> None:
    where = Where(node=facts.node)
    if gates.readable(peermem.loaded, where, "module nvidia_peermem"):
        return
    gates.block(_built_for_another(peermem, facts))
    gates.block(modules.module_missing("nvidia_peermem", profile, facts))


def _built_for_another(peermem: Peermem, facts: Facts) -> Finding | None:
    if peermem.loaded is False:
        # Of a module that was loaded in the end, an earlier refusal tells nothing.
        observed = next(iter(reversed(peermem_refusals(facts))), None)
    else:
        observed = _other_on_disk(peermem.module, facts)
    if observed is None:
        return None
    return Finding(
        code="DRV-PEERMEM-SYMBOLS",
        where=Where(node=facts.node),
        observed=observed,
        expected="nvidia-peermem is built for the RDMA stack that is loaded",
        evidence={"OFED": shown(facts.rdma_stack.ofed), "kernel": shown(facts.host.kernel)},
    )


def peermem_refusals(facts: Facts) -> tuple[str, ...]:
    """What the kernel said when it refused to load peermem, oldest first."""
    lines = facts.host.kernel_log
    if isinstance(lines, Unreadable):
        return ()
    needles = (*(f"{name}:" for name in modules.PEERMEM_MODULES), *PEERMEM_SYMBOLS)
    return tuple(
        line.text
        for line in lines
        if line.topic in SYMBOL_TOPICS and any(needle in line.text for needle in needles)
    )


def _other_on_disk(name: str | None, facts: Facts) -> str | None:
    module = facts.host.module(name or "")
    if module is None or isinstance(module, Unreadable):
        return None
    running, on_disk = module.source_version, module.disk_source_version
    if not isinstance(running, str) or not isinstance(on_disk, str) or running == on_disk:
        return None
    return f"{name}: loaded is source version {running}, on the disk is {on_disk}"
