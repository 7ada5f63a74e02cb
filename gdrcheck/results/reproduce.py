"""How to measure a failing pair again by hand: one command for each of its ends. Pure.

Nothing that a node sent goes into a command unless it has the form of what stands there.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.plan import (
    BANDWIDTH_SIZES_BYTES,
    LATENCY_BYTES,
    ONE_SIZE_BYTES,
    STAGED_SIZES_BYTES,
)
from gdrcheck.pairing.schedule import Pair
from gdrcheck.profile import Factors
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.ends import Ends
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.owed_pairs import listed_rails, place_of
from gdrcheck.results.reproduce_end import End, node_of
from gdrcheck.results.reproduce_order import in_order
from gdrcheck.run import DEFAULT_PORT, RunSpec
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS

# Each of them is two commands and a name; nobody types more, and the summary stays small.
MAX_REPRODUCTIONS = 100
TOKEN = "TOKEN"
# What pingpong takes: the largest message, how many sizes, and factors of deadlines.
MAX_SIZE_BYTES = 16 << 20
MAX_SIZES = 64
LEAST_SCALE, MOST_SCALE = 0.1, 100.0
OF_MESSAGE = "message bytes"
MEASUREMENT = re.compile(r"(?:^|, )([0-9]{1,9}) bytes$")

# What is measured with --numbers, and the size at which it is judged.
TIMED_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "latency": LATENCY_BYTES,
        "bandwidth": BANDWIDTH_SIZES_BYTES[-1],
        "bandwidth_both_ways": ONE_SIZE_BYTES,
        "bandwidth_all_rails": ONE_SIZE_BYTES,
        "staged_against_direct": STAGED_SIZES_BYTES[-1],
        "perftest_bandwidth": ONE_SIZE_BYTES,
        "perftest_latency": LATENCY_BYTES,
    }
)
# What the command does otherwise than the run did.
PINNED = "the run's host memory was mapped for the GPU, this is not"
FACTORS = "the run judged by the profile's factors, this by those that hold without one"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "latency": "the run judged the latency by the profile, this only shows it",
        "pingpong_far": "the run's messages lay beyond 2 GiB in GPU memory, these do not",
        "rdma_cm": "the run connected by rdma_cm, this does not",
        "bandwidth_both_ways": "the run measured both ways at once, this one after the other",
        "bandwidth_all_rails": "the run measured all rails at once, this is one rail alone",
        "staged_against_direct": "the run compared with copies through host memory, this does not",
        "perftest_bandwidth": "the run used perftest, this is our own loop",
        "perftest_latency": "the run used perftest, this is our own loop",
    }
)


class Reproduction(BaseModel):
    """One failing pair of rails. ``places``: the listener's and the caller's; ``cases``: how many
    of its cases failed. ``listener`` and ``caller`` are the commands, to be started in this order;
    TOKEN is what the listener prints. ``differs``: what they do otherwise than the run did.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    places: tuple[str, str]
    cases: int
    listener: str
    caller: str
    differs: tuple[str, ...] = ()


def reproductions(
    spec: RunSpec, cases: Sequence[CaseResult], reports: Mapping[str, NodeReport]
) -> tuple[Reproduction, ...]:
    """One for each pair of rails with a case that fails the run, those first that tell most of
    an end; the first MAX_REPRODUCTIONS of them.
    """
    order = {node.name: number for number, node in enumerate(spec.nodes)}
    failing: dict[tuple[str, str], list[tuple[Ends, CaseResult]]] = defaultdict(list)
    for case in cases:
        # Cases of pairs alone have such names; those that are owed have them as well, as errors.
        ends = case.ends if case.outcome is Outcome.FAILED and case.fails else None
        if ends is None or not order.keys() >= set(ends.nodes):
            continue
        by_order = sorted((ends.source, ends.sink), key=lambda place: order[node_of(place)])
        failing[by_order[0], by_order[1]].append((ends, case))
    found = []
    for caller, listener in in_order(failing, cases)[:MAX_REPRODUCTIONS]:
        members = failing[caller, listener]
        pair = Pair(node_of(caller), node_of(listener))
        rails = listed_rails(reports[pair.initiator], pair)
        ends_by_place = {
            place: End(place, spec, reports[node_of(place)].facts, _rail_at(place, rails))
            for place in (caller, listener)
        }
        found.append(_reproduction(spec, ends_by_place, members))
    return tuple(found)


def _rail_at(place: str, rails: Mapping[str, Mapping[int, RailInfo]]) -> RailInfo | None:
    """The rail of a place, as the rendezvous told it: with host memory alone the name lacks the
    GPU."""
    node = node_of(place)
    for rail in rails.get(node, {}).values():
        if place in (place_of(node, rail), f"{node}/{rail.nic}"):
            return rail
    return None


def _reproduction(
    spec: RunSpec, ends: Mapping[str, End], members: Sequence[tuple[Ends, CaseResult]]
) -> Reproduction:
    caller, listener = ends.values()
    modes = [mode for mode in MODES if mode in {_mode(one) for one, _ in members}]
    gpus = modes != ["host-host"]
    way = list(_way(spec, listener))
    address = spec.node(listener.node).address
    listening = [
        f"gdrcheck pingpong --listen{_own(address)}",
        *listener.options(members, gpus=gpus),
        *way,
    ]
    calling = [
        f"GDRCHECK_TOKEN={TOKEN} gdrcheck pingpong {shlex.quote(address)}",
        *caller.options(members, gpus=gpus),
        *way,
        *_measured(spec, (caller.node, listener.node), members, modes),
    ]
    return Reproduction(
        places=(listener.place, caller.place),
        cases=len(members),
        listener=" ".join(listening),
        caller=" ".join(calling),
        differs=tuple(_differs(spec, (caller.node, listener.node), members)),
    )


def _own(address: str) -> str:
    """The address to listen on, as in the run; a name is nothing to listen on."""
    try:
        return f" {shlex.quote(str(ip_address(address)))}"
    except ValueError:
        return ""


def _way(spec: RunSpec, listener: End) -> Iterator[str]:
    """What both ends must be given alike."""
    port = spec.node(listener.node).port
    if port != DEFAULT_PORT:
        yield f"-p {port}"
    if spec.time_scale != 1:
        yield f"--time-scale {min(max(spec.time_scale, LEAST_SCALE), MOST_SCALE):g}"


def _measured(
    spec: RunSpec,
    nodes: tuple[str, str],
    members: Sequence[tuple[Ends, CaseResult]],
    modes: Sequence[str],
) -> Iterator[str]:
    """What the caller says for both ends."""
    if modes:
        yield f"--modes {','.join(modes)}"
    known = {ends.operation for ends, _ in members}
    operations = [one for one in (*OPERATIONS, *ATOMICS) if one in known]
    if operations:
        yield f"--operations {','.join(operations)}"
    timed = any(ends.check in TIMED_BYTES for ends, _ in members)
    if sizes := _sizes(members, timed=timed):
        yield f"-s {','.join(map(str, sizes))}"
    if timed:
        yield "--numbers"
    profiles = [spec.profile_of(node) for node in nodes]
    if traffic_class := profiles[0].traffic_class:
        yield f"-T {traffic_class}"
    if path_mtu := next((one.path_mtu for one in profiles if one.path_mtu), None):
        yield f"-m {path_mtu}"


def _mode(ends: Ends) -> str | None:
    """pingpong has no pinned memory: what the NIC reads of it is host memory."""
    return "host-host" if ends.mode == "pinned-pinned" else ends.mode


def _sizes(members: Sequence[tuple[Ends, CaseResult]], *, timed: bool) -> Sequence[int]:
    """Those that failed; none where one of them is not known, so that all are measured."""
    found = [_size_bytes(ends, case) for ends, case in members if ends.operation not in ATOMICS]
    sizes = {size for size in found if size is not None}
    if not sizes or None in found:
        return ()
    # pingpong judges the bandwidth of the largest, for which small ones are no measure.
    if timed and max(sizes) < ONE_SIZE_BYTES:
        sizes.add(BANDWIDTH_SIZES_BYTES[-1])
    return sorted(sizes) if len(sizes) <= MAX_SIZES else ()


def _size_bytes(ends: Ends, case: CaseResult) -> int | None:
    """Of the message that failed; None where it is not known, or too large for pingpong."""
    sizes = [size for finding in case.findings if (size := _told_bytes(finding)) is not None]
    size = sizes[0] if sizes else TIMED_BYTES.get(ends.check)
    return size if size is not None and 1 <= size <= MAX_SIZE_BYTES else None


def _told_bytes(finding: Finding) -> int | None:
    size = finding.evidence.get(OF_MESSAGE, "")
    if re.fullmatch(r"[0-9]{1,9}", size):
        return int(size)
    match = MEASUREMENT.search(finding.evidence.get("measurement", ""))
    return int(match[1]) if match else None


def _differs(
    spec: RunSpec, nodes: tuple[str, str], members: Sequence[tuple[Ends, CaseResult]]
) -> Iterator[str]:
    for check in dict.fromkeys(ends.check for ends, _ in members):
        if check in DIFFERS:
            yield DIFFERS[check]
    if any(ends.mode == "pinned-pinned" for ends, _ in members):
        yield PINNED
    profiles = [spec.profile_of(node) for node in nodes]
    bandwidth = any("bandwidth" in ends.check for ends, _ in members)
    if bandwidth and any(one.factors != Factors() for one in profiles):
        yield FACTORS
    for name in ("service_level", "pkey"):
        if value := next((found for one in profiles if (found := getattr(one, name))), None):
            yield f"the profile's {name} {value} has no option here"
