"""What a node tells the others of its rails: which are ready, and what blocks the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address
from types import MappingProxyType

from gdrcheck import rails
from gdrcheck.facts import Facts, GidEntry, Unreadable
from gdrcheck.node.limits import limits_of
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import RailInfo, clipped
from gdrcheck.profile import Gid, Profile
from gdrcheck.registration import METHODS, Method
from gdrcheck.results.cases import CaseResult

# All rails of a node go into one frame of 64 KiB: with many of them each has less room for reasons.
REASONS_CHARS = 4000
MAX_REASON_CHARS = 300
# The checks that a transfer stands on. What others find, such as a slow link or old firmware, is no
# reason not to measure.
NEEDED = (
    "device_present",
    "device_opens",
    "port_active",
    "gid_usable",
    "memlock_effective",
    "host_memory_registers",
)
# Those that GPU memory stands on as well: of the node, of the rail's GPU, or of both and the NIC.
# Without the pattern being right on the GPU itself its verdict proves nothing.
NEEDED_BY_GPUS = (
    "cuda_starts",
    "gpu_present",
    "no_extra_gpu",
    "gpu_answers",
    "gpu_opens",
    "gpu_pattern",
)
NEEDED_BY_METHODS = ("gpu_memory_registers", "gpu_memory_moves")
NO_FACTS = "facts were not read"


def ready_rails(
    profile: Profile,
    facts: Facts | None,
    node_cases: Sequence[CaseResult],
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> tuple[RailInfo, ...]:
    """The promised rails, each with what the node phase found against it, if anything.

    ``addresses`` are the IPv4 addresses of this node's interfaces.
    """
    gpus = profile.gpus is not None and profile.gpus.count > 0
    if facts is None:
        count = profile.rails.count if profile.rails else 0
        gpu_blocked_by = NO_FACTS if gpus else None
        return tuple(
            RailInfo(
                id=index, nic=f"rail{index}", blocked_by=NO_FACTS, gpu_blocked_by=gpu_blocked_by
            )
            for index in range(count)
        )
    found = rails.resolve(profile, facts)
    limit = min(MAX_REASON_CHARS, REASONS_CHARS // max(1, len(found)))
    return tuple(
        _info(rail, profile, facts, node_cases, limit, addresses).model_copy(
            update={"limits": limits_of(rail, facts, found)}
        )
        for rail in found
    )


def _info(
    rail: rails.Rail,
    profile: Profile,
    facts: Facts,
    cases: Sequence[CaseResult],
    limit: int,
    addresses: Mapping[str, str],
) -> RailInfo:
    methods, gpu_blocked_by = _memory(rail, profile, facts, cases)
    blocked_by = (
        _blocker(case for case in cases if case.where.nic == rail.nic and _check(case) in NEEDED)
        or rail.missing
    )
    return RailInfo(
        id=rail.id,
        gpu=rail.gpu,
        nic=rail.nic,
        port=rail.port,
        blocked_by=blocked_by and clipped(blocked_by, limit),
        gpu_blocked_by=gpu_blocked_by and clipped(gpu_blocked_by, limit),
        methods=methods,
        data_address=_data_address(rail, profile.gid, addresses),
    )


def _memory(
    rail: rails.Rail, profile: Profile, facts: Facts, cases: Sequence[CaseResult]
) -> tuple[tuple[Method, ...], str | None]:
    """The methods by which memory of the rail's GPU is to be moved, or what keeps it from that.

    Neither for a rail that has no GPU.
    """
    promised = profile.gpus.count if profile.gpus else 0
    if not promised or (rail.gpu is None and not _numbers_unknown(promised, facts)):
        return (), None
    about = [case for case in cases if _concerns(case, rail)]
    if blocker := _blocker(case for case in about if _check(case) in NEEDED_BY_GPUS):
        return (), blocker
    wanted: tuple[Method, ...] = METHODS
    if profile.registration in METHODS:
        wanted = (profile.registration,)
    usable = tuple(method for method in wanted if _works(method, about))
    if usable:
        return usable[:1] if profile.registration == "any" else usable, None
    by_method = [case for case in about if _check(case) in NEEDED_BY_METHODS]
    return (), _blocker(by_method) or f"no method was shown to work: {', '.join(wanted)}"


def _numbers_unknown(promised: int, facts: Facts) -> bool:
    """Whether the GPUs that are there are not those that are promised: any rail may lack its."""
    return isinstance(facts.pci, Unreadable) or len(facts.pci.nvidia_gpus) != promised


def _concerns(case: CaseResult, rail: rails.Rail) -> bool:
    """Whether the case is about the rail's GPU, with its NIC or any, or about the whole node."""
    return case.where.gpu in (None, rail.gpu) and case.where.nic in (None, rail.nic)


def _check(case: CaseResult) -> str:
    return case.id.partition("[")[0]


def _works(method: Method, cases: Sequence[CaseResult]) -> bool:
    """Whether memory was registered by ``method`` and data moved: each has a case that says so.

    Waived failures are for the owner to answer for, as they are for a rail.
    """
    shown = {
        _check(case)
        for case in cases
        if case.id.endswith(f", {method}]")
        and (case.outcome is Outcome.PASSED or (case.outcome is Outcome.FAILED and not case.fails))
    }
    return shown.issuperset(NEEDED_BY_METHODS)


def _blocker(cases: Iterable[CaseResult]) -> str | None:
    """The first case that did not pass; one with a finding of its own before one without."""
    # A waiver excuses what is blocked; it does not make the rail usable.
    against = [
        case for case in cases if case.fails or case.outcome in (Outcome.ERROR, Outcome.BLOCKED)
    ]
    for case in against:
        if case.outcome is Outcome.FAILED and case.findings:
            return f"{case.findings[0].code} at {case.findings[0].where.text()}"
    for case in against:
        if case.blocked_by:
            return case.blocked_by
    return f"{against[0].outcome} in {against[0].id}" if against else None


def _data_address(rail: rails.Rail, gid: Gid, addresses: Mapping[str, str]) -> str | None:
    """The IP address of the rail's port; None when it has none, or nobody knows which.

    Of RoCE each GID but a link-local one is an address. Those of InfiniBand are none: there it is
    that of the port's interface. Source: Linux drivers/infiniband/core/roce_gid_mgmt.c.
    """
    port = rail.device.port(rail.port) if rail.device else None
    if rail.device is None or port is None:
        return None
    if port.link_layer != "ethernet":
        of_device = [addresses[name] for name in rail.device.netdev_names if name in addresses]
        return of_device[0] if len(of_device) == 1 else None
    gids = () if isinstance(port.gids, Unreadable) else port.gids
    found = [address for entry in gids if (address := _address(entry, gid))]
    # As the choice of the GID prefers them: IPv4 first.
    return next((text for text in found if ":" not in text), next(iter(found), None))


def _address(entry: GidEntry, gid: Gid) -> str | None:
    address = IPv6Address(entry.gid)
    mapped = address.ipv4_mapped
    usable = mapped or address
    if usable.is_link_local or usable.is_unspecified or not entry.netdev:
        return None
    if gid.family not in ("any", "ipv6" if mapped is None else "ipv4"):
        return None
    return str(usable)
