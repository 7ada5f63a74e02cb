"""What made-up nodes tell of their cases, as records of events: the healthy and the bad ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.evidence import ROLE_WORDS
from gdrcheck.pairing.items import Item, items
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results.events import MAX_PLANNED
from gdrcheck.run import RunSpec
from tests.results import many

Sickness = Literal["ecc", "port down", "slow NIC", "wrong data", "died", "unreachable"]
SICKNESSES: tuple[Sickness, ...] = (
    *("ecc", "port down", "slow NIC", "wrong data", "died", "unreachable"),
)
SICK_RAIL = 5
NODE_PHASE_TIME, PAIR_PHASE_TIME = "2026-01-02T03:04:10.250000Z", "2026-01-02T03:09:10.250000Z"
AREAS = {
    **dict.fromkeys(("pingpong", "pingpong_far"), "pingpong"),
    **dict.fromkeys(("perftest_bandwidth", "perftest_latency"), "perftest"),
    "rdma_cm": "rdma_cm",
}
SIZES = ("64 KiB", "1 MiB", "4 MiB")
EXPECTED = "360 Gb/s, 0.9 of NIC rate at the source, 400 Gb/s"
UNPROMISED = frozenset({"os", "kernel", "command_line", "iommu", "ofed", "acs", "max_payload"})
Json = dict[str, Any]
# The name, class name and place of a case.
Planned = tuple[str, str, Where]


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a case, but for its name."""

    outcome: Outcome = Outcome.PASSED
    message: str = ""
    findings: tuple[Finding, ...] = ()
    blocked_by: str | None = None


# What became of it, how long it took, and its properties.
End = tuple[Ended, float, Json]
PASSED = Ended()


def failed(finding: Finding) -> Ended:
    """A case that failed with this finding."""
    return Ended(Outcome.FAILED, finding.text(), (finding,))


def line(phase: str, **record: object) -> str:
    """One record of the file of events."""
    time = PAIR_PHASE_TIME if phase == "pair" else NODE_PHASE_TIME
    return json.dumps({"v": 1, "time": time, "phase": phase, **record}) + "\n"


def _plan(phase: str, cases: Sequence[Planned]) -> Iterator[str]:
    for first in range(0, len(cases), MAX_PLANNED):
        part = cases[first : first + MAX_PLANNED]
        yield line(
            phase,
            event="plan",
            cases=[
                {"id": id_, "classname": classname, "where": where.model_dump(), "of_node": False}
                for id_, classname, where in part
            ],
        )


def _end(phase: str, id_: str, ended: Ended, duration_s: float, properties: Json) -> str:
    findings = [finding.model_dump(mode="json") for finding in ended.findings]
    return line(phase, event="start", id=id_) + line(
        phase,
        event="end",
        id=id_,
        outcome=str(ended.outcome),
        duration_s=duration_s,
        message=ended.message,
        findings=findings,
        blocked_by=ended.blocked_by,
        properties=properties,
    )


# --- a node by itself ---------------------------------------------------------------------------


def node_phase(node: str, owed: Sequence[Planned], sickness: Sickness | None) -> Iterator[str]:
    """All that a node tells of itself: the plan, and what became of each case."""
    yield from _plan("node", owed)
    for id_, _, where in owed:
        check = id_.partition("[")[0]
        ended = _ended(node, check, where, sickness)
        yield _end("node", id_, ended, 0.012, {"method": "dmabuf"} if "memory" in check else {})


def _ended(node: str, check: str, where: Where, sickness: Sickness | None) -> Ended:
    if check in UNPROMISED:
        return Ended(Outcome.NOT_JUDGED, f"{check} is as read; the profile promises none")
    if check == "gpu_memory_registers" and (where.gpu or "")[-1:] != (where.nic or "")[-1:]:
        return Ended(Outcome.NOT_JUDGED, "registered; GPU and NIC are of no rail")
    if sickness == "ecc" and check == "gpu_ecc" and where.gpu == f"gpu{SICK_RAIL}":
        return failed(
            Finding(
                code="GPU-ECC-UNCORRECTABLE",
                where=where,
                observed="2 uncorrectable errors since boot",
                expected="none",
            )
        )
    if sickness == "port down" and where.nic == f"mlx5_{SICK_RAIL}":
        if check == "port_active":
            return failed(_port_down(node))
        if check in ("port_rate", "port_lanes", "port_mtu", "gid_usable"):
            return _blocked_by_port(node)
    return PASSED


def _port_down(node: str) -> Finding:
    return Finding(
        code="PORT-NOT-ACTIVE",
        where=Where(node=node, nic=f"mlx5_{SICK_RAIL}"),
        observed="state DOWN",
        expected="state ACTIVE",
    )


def _blocked_by_port(node: str) -> Ended:
    by = f"PORT-NOT-ACTIVE at {node}/mlx5_{SICK_RAIL}"
    return Ended(Outcome.BLOCKED, f"blocked by {by}", (), by)


# --- pairs --------------------------------------------------------------------------------------


def pair_phase(spec: RunSpec, pairs: Sequence[Pair], sick: Mapping[str, Sickness]) -> Iterator[str]:
    """All that an initiator tells of its pairs; nothing of those with unreachable nodes."""
    told = list(pairs_told(spec, pairs, sick))
    yield from _plan("pair", [planned for _, cases in told for planned, _ in cases])
    yield from (_end("pair", planned[0], *end) for _, cases in told for planned, end in cases)


def pairs_told(
    spec: RunSpec, pairs: Sequence[Pair], sick: Mapping[str, Sickness]
) -> Iterator[tuple[Pair, list[tuple[Planned, End]]]]:
    """Each pair that is measured, and what became of its cases."""
    for pair in pairs:
        if "unreachable" in (sick.get(pair.initiator), sick.get(pair.responder)):
            continue
        cases: list[tuple[Planned, End]] = []
        scatter = random.Random(f"{pair.initiator} {pair.responder}")
        owed = items(spec.profiles["bought"], spec.profiles["bought"], gpus=True)
        for rail in range(many.RAILS):
            for item in owed:
                for direction in item.directions:
                    source, sink = pair if direction == "out" else pair[::-1]
                    id_, where = _pair_case(item, source, sink, rail)
                    ended = _pair_ended(item, where, sink, rail, sick)
                    planned = id_, f"pairs.{AREAS.get(item.check, 'speed')}", where
                    numbers = _numbers(item, where, sick, scatter)
                    took_s = round(scatter.uniform(0.1, 0.9), 3)
                    cases.append((planned, (ended, took_s, {} if ended.blocked_by else numbers)))
        yield pair, cases


def _pair_case(item: Item, source: str, sink: str, rail: int) -> tuple[str, Where]:
    place = f"gpu{rail}/mlx5_{rail}"
    where = Where(node=source, gpu=f"gpu{rail}", nic=f"mlx5_{rail}", peer=sink)
    return item.id(f"{source}/{place}", f"{sink}/{place}"), where


def _pair_ended(
    item: Item, where: Where, sink: str, rail: int, sick: Mapping[str, Sickness]
) -> Ended:
    if item.check == "latency":
        return Ended(Outcome.NOT_JUDGED, "the profile promises no latency (latency_limit_us)")
    if rail != SICK_RAIL:
        return PASSED
    for node in (where.node, sink):
        if sick.get(node) == "port down":
            return _blocked_by_port(node)
    if _is_slow(item, where, sick):
        return failed(
            Finding(
                code="PAIR-BANDWIDTH-LOW",
                where=where,
                observed="203.4",
                expected="at least 360.0 (0.9 of NIC rate at the source, 400 Gb/s)",
                unit="Gb/s",
                evidence={"limited by": "NIC rate at the source, 400 Gb/s", "factor": "0.9"},
            )
        )
    if sick.get(sink) == "wrong data" and item.check == "pingpong" and item.mode.endswith("-gpu"):
        return failed(
            Finding(
                code="PAIR-GPU-WRITE",
                where=Where(node=sink, gpu=where.gpu, nic=where.nic, peer=where.node),
                observed="0f (first wrong byte at offset 4095, 1 wrong, looks like other)",
                expected="5a",
                evidence={"role": ROLE_WORDS["sink"]},
            )
        )
    return PASSED


def _is_slow(item: Item, where: Where, sick: Mapping[str, Sickness]) -> bool:
    from_sick = sick.get(where.node) == "slow NIC" and where.gpu == f"gpu{SICK_RAIL}"
    return from_sick and item.check.startswith("bandwidth") and not item.check.endswith("both_ways")


def _numbers(
    item: Item, where: Where, sick: Mapping[str, Sickness], scatter: random.Random
) -> dict[str, str]:
    """What a check tells of its measurement, in its words."""
    gpu = item.mode != "host-host"
    if "latency" in item.check:
        middle = scatter.gauss(2.4 if gpu else 1.9, 0.05)
        times = {"p50": middle, "p99": middle * 1.4, "min": middle * 0.9, "max": middle * 9}
        told = {name: f"{value:.2f} us" for name, value in times.items()}
        return {"loop": "a loop in Python", "size": "8 bytes", **told}
    if "bandwidth" in item.check or item.check == "staged_against_direct":
        top = scatter.gauss(203 if _is_slow(item, where, sick) else 388, 1.5)
        if item.check in ("bandwidth_both_ways", "bandwidth_all_rails"):
            ways = {f"out, from {where.node}": top, f"back, from {where.peer}": top * 0.99}
            return {way: f"{rate:.3g} Gb/s" for way, rate in ways.items()} | {"expected": EXPECTED}
        shares = zip(SIZES, (0.55, 0.97, 1), strict=True)
        rates = {size: f"{top * share:.3g} Gb/s" for size, share in shares}
        return {**rates, "queue pairs": "4", "expected": EXPECTED}
    return {
        "messages verified": "420 of 1 to 16777216 bytes",
        "memory": "dmabuf; dmabuf relaxed" if gpu else "host; host relaxed",
        "path MTU": "4096",
        "cores of the source": f"{where.node}: 0-15",
        "cores of the sink": f"{where.peer}: 0-15",
    }
