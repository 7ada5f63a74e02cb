"""Runs that are made for the page alone: a summary and the data of it, of any size."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.data import KINDS, Data, NodeData, Part, Place, RailData, Series, Topology
from gdrcheck.results.summary import NodeSummary, Summary, SummaryFinding

Numbers = dict[str, tuple[float | None, ...]]
RUN_ID = "20260102T030405Z-0a1b2c"
WORD = "0.9 of NIC rate at the source, 400 Gb/s"
EXPECTED_GBPS, SLOW_GBPS = 360.0, 203.0
NODES_A_LEAF = 32
PASSED, FAILED, NOT_JUDGED = (str(KINDS.index(kind)) for kind in ("passed", "failed", "not judged"))


def run(
    nodes: int,
    rails: int = 2,
    rounds: int | Literal["all"] = 4,
    *,
    slow: int | None = None,
    names: Sequence[str] = (),
    modes: Sequence[str] = ("gpu-gpu",),
) -> tuple[Summary, Data]:
    """A run in which all is well, but what node number ``slow`` sends on the last rail.

    ``names`` are those of the first nodes.
    """
    called = [*names, *(f"node{number:04d}" for number in range(len(names) + 1, nodes + 1))]
    return _summary(called, rails, slow), _data(called, rails, rounds, slow, modes)


def _summary(names: Sequence[str], rails: int, slow: int | None) -> Summary:
    found = () if slow is None else (_finding(names[slow], names[slow - 1], rails - 1),)
    node = NodeSummary(state="ok", reason="", complete=True, troubles=())
    return Summary(
        run_id=RUN_ID,
        gdrcheck_version="0.1.0",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        verdict=Verdict.FAIL if found else Verdict.PASS,
        reasons=("1 case failed",) if found else (),
        check_mode=False,
        limited_to=None,
        emulated=False,
        software_rdma=False,
        image_id="",
        counts=dict.fromkeys(KINDS, 0) | {"passed": 1000, "failed": len(found)},
        findings=found,
        unmeasured=(),
        suspects=(),
        waivers=(),
        nodes=dict.fromkeys(names, node),
        duration_s=300.0,
    )


def _finding(node: str, peer: str, rail: int) -> SummaryFinding:
    where = Where(node=node, gpu=f"gpu{rail}", nic=f"mlx5_{rail}", peer=peer)
    told = Finding(
        code="PAIR-BANDWIDTH-LOW",
        where=where,
        observed=f"{SLOW_GBPS}",
        expected=f"at least {EXPECTED_GBPS}",
        unit="Gb/s",
        evidence={"limited by": WORD},
    )
    return SummaryFinding(case=f"bandwidth[{where.text()}]", outcome=Outcome.FAILED, finding=told)


def _data(
    names: Sequence[str],
    rails: int,
    rounds: int | Literal["all"],
    slow: int | None,
    modes: Sequence[str],
) -> Data:
    count = len(names)
    steps = range(1, count) if rounds == "all" else [*range(1, rounds + 1), *range(-rounds, 0)]
    pairs = [(one, (one + step) % count) for one in range(count) for step in steps]
    # As a schedule has them: not in the order of the nodes.
    random.Random(1).shuffle(pairs)
    versions = {"kernel": "6.8.0-60-generic", "NVIDIA driver": "580.95.05"}
    told = tuple(
        RailData(id=rail, gpu=f"gpu{rail}", nic=f"mlx5_{rail}", distance="PIX")
        for rail in range(rails)
    )
    # Not validated: a million rows of each series would be looked at one by one.
    return Data.model_construct(
        run_id=RUN_ID,
        kinds=KINDS,
        nodes=tuple(
            NodeData(
                name=name,
                leaf=f"leaf{number // NODES_A_LEAF + 1:02d}",
                profile="bought",
                complete=True,
                versions=versions,
                rails=told,
                topology=0,
            )
            for number, name in enumerate(names)
        ),
        topologies=(_topology(rails),),
        places=tuple(
            Place(text=f"{name}/gpu{rail}/mlx5_{rail}", node=number, rail=rail)
            for number, name in enumerate(names)
            for rail in range(rails)
        ),
        words=(WORD,),
        series=tuple(
            series
            for rail in range(rails)
            for series in _series(pairs, rail, rails, slow if rail == rails - 1 else None, modes)
        ),
        suites={},
        findings={},
    )


def _topology(rails: int) -> Topology:
    parts = []
    for rail in range(rails):
        bus, numa = f"0000:{rail + 1:x}", rail * 2 // rails
        switch, fast = f"{bus}0:00.0", "32 GT/s x16"
        parts += [
            Part(slot=switch, kind="switch", numa_node=numa, link=fast, link_max=fast),
            Part(slot=f"{bus}1:00.0", kind="gpu", name=f"gpu{rail}", above=switch,
                 numa_node=numa, link=fast, link_max=fast, note="NVIDIA H200"),
            Part(slot=f"{bus}2:00.0", kind="nic", name=f"mlx5_{rail}", above=switch,
                 numa_node=numa, link="32 GT/s x8" if rail == 1 else fast, link_max=fast,
                 note="400 Gb/s infiniband ACTIVE"),
        ]  # fmt: skip
    return Topology(parts=tuple(parts))


def _series(
    pairs: Sequence[tuple[int, int]],
    rail: int,
    rails: int,
    slow: int | None,
    modes: Sequence[str],
) -> list[Series]:
    scatter = random.Random(rail)
    source = tuple(one * rails + rail for one, _ in pairs)
    sink = tuple(other * rails + rail for _, other in pairs)
    rows = len(pairs)
    bad = [one == slow for one, _ in pairs]
    kinds = "".join(FAILED if one else PASSED for one in bad)
    expected: Numbers = {"expected_gbps": (EXPECTED_GBPS,) * rows}
    limited_by = (0,) * rows
    # The numbers are few and shared, as those of a file with three digits are.
    rates, times = (
        [(3850 + one) / 10 for one in range(60)],
        [(230 + one) / 100 for one in range(40)],
    )
    found = []
    for mode in modes:
        bandwidth = scatter.choices(rates, _bell(60), k=rows)
        all_rails = scatter.choices(rates, _bell(60), k=rows)
        latency = tuple(scatter.choices(times, _bell(40), k=rows))
        slowed = tuple(SLOW_GBPS if sick else x for x, sick in zip(bandwidth, bad, strict=True))
        measured: tuple[tuple[str, str, Numbers, str], ...] = (
            ("pingpong", "WRITE", {}, PASSED * rows),
            ("latency", "SEND", {"p50_us": latency}, NOT_JUDGED * rows),
            ("bandwidth", "WRITE", {"gbps_4194304": slowed, **expected}, kinds),
            ("bandwidth_all_rails", "WRITE", {"gbps": tuple(all_rails), **expected}, PASSED * rows),
        )
        for check, operation, numbers, told in measured:
            found.append(
                Series.model_construct(
                    check=check,
                    mode=mode,
                    operation=operation,
                    rail=rail,
                    source=source,
                    sink=sink,
                    kinds=told,
                    numbers=numbers,
                    limited_by=limited_by if expected.keys() <= numbers.keys() else (),
                )
            )
    return found


def _bell(count: int) -> list[float]:
    middle = (count - 1) / 2
    return [2.0 ** -(((one - middle) / (count / 8)) ** 2) for one in range(count)]
