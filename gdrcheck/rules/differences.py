"""What differs between the nodes of one profile, which were promised to be alike.

Each rule gives the findings about one subject: none when all are alike. They raise NotPromised
when there is nothing to compare by the owner's choice, and NotJudged when too few could be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrcheck import gates
from gdrcheck.facts import GpuHealth, Unreadable
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, NotPromised, ProbeError
from gdrcheck.rails import Rail
from gdrcheck.rules import subjects
from gdrcheck.rules.alike import Group, Readings, listed
from gdrcheck.rules.subjects import SUBJECTS

__all__ = [
    "SUBJECTS",
    "boards",
    "clock",
    "clock_text",
    "firmware",
    "gpu_boards",
    "rail_mtu",
    "software",
    "vbios",
]

# A second is far more than synchronised clocks are apart (a millisecond or so), and little enough
# to tell which of two log lines on two nodes came first.
CLOCK_LIMIT_S = 1.0
# Of the places that differ from most, so many are named: a fleet has few of them.
MAX_ODD = 64


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
        finding = _mtu_finding(first, other, readings.told(), "the same at all ends", "")
        return (finding.model_copy(update={"evidence": {"majority": readings.undecided}}),)
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


def gpu_boards(group: Group) -> tuple[str, ...]:
    """The board part numbers of the GPUs, or their models where NVML tells no number, sorted."""
    return tuple(sorted({board for _, board, _ in _boards_of_gpus(group)}))


def vbios(group: Group, board: str) -> tuple[Finding, ...]:
    """GPU-VBIOS-DIFFERS when GPUs of this board or model have different VBIOS versions.

    NotPromised when only one GPU is of it.
    """
    readings = Readings()
    for where, its_board, health in _boards_of_gpus(group):
        if its_board == board:
            version = health.vbios
            none = Unreadable(unreadable="NVML tells no VBIOS version")
            readings.add(where, none if version is None else version)
    if len(readings.values) + len(readings.unreadable) < 2:
        raise NotPromised(f"only one GPU is a {board}")
    return _one(readings, "GPU-VBIOS-DIFFERS", f"one VBIOS on all GPUs {board}")


def _boards_of_gpus(group: Group) -> Iterator[tuple[Where, str, GpuHealth]]:
    for node, facts in group.facts.items():
        for name, gpu in subjects.gpus(facts).items():
            board = gpu.health.board_part if isinstance(gpu.health, GpuHealth) else None
            kind = board if isinstance(board, str) else gpu.model
            if isinstance(gpu.health, GpuHealth) and isinstance(kind, str):
                yield Where(node=node, gpu=name), kind, gpu.health


def software(group: Group, subject: str) -> tuple[Finding, ...]:
    """HOST-DRIFT when nodes differ in one of ``SUBJECTS``; those without it are left out.

    NotPromised when no node has it.
    """
    group.require_two()
    readings = Readings()
    for node, facts in group.facts.items():
        value = SUBJECTS[subject](facts, group.rails[node])
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
    evidence = {"unreadable": listed(readings.unreadable)} if readings.unreadable else {}
    if usual is None:
        first, other = readings.two_apart()
        evidence["majority"] = readings.undecided
        where = first.model_copy(update={"peer": other.node if other.node != first.node else None})
    else:
        where = readings.odd[0]
        evidence["differ"] = listed([one.text() for one in readings.odd], MAX_ODD)
    return (
        Finding(
            code=code,
            where=where,
            observed=readings.told(),
            expected=f"{usual}, as on most" if usual else f"{expected}; {readings.undecided}",
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
