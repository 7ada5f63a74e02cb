"""Runs as a comparison reads them, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.blame import Suspect
from gdrcheck.results.compare_side import Baseline
from gdrcheck.results.data import KINDS, Data, NodeData, Part, Place, RailData, Series, Topology
from gdrcheck.results.summary import NodeSummary, Summary, SummaryFinding

OLD_ID, NEW_ID = "20260102T030405Z-0a1b2c", "20260103T030405Z-0a1b2d"
BASIC = {"os[NODE]": "passed", "port_active[NODE/mlx5_0]": "passed"}


@dataclass(frozen=True)
class Pair:
    """One pair case, with its numbers."""

    source: str
    sink: str
    kind: str = "passed"
    check: str = "bandwidth"
    numbers: Mapping[str, float] = field(default_factory=dict)
    mode: str | None = "gpu-gpu"
    operation: str | None = "WRITE"


@dataclass(frozen=True)
class Made:
    """A run. ``devices``: of each node, name -> slot; GPUs begin with ``gpu``."""

    run_id: str = NEW_ID
    nodes: Sequence[str] = ("node1", "node2")
    cases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pairs: Sequence[Pair] = ()
    findings: Mapping[str, Finding] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    suspects: Sequence[Suspect] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    software_rdma: bool = False
    check_mode: bool = False
    verdict: Verdict | None = None

    def but(self, **changes: object) -> Made:
        """The same with these fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def build(self) -> Baseline:
        """As read from its files."""
        data = Data(
            run_id=self.run_id,
            nodes=tuple(self._node(name) for name in self.nodes),
            topologies=(Topology(), *(self._topology(name) for name in self.nodes)),
            places=self._places(),
            words=(),
            series=self._series(),
            suites={suite: _by_kind(cases) for suite, cases in self._all_cases().items()},
            findings=self._findings(),
        )
        return Baseline(summary=self._summary(data), data=data)

    def _all_cases(self) -> dict[str, dict[str, str]]:
        """Each node passes two cases unless ``cases`` says otherwise of it."""
        found = {
            name: {id_.replace("NODE", name): kind for id_, kind in BASIC.items()}
            for name in self.nodes
        }
        for suite, cases in self.cases.items():
            found[suite] = {**found.get(suite, {}), **cases}
            found[suite] = {id_: kind for id_, kind in found[suite].items() if kind}
        return found

    def _node(self, name: str) -> NodeData:
        nics = {dev: slot for dev, slot in self.devices.get(name, {}).items() if dev[:3] != "gpu"}
        return NodeData(
            name=name,
            leaf=None,
            profile=self.profiles.get(name, "bought"),
            complete=name not in self.states,
            versions=dict(self.versions.get(name, {})),
            rails=tuple(
                RailData(id=number, gpu=None, nic=nic, nic_slot=slot)
                for number, (nic, slot) in enumerate(nics.items())
            ),
            topology=1 + list(self.nodes).index(name),
        )

    def _topology(self, name: str) -> Topology:
        devices = self.devices.get(name, {})
        return Topology(
            parts=tuple(
                Part(slot=slot, kind="gpu", name=device)
                for device, slot in devices.items()
                if device.startswith("gpu") and slot is not None
            )
        )

    def _ends(self) -> list[str]:
        return list(dict.fromkeys(end for one in self.pairs for end in (one.source, one.sink)))

    def _places(self) -> tuple[Place, ...]:
        nodes = list(self.nodes)
        return tuple(
            Place(text=end, node=nodes.index(end.partition("/")[0]), rail=0) for end in self._ends()
        )

    def _series(self) -> tuple[Series, ...]:
        ends = self._ends()
        found: dict[tuple[str, str | None, str | None], list[Pair]] = {}
        for one in self.pairs:
            found.setdefault((one.check, one.mode, one.operation), []).append(one)
        return tuple(
            Series(
                check=check,
                mode=mode,
                operation=operation,
                rail=0,
                source=tuple(ends.index(one.source) for one in pairs),
                sink=tuple(ends.index(one.sink) for one in pairs),
                kinds="".join(str(KINDS.index(one.kind)) for one in pairs),
                numbers={
                    name: tuple(one.numbers.get(name) for one in pairs)
                    for name in dict.fromkeys(name for one in pairs for name in one.numbers)
                },
            )
            for (check, mode, operation), pairs in found.items()
        )

    def _findings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for id_, finding in self.findings.items():
            suites = (suite for suite, cases in self._all_cases().items() if id_ in cases)
            suite = next(suites, "pairs")
            found.setdefault(suite, {})[id_] = (f"{finding.code} at {finding.where.text()}",)
        return found

    def _summary(self, data: Data) -> Summary:
        counts = dict.fromkeys(KINDS, 0)
        for _, _, kind in data.kinds_by_case():
            counts[kind] += 1
        verdict = Verdict.PASS
        if counts["error"] or counts["blocked"]:
            verdict = Verdict.INCOMPLETE
        if counts["failed"]:
            verdict = Verdict.FAIL
        return Summary(
            run_id=self.run_id,
            gdrcheck_version="0.1.0",
            created=datetime.strptime(self.run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
            verdict=self.verdict or verdict,
            reasons=(),
            check_mode=self.check_mode,
            limited_to=None,
            emulated=self.emulated,
            software_rdma=self.software_rdma,
            image_id="sha256:1",
            counts=counts,
            findings=tuple(
                SummaryFinding(case=id_, outcome=Outcome.FAILED, finding=finding)
                for id_, finding in self.findings.items()
            ),
            unmeasured=(),
            suspects=tuple(self.suspects),
            waivers=(),
            nodes={
                name: NodeSummary(
                    state=self.states.get(name, "ok"),
                    reason="",
                    complete=name not in self.states,
                    troubles=(),
                )
                for name in self.nodes
            },
            duration_s=None,
        )


def _by_kind(cases: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        kind: tuple(id_ for id_, one in cases.items() if one == kind)
        for kind in dict.fromkeys(cases.values())
    }


def finding(
    node: str,
    code: str = "PORT-NOT-ACTIVE",
    *,
    nic: str | None = None,
    peer: str | None = None,
    severity: Severity = Severity.FAIL,
) -> Finding:
    """A finding at a node."""
    return Finding(
        code=code,
        where=Where(node=node, nic=nic, peer=peer),
        observed="DOWN",
        expected="ACTIVE",
        severity=severity,
    )
