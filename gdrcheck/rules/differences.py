"""What differs between the nodes of one profile, which were promised to be alike.

Each rule gives the findings about one subject: none when all are alike. They raise NotPromised
when there is nothing to compare by the owner's choice, and NotJudged when too few could be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdrcheck import gates
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, NotPromised, ProbeError
from gdrcheck.rails import Rail
from gdrcheck.rules.alike import Group, Readings, listed

# A second is far more than synchronised clocks are apart (a millisecond or so), and little enough
# to tell which of two log lines on two nodes came first.
CLOCK_LIMIT_S = 1.0
# The beginnings of words of the kernel's command line that change how memory, PCI, cores and the
# drivers behave. All others (root=UUID, console, BOOT_IMAGE) differ between healthy nodes.
WORDS = (
    "iommu", "intel_iommu", "amd_iommu", "arm-smmu", "pci", "hugepages", "hugepagesz",
    "default_hugepagesz", "transparent_hugepage", "numa_balancing", "isolcpus", "nohz", "rcu_nocbs",
    "mitigations", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate",
    "cpufreq", "idle", "nosmt", "module_blacklist", "modprobe.blacklist", "nvidia", "mlx5", "ib_",
    "swiotlb", "init_on_alloc", "kvm",
)  # fmt: skip


def rail_mtu(group: Group, rail_id: int) -> tuple[Finding, ...]:
    """PORT-MTU-DIFFERS for each end of the rail whose active MTU is not the usual one.

    One for all when no value is usual, as with two nodes. Ends that are missing or not active are
    left out: they have findings of their own. NotPromised when the profile has no such rail.
    """
    if group.profile.rails is None or rail_id >= group.profile.rails.count:
        raise NotPromised(f"the profile promises no rail {rail_id}")
    group.require_two()
    ends = [
        found[rail_id]
        for found in group.rails.values()
        if rail_id < len(found) and _is_active(found[rail_id])
    ]
    readings = Readings()
    # Of one kind: the interface's MTU is larger than what fits into it as RDMA payload.
    readers = (_verbs_mtu, _netdev_mtu)
    read = next((one for one in readers if all(isinstance(one(end), str) for end in ends)), None)
    for end in ends:
        readings.add(end.where, (read or _verbs_mtu)(end))
    if readings.alike:
        readings.require_whole()
        return ()
    usual = readings.usual
    if usual is None:
        first, other = readings.two_apart()
        return (_mtu_finding(first, other, readings.told(), "the same at all ends", ""),)
    like = next(where for where, value in readings.values.values() if value == usual)
    return tuple(
        _mtu_finding(where, like, readings.values[where.text()][1], usual, "bytes")
        for where in readings.odd
    )


def _mtu_finding(where: Where, peer: Where, observed: str, expected: str, unit: str) -> Finding:
    return Finding(
        code="PORT-MTU-DIFFERS",
        where=where.model_copy(update={"peer": peer.node}),
        observed=observed,
        expected=expected,
        unit=unit,
    )


def _is_active(rail: Rail) -> bool:
    try:
        return rail.device is not None and gates.port_of(rail).state == "ACTIVE"
    except ProbeError:
        return False


def _verbs_mtu(rail: Rail) -> str | Unreadable:
    verbs = rail.device.verbs if rail.device else Unreadable(unreadable="no device")
    if isinstance(verbs, Unreadable):
        return verbs
    for port in verbs.ports:
        if port.number == rail.port:
            return str(port.active_mtu_bytes)
    return Unreadable(unreadable=f"active MTU of port {rail.port}: {verbs.error or 'no answer'}")


def _netdev_mtu(rail: Rail) -> str | Unreadable:
    netdevs = rail.device.netdevs if rail.device else ()
    # A bond has the MTU of those below it.
    mtus = list(dict.fromkeys(netdev.mtu_bytes for netdev in netdevs))
    if len(mtus) != 1:
        return Unreadable(unreadable=f"{len(netdevs)} network interfaces")
    return mtus[0] if isinstance(mtus[0], Unreadable) else str(mtus[0])


def boards(group: Group) -> tuple[str, ...]:
    """The board ids of the NICs that serve rails, sorted."""
    return tuple(sorted({str(rail.device.board) for rail in _with_board(group) if rail.device}))


def firmware(group: Group, board: str) -> tuple[Finding, ...]:
    """PORT-FIRMWARE-DIFFERS when NICs with this board id run different firmware.

    NotPromised when only one NIC has it.
    """
    readings = Readings()
    for rail in _with_board(group):
        if rail.device is not None and rail.device.board == board:
            version = rail.device.firmware
            none = Unreadable(unreadable="the driver tells no firmware")
            readings.add(rail.where, none if version is None else version)
    if len(readings.values) + len(readings.unreadable) < 2:
        raise NotPromised(f"only one NIC has board id {board}")
    return _one(readings, "PORT-FIRMWARE-DIFFERS", f"one firmware on all boards {board}")


def _with_board(group: Group) -> list[Rail]:
    return [
        rail
        for found in group.rails.values()
        for rail in found
        if rail.device is not None and isinstance(rail.device.board, str)
    ]


def software(group: Group, subject: str) -> tuple[Finding, ...]:
    """HOST-DRIFT when nodes differ in one of ``SUBJECTS``; those without it are left out.

    NotPromised when no node has it.
    """
    group.require_two()
    readings = Readings()
    for node, facts in group.facts.items():
        value = SUBJECTS[subject](facts)
        if value is not None:
            readings.add(Where(node=node), value)
    if not readings.values and not readings.unreadable:
        raise NotPromised(f"no node has {subject}")
    return _one(readings, "HOST-DRIFT", f"the same {subject} on all nodes of a profile")


def _one(readings: Readings, code: str, expected: str) -> tuple[Finding, ...]:
    """One warning that names all who differ, at the first of them."""
    if readings.alike:
        readings.require_whole()
        return ()
    usual = readings.usual
    evidence = {"unreadable": listed(readings.unreadable)}
    if usual is None:
        first, other = readings.two_apart()
        where = first.model_copy(update={"peer": other.node if other.node != first.node else None})
    else:
        where = readings.odd[0]
        evidence["differ"] = listed([one.text() for one in readings.odd])
    return (
        Finding(
            code=code,
            where=where,
            observed=readings.told(),
            expected=expected if usual is None else f"{usual}, as on most",
            severity=Severity.WARN,
            evidence=evidence,
        ),
    )


def clock(node: str, leader: str, offset_s: float, error_s: float) -> Finding | None:
    """HOST-CLOCK-OFFSET when the clock of ``leader`` is certainly too far from that of ``node``.

    ``offset_s``: the leader's minus the node's, give or take ``error_s``. NotJudged when that is
    known too badly to tell.
    """
    if abs(offset_s) - error_s > CLOCK_LIMIT_S:
        return Finding(
            code="HOST-CLOCK-OFFSET",
            where=Where(node=node, peer=leader),
            observed=clock_text(offset_s, error_s, leader),
            expected=f"at most {CLOCK_LIMIT_S:g} s",
            severity=Severity.WARN,
        )
    if error_s > CLOCK_LIMIT_S:
        raise NotJudged(f"{clock_text(offset_s, error_s, leader)}: too uncertain to tell")
    return None


def clock_text(offset_s: float, error_s: float, leader: str) -> str:
    """``3.2 s behind node1, give or take 0.01 s``."""
    way = "behind" if offset_s > 0 else "ahead of"
    return f"{abs(offset_s):.3g} s {way} {leader}, give or take {error_s:.2g} s"


def _command_line(facts: Facts) -> str | Unreadable:
    line = facts.host.command_line
    if isinstance(line, Unreadable):
        return line
    return " ".join(sorted(word for word in line.split() if word.startswith(WORDS))) or "(none)"


def _nvidia_version(facts: Facts) -> str | Unreadable | None:
    driver = facts.nvidia
    return driver if driver is None or isinstance(driver, Unreadable) else driver.version


def _nvidia_module(facts: Facts) -> str | Unreadable | None:
    driver = facts.nvidia
    if driver is None or isinstance(driver, Unreadable):
        return driver
    if isinstance(driver.open_module, Unreadable):
        return driver.open_module
    return "open" if driver.open_module else "proprietary"


# Name in the case -> how to read it; None stands for a node that has no such software.
SUBJECTS: Mapping[str, Callable[[Facts], str | Unreadable | None]] = {
    "os": lambda facts: facts.host.os,
    "kernel": lambda facts: facts.host.kernel,
    "command-line": _command_line,
    "nvidia-driver": _nvidia_version,
    "nvidia-module": _nvidia_module,
    "ofed": lambda facts: facts.rdma_stack.ofed,
    "rdma-core": lambda facts: facts.rdma_stack.rdma_core,
}
