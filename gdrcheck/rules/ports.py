"""What is judged of a rail's port: lanes and rate, firmware, partition key, MTU, traffic class."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrcheck import gates
from gdrcheck.facts import RdmaDevice, Unreadable
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail

# The width of every cable and connector that serves one port (SFP56 and the like carry one lane,
# but then the rate is that of one lane too).
FULL_LANES = 4
# The highest bit of a partition key says full or limited membership, the others which partition
# (InfiniBand Architecture Specification vol. 1, 10.9).
FULL_MEMBER, KEY_BITS = 0x8000, 0x7FFF


def lanes_missing(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-LANES when the port is too slow because it came up with fewer than four lanes.

    A port that is narrow by design reaches the promised rate, and is right. Lanes of a software
    device mean nothing. NotJudged without a promised rate; ProbeError when a value is unreadable.
    """
    port, where = gates.port_of(rail), rail.where
    promised_gbps = profile.rails.port_rate_gbps if profile.rails else None
    if promised_gbps is not None:
        rate_gbps = gates.readable(port.rate_gbps, where, "port rate")
        if rate_gbps >= promised_gbps or _device(rail).software:
            return None
    lanes = gates.readable(port.lanes, where, "number of lanes")
    if promised_gbps is None:
        raise NotJudged(f"the port has {lanes} lanes; the profile promises no rate")
    if lanes >= FULL_LANES or rate_gbps / lanes * FULL_LANES < promised_gbps:
        return None
    return Finding(
        code="PORT-LANES",
        where=where,
        observed=f"{lanes} of {FULL_LANES} lanes, {rate_gbps:g} Gb/s",
        expected=f"{FULL_LANES} lanes, for at least {promised_gbps:g} Gb/s",
        evidence={"speed": port.speed} if isinstance(port.speed, str) else {},
    )


def rate_low(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-RATE-LOW when the port is slower than promised, for another reason than lost lanes.

    Blocked by PORT-LANES, which explains it. NotJudged without a promised rate; ProbeError when
    the rate is unreadable.
    """
    rate_gbps = gates.readable(gates.port_of(rail).rate_gbps, rail.where, "port rate")
    promised_gbps = profile.rails.port_rate_gbps if profile.rails else None
    if promised_gbps is None:
        raise NotJudged(f"port rate is {rate_gbps:g} Gb/s; the profile promises none")
    if rate_gbps >= promised_gbps:
        return None
    if not isinstance(gates.port_of(rail).lanes, Unreadable):
        gates.block(lanes_missing(rail, profile))
    return Finding(
        code="PORT-RATE-LOW",
        where=rail.where,
        unit="Gb/s",
        observed=f"{rate_gbps:g}",
        expected=f"at least {promised_gbps:g}",
    )


def link_layer_wrong(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-LINK-LAYER when the port is not of the promised link layer. NotJudged without one."""
    if profile.rails is None or profile.rails.link_layer is None:
        layer = gates.readable(gates.port_of(rail).link_layer, rail.where, "link layer")
        raise NotJudged(f"link layer is {layer}; the profile promises none")
    return other_link_layer(rail, profile)


def other_link_layer(rail: Rail, profile: Profile) -> Finding | None:
    """The same, without a word where no link layer is promised: it explains what stands on it."""
    layer = gates.readable(gates.port_of(rail).link_layer, rail.where, "link layer")
    promised = profile.rails.link_layer if profile.rails else None
    if promised is None or layer == promised:
        return None
    return Finding(code="PORT-LINK-LAYER", where=rail.where, observed=layer, expected=promised)


def firmware_wrong(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-FIRMWARE when the NIC's firmware is not what ``expect.firmware`` matches.

    NotJudged without a promise. ProbeError when the version is unreadable, or is promised and the
    driver says none.
    """
    device, wanted = _device(rail), profile.expect.firmware
    said = device.firmware or Unreadable(unreadable="the driver says none")
    if wanted is None:
        said = device.firmware or "not named by the driver"
    firmware = gates.readable(said, rail.where, "firmware version")
    if wanted is None:
        raise NotJudged(f"firmware is {firmware}; the profile promises none")
    if fnmatchcase(firmware, wanted):
        return None
    return Finding(
        code="PORT-FIRMWARE",
        where=rail.where,
        observed=firmware,
        expected=wanted,
        evidence={"board": device.board} if isinstance(device.board, str) else {},
    )


def pkey_missing(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-PKEY-MISSING when the port is no member of the promised partition.

    Of a key with the bit of full members it must be one; else limited membership does, too, with
    which two ports cannot talk to one another. NotJudged without a promise; ProbeError when the
    table is unreadable.
    """
    keys = gates.readable(gates.port_of(rail).pkeys, rail.where, "partition key table")
    found = ", ".join(f"{key:#06x}" for key in keys) or "none"
    if profile.pkey is None:
        raise NotJudged(f"partition keys are {found}; the profile promises none")
    full = bool(profile.pkey & FULL_MEMBER)
    if any(_is_member(key, profile.pkey, full=full) for key in keys):
        return None
    return Finding(
        code="PORT-PKEY-MISSING",
        where=rail.where,
        observed=f"partition keys: {found}",
        expected=f"{profile.pkey:#06x}, as {'full' if full else 'full or limited'} member",
    )


def _is_member(key: int, promised: int, *, full: bool) -> bool:
    return (key ^ promised) & KEY_BITS == 0 and (not full or bool(key & FULL_MEMBER))


def mtu_low(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-MTU-LOW when the port's active MTU is below what the profile promises or asks for.

    Blocked when the device does not open. NotJudged without a promise; ProbeError when libibverbs
    could not be asked.
    """
    device = _device(rail)
    verbs = gates.readable(device.verbs, rail.where, "answer of libibverbs")
    answers = {port.number: port for port in verbs.ports}
    if rail.port not in answers and verbs.error is not None:
        raise Blocked(f"PORT-OPEN-FAILED at {rail.where.text()}")
    unknown = Unreadable(unreadable=f"libibverbs shows no port {rail.port}")
    port = gates.readable(answers.get(rail.port, unknown), rail.where, "active MTU")
    wanted = {
        "expect.mtu_bytes": profile.expect.mtu_bytes or 0,
        "path_mtu": profile.path_mtu or 0,
    }
    key, least = max(wanted.items(), key=lambda item: item[1])
    if not least:
        raise NotJudged(f"active MTU is {port.active_mtu_bytes} bytes; the profile promises none")
    if port.active_mtu_bytes >= least:
        return None
    netdevs = ", ".join(f"{netdev.name} {netdev.mtu_bytes}" for netdev in device.netdevs)
    return Finding(
        code="PORT-MTU-LOW",
        where=rail.where,
        unit="bytes",
        observed=str(port.active_mtu_bytes),
        expected=f"at least {least} ({key})",
        evidence={"most that the port can": str(port.max_mtu_bytes), "netdev MTU": netdevs},
    )


def traffic_class_overridden(rail: Rail, profile: Profile) -> Finding | None:
    """PORT-TRAFFIC-CLASS when the driver puts another class on all packets than the profile asks.

    NotJudged when the profile asks for none, nothing overrides it, or the port is InfiniBand, whose
    lanes go by service level; ProbeError when it is unreadable whether something overrides it.
    """
    port = gates.port_of(rail)
    forced = gates.readable(port.traffic_class, rail.where, "traffic class")
    if gates.readable(port.link_layer, rail.where, "link layer") != "ethernet":
        raise NotJudged("the port is InfiniBand, where the service level counts")
    if forced is None:
        raise NotJudged("no traffic class is forced on the device")
    if not profile.traffic_class:
        raise NotJudged(f"traffic class {forced} is forced; the profile promises none")
    if forced == profile.traffic_class:
        return None
    return Finding(
        code="PORT-TRAFFIC-CLASS",
        where=rail.where,
        observed=f"{forced} forced on the device",
        expected=str(profile.traffic_class),
    )


def _device(rail: Rail) -> RdmaDevice:
    if rail.device is None:
        raise ProbeError(f"{rail.where.text()}: {rail.missing}", step="find the device")
    return rail.device
