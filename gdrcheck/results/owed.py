"""The cases that each node owes, by its profile and its own facts; those that nobody reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gdrcheck import rails
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.items import promises_gpus
from gdrcheck.profile import Profile
from gdrcheck.registration import METHODS
from gdrcheck.results.cases import CaseResult, class_name
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.pairs import explanation, nodes_with_pairs, not_whole
from gdrcheck.results.states import SeenState
from gdrcheck.rules import gpu_peers
from gdrcheck.rules.driver import expected_modules
from gdrcheck.run import RunSpec

# What a check has one case for.
NODE, MODULE, GPU, RAIL, RAIL_BY_HOST, RAIL_AND_GPU, GPU_TO_NIC, MOVED_BY_METHOD, GPU_PAIR = range(
    9
)
# Area (the module of the checks) -> subject -> names: the checks as they are, so that none of
# them can be left out in silence. A test compares the two.
NODE_PHASE: Mapping[str, Mapping[int, str]] = {
    "host": {NODE: "os kernel command_line iommu"},
    "driver": {
        MODULE: "module_loaded",
        NODE: "nvidia_driver nvidia_version nvidia_module_kind cuda_supported fabric_manager "
        "dmabuf_possible peermem_fits peermem_registered ofed rdma_modules_fit providers",
    },
    "gpus": {
        GPU: "gpu_present gpu_answers gpu_model gpu_mig gpu_bar1",
        NODE: "no_extra_gpu nvml_answers",
    },
    "gpu_health": {
        GPU: "gpu_ecc gpu_memory_repair gpu_recovery gpu_xids gpu_settings gpu_vbios gpu_nvlinks",
        NODE: "confidential_computing nvswitch_errors",
    },
    "pci": {
        RAIL: "nic_driver_bound pci_link_width pci_link_speed pci_errors acs relaxed_ordering "
        "max_payload max_read_request",
        GPU: "gpu_link_width gpu_link_speed gpu_pci_errors",
        RAIL_AND_GPU: "rail_distance",
        NODE: "pci_listed",
    },
    "ports": {
        RAIL: "device_present port_active port_link_layer port_lanes port_rate port_firmware "
        "port_partition port_traffic_class",
        NODE: "no_extra_device no_device_lacking rails_keep_addresses_apart",
    },
    "verbs": {RAIL: "device_opens port_mtu gid_usable"},
    "memory": {RAIL: "memlock_effective", RAIL_BY_HOST: "host_memory_registers"},
    "cuda": {NODE: "cuda_starts", GPU: "gpu_opens gpu_memory_kinds gpu_pattern"},
    "gpu_load": {GPU: "gpu_under_load"},
    "gpu_peers": {GPU_PAIR: "gpu_peers"},
    "registration": {
        GPU_TO_NIC: "gpu_memory_registers",
        MOVED_BY_METHOD: "gpu_memory_moves",
    },
}
PAIR_PHASE: Mapping[str, Mapping[int, str]] = {
    "ports": {RAIL: "port_counters"},
    "gpus": {GPU: "gpu_errors_grew"},
}
# What a node without pairs looks back at in the end, if its profile promises GPUs.
WITHOUT_PAIRS: Mapping[str, Mapping[int, str]] = {"gpus": PAIR_PHASE["gpus"]}
# Of a promised device these are measured whatever the profile says further: nothing excuses them.
NEVER_LEFT_OUT = frozenset(
    (
        "device_present",
        "port_active",
        "device_opens",
        "gid_usable",
        "host_memory_registers",
        "gpu_present",
        "gpu_opens",
        "gpu_pattern",
    )
)


class Owed(NamedTuple):
    """One case that a node owes."""

    id: str
    area: str
    where: Where


def owed_cases(spec: RunSpec, node: str, facts: Facts) -> Iterator[CaseResult]:
    """The cases of ``node``'s own suite, each as an error: nobody has reported it yet."""
    for owed in _owed(spec, node, facts):
        yield _unreported(node, owed)


def _owed(spec: RunSpec, node: str, facts: Facts) -> Iterator[Owed]:
    profile = spec.profile_of(node)
    subjects = _subjects(profile, facts)
    for phase in (NODE_PHASE, _end(spec, node)):
        for area, names_of in phase.items():
            for kind, names in names_of.items():
                for name in names.split():
                    for subject, where in subjects[kind]:
                        yield Owed(f"{name}[{subject}]", area, where)


def _unreported(node: str, owed: Owed) -> CaseResult:
    return CaseResult(
        suite=node,
        id=owed.id,
        classname=class_name(node, owed.area),
        where=owed.where,
        outcome=Outcome.ERROR,
        message="the node reported no such case",
    )


def _end(spec: RunSpec, node: str) -> Mapping[str, Mapping[int, str]]:
    if node in nodes_with_pairs(spec):
        return PAIR_PHASE
    return WITHOUT_PAIRS if promises_gpus(spec.profile_of(node)) else {}


def _subjects(profile: Profile, facts: Facts) -> dict[int, list[tuple[str, Where]]]:
    """What stands in the brackets of the names, for each kind, and the place; as the checks say."""
    node = Where(node=facts.node)
    found = rails.resolve(profile, facts)
    gpu_count = profile.gpus.count if profile.gpus else 0
    gpus = [Where(node=facts.node, gpu=f"gpu{number}") for number in range(gpu_count)]
    subjects = {
        NODE: [(facts.node, node)],
        MODULE: [(f"{facts.node}, {name}", node) for name in expected_modules(profile)],
        GPU: [(where.text(), where) for where in gpus],
        RAIL: [(rail.where.text(), rail.where) for rail in found],
        RAIL_BY_HOST: [(f"{rail.where.text()}, host", rail.where) for rail in found],
        RAIL_AND_GPU: [(rail.where_with_gpu.text(), rail.where) for rail in found if gpus],
        GPU_TO_NIC: _by_method(pair.where for pair in rails.gpu_nic_pairs(profile, facts, found)),
        MOVED_BY_METHOD: _by_method(
            pair.where for pair in rails.pairs_to_move_through(profile, facts, found)
        ),
        GPU_PAIR: [
            (gpu_peers.case_of(where), where) for where in gpu_peers.places(profile, facts.node)
        ],
    }
    # What is not promised has one case, which says so.
    return {kind: cases or subjects[NODE] for kind, cases in subjects.items()}


def _by_method(places: Iterable[Where]) -> list[tuple[str, Where]]:
    return [(f"{where.text()}, {method}", where) for where in places for method in METHODS]


def left_out(report: NodeReport) -> Iterator[str]:
    """What the node says it did not judge of a promised device although it always can."""
    for case in report.cases:
        if case.outcome not in (Outcome.SKIPPED, Outcome.NOT_JUDGED) or case.suite != report.node:
            continue
        name, _, subject = case.id.partition("[")
        if name in NEVER_LEFT_OUT and "/" in subject:
            yield f"case {case.id} is {case.outcome}, but the profile promises the device"


def missing_cases(
    spec: RunSpec, reports: Mapping[str, NodeReport], states: Mapping[str, SeenState]
) -> list[CaseResult]:
    """What nodes with facts owe and did not report, as cases that say why if that is known.

    Without facts, or without any case, ``every_node_reported`` tells of the node as a whole.
    """
    missing = []
    for node, report in reports.items():
        if report.facts is None or not report.cases:
            continue
        cause = not_whole(report, states[node]) or explanation(report)
        told = {case.id for case in report.cases if case.suite == node}
        for owed in _owed(spec, node, report.facts):
            if owed.id not in told:
                case = _unreported(node, owed)
                missing.append(case if cause is None else _blocked(case, *cause))
    return missing


def _blocked(case: CaseResult, blocked_by: str, why: str) -> CaseResult:
    return replace(
        case,
        outcome=Outcome.BLOCKED,
        message=f"blocked by {blocked_by}: {why}",
        blocked_by=blocked_by,
    )
