"""What is judged of kernel modules and of the RDMA stack, in the kernel and in the image."""

from __future__ import annotations

import re

from gdrcheck import gates
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules.promises import differs, shown

# Each does what nvidia_peermem does: the name that it had before, and Amazon's for EFA.
PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
# Without one of these a device is not there, or nobody can use it.
RDMA_MODULES = frozenset(
    {
        *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm"),
        *("mlx4_core", "mlx4_ib", "mlx5_core", "mlx5_ib", "bnxt_en", "bnxt_re"),
        *("ice", "i40e", "irdma", "ionic", "ionic_rdma", "efa", "mana", "mana_ib"),
        *("hns3", "hns_roce_hw_v2", "qede", "qedr", "erdma", "rdma_rxe", "siw"),
    }
)
# Modules that are built together: each calls functions of the others.
ONE_TREE = (
    *("ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm"),
    *("mlx5_core", "mlx5_ib"),
)
BUILT_IN = "(builtin)"
TREE = re.compile(r"/lib/modules/[^/]+/([^/]+)/")
# Kernel driver → its provider in rdma-core.
PROVIDERS = {
    "mlx4_core": "mlx4",
    "mlx5_core": "mlx5",
    "bnxt_en": "bnxt_re",
    "ice": "irdma",
    "i40e": "irdma",
    "irdma": "irdma",
    "ionic": "ionic",
    "efa": "efa",
    "mana": "mana",
    "hns3": "hns",
    "qede": "qedr",
    "erdma": "erdma",
}


def expected_modules(profile: Profile) -> tuple[str, ...]:
    """The kernel modules that must be loaded for what the profile promises, in load order."""
    modules = []
    if profile.rails is not None:
        modules += ["ib_core", "ib_uverbs"]
    if profile.gpus is not None and profile.gpus.count:
        modules.append("nvidia")
    if profile.registration in ("peermem", "both"):
        modules.append("nvidia_peermem")
    return tuple(dict.fromkeys((*modules, *profile.expect.modules)))


def module_missing(name: str, profile: Profile, facts: Facts) -> Finding | None:
    """DRV-MODULE-MISSING unless the module is loaded. ProbeError if that cannot be told."""
    where = Where(node=facts.node)
    names: tuple[str, ...] = (name,)
    if name == "nvidia_peermem" and name not in profile.expect.modules:
        names = PEERMEM_MODULES
    states = [loaded(one, facts) for one in names]
    if any(state is True for state in states):
        return None
    for state in states:
        gates.readable(state, where, f"module {name}")
    return _missing(name, facts)


def missing_modules(profile: Profile, facts: Facts) -> tuple[Finding, ...]:
    """DRV-MODULE-MISSING of each module that must be loaded for RDMA devices to be there.

    One whose state cannot be read is not among them; that is the check's own to report.
    """
    return tuple(
        _missing(name, facts)
        for name in expected_modules(profile)
        if name in RDMA_MODULES and loaded(name, facts) is False
    )


def loaded(name: str, facts: Facts) -> bool | Unreadable:
    """Whether the module is loaded or built in, or why that is unreadable."""
    module = facts.host.module(name)
    if isinstance(module, Unreadable):
        return module
    if module is not None:
        return module.loaded
    names = facts.host.loaded_modules
    return names if isinstance(names, Unreadable) else name in names


def log_lines(facts: Facts, *needles: str) -> tuple[str, ...]:
    """The lines of the kernel log that hold one of ``needles``; none when it is unreadable."""
    lines = facts.host.kernel_log
    if isinstance(lines, Unreadable):
        return ()
    return tuple(line.text for line in lines if any(needle in line.text for needle in needles))


def ofed_differs(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-OFED unless the host has the promised RDMA stack."""
    return differs(
        facts.rdma_stack.ofed,
        profile.expect.ofed,
        code="DRV-OFED",
        where=Where(node=facts.node),
        what="OFED",
    )


def stack_mixed(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-STACK-MIXED when some RDMA modules are the kernel's own and others a vendor's.

    NotPromised without rails, Blocked when modules are missing. NotJudged when those of which the
    origin is known are alike, but of others it is not: their file could not be found out, or is
    not on the host, as with a driver that runs in a container.
    """
    if profile.rails is None:
        raise NotPromised("the profile promises no rails")
    where = Where(node=facts.node)
    for missing in missing_modules(profile, facts):
        gates.block(missing)
    trees: dict[str, list[str]] = {}
    unknown: list[str] = []
    for name in ONE_TREE:
        module = facts.host.module(name)
        if module is None or isinstance(module, Unreadable) or module.loaded is not True:
            continue
        if isinstance(module.path, str):
            trees.setdefault(_tree(module.path), []).append(name)
        else:
            unknown.append(f"{name}: {_why_unknown(module.path)}")
    observed = "; ".join(f"{tree}: {' '.join(names)}" for tree, names in trees.items())
    if len({tree == "kernel" for tree in trees}) < 2:
        if unknown or not trees:
            raise NotJudged(f"{observed or 'no origin is known'}; {'; '.join(unknown)}")
        return None
    return Finding(
        code="DRV-STACK-MIXED",
        where=where,
        observed=observed,
        expected="all of them from the kernel, or all of them from one OFED",
        evidence={"OFED": shown(facts.rdma_stack.ofed), "kernel": shown(facts.host.kernel)},
    )


def providers_missing(profile: Profile, facts: Facts) -> Finding | None:
    """DRV-PROVIDER-MISSING when the image lacks the user-space driver of a rail's NIC.

    NotPromised without rails, Blocked when no rail has its device. NotJudged when all have drivers
    whose provider is not known here, as software devices do.
    """
    if profile.rails is None:
        raise NotPromised("the profile promises no rails")
    rails = resolve(profile, facts)
    devices = [rail.device for rail in rails if rail.device is not None]
    if not devices:
        # By which finding is for the caller to say, who asks what keeps devices away.
        raise Blocked("no rail has its device")
    where = Where(node=facts.node)
    drivers = {
        one.name: gates.readable(one.driver, where, f"driver of {one.name}") for one in devices
    }
    if not PROVIDERS.keys() & set(drivers.values()):
        raise NotJudged(f"which provider serves {shown(tuple(drivers.values()))} is not known")
    gates.readable(facts.rdma_stack.providers, where, "providers of the image")
    lacking = {rail.nic: why for rail in rails if (why := _lacks_provider(rail, facts))}
    if not lacking:
        return None
    return _no_provider(lacking, facts)


def provider_missing(rail: Rail, facts: Facts) -> Finding | None:
    """The finding of ``providers_missing``, if the rail's NIC is one of those without provider.

    None as well when that cannot be told: the check reports it.
    """
    why = _lacks_provider(rail, facts)
    return _no_provider({rail.nic: why}, facts) if why else None


def _lacks_provider(rail: Rail, facts: Facts) -> str | None:
    """What is missing in the image for the rail's NIC; None if nothing, or nothing known."""
    driver = rail.device.driver if rail.device else None
    name = PROVIDERS.get(driver) if isinstance(driver, str) else None
    providers = facts.rdma_stack.providers
    if name is None or isinstance(providers, Unreadable):
        return None
    provider = next((one for one in providers if one.name == name), None)
    if provider is None:
        return f"libibverbs.d names no {name}"
    return f"lib{name}-rdmav*.so is missing" if provider.library is None else None


def _no_provider(lacking: dict[str, str], facts: Facts) -> Finding:
    providers = facts.rdma_stack.providers
    there = () if isinstance(providers, Unreadable) else providers
    reasons = ", ".join(dict.fromkeys(lacking.values()))
    return Finding(
        code="DRV-PROVIDER-MISSING",
        where=Where(node=facts.node),
        observed=f"{reasons}, for {' '.join(lacking)}",
        expected="the image has a provider for each NIC that serves a rail",
        evidence={
            "rdma-core of the image": shown(facts.rdma_stack.rdma_core),
            "providers": shown(tuple(one.name for one in there if one.library)),
        },
    )


def _missing(name: str, facts: Facts) -> Finding:
    module = facts.host.module(name)
    on_disk = shown(module.path) if module and not isinstance(module, Unreadable) else "not read"
    evidence = {"file on the host": on_disk, "kernel": shown(facts.host.kernel)}
    lines = log_lines(facts, f"{name}:", name.replace("_", "-") + ":")
    if lines:
        evidence["kernel log"] = lines[-1]
    return Finding(
        code="DRV-MODULE-MISSING",
        where=Where(node=facts.node),
        observed=f"{name} is not loaded",
        expected=f"{name} is loaded",
        evidence=evidence,
    )


def _why_unknown(path: Unreadable | None) -> str:
    return "the host has no file of it" if path is None else path.unreadable


def _tree(path: str) -> str:
    """The folder below the kernel's modules: ``kernel`` for its own, ``updates`` and so on."""
    found = TREE.search(path)
    return "kernel" if path == BUILT_IN else found[1] if found else path
