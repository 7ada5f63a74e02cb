"""Directories as nodes leave them, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from junitparser import JUnitXml

from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.pairing.items import items
from gdrcheck.pairing.messages import ClockOffset, NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.profile import Profile
from gdrcheck.results.events import (
    Case,
    EndEvent,
    Event,
    EventWriter,
    PlanEvent,
    RunEvent,
    StartEvent,
    StepEvent,
)
from gdrcheck.results.folder import read_run
from gdrcheck.results.incoming import read_node
from gdrcheck.results.merge import merge
from gdrcheck.results.owed import owed_cases
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.results.summary import Summary
from gdrcheck.run import RunSpec
from tests.node.support import RUN_ID, facts, profile, run_spec

WHEN = datetime(2026, 1, 2, 3, 4, 10, tzinfo=UTC)


def write_run(root: Path, spec: RunSpec) -> Path:
    """A results directory for ``spec``."""
    (root / "nodes").mkdir(parents=True)
    (root / "run.json").write_text(spec.model_dump_json())
    return root


def append(directory: Path, *events: Event) -> None:
    """Append events to those of the node that left ``directory``."""
    with EventWriter(directory / "events.jsonl") as writer:
        for event in events:
            writer.write(event.model_copy(update={"time": WHEN}))


def fill(root: Path, outcome: Outcome = Outcome.PASSED) -> None:
    """Give every node that reported to its end what else it owes, all with this outcome."""
    spec = read_run(root)
    for node in spec.nodes:
        directory = root / "nodes" / node.name
        report = read_node(directory, node.name, spec.run_id, "died")
        if not report.complete or report.facts is None:
            continue
        told = {case.id for case in report.cases}
        cases = [
            Case(id=one.id, classname=one.classname, where=one.where)
            for one in owed_cases(spec, node.name, report.facts)
            if one.id not in told
        ]
        ends = [EndEvent(phase="node", id=one.id, outcome=outcome) for one in cases]
        append(directory, PlanEvent(phase="node", cases=tuple(cases)), *ends)


class NodeTree:
    """What one node left. Complete unless ``died`` is called."""

    def __init__(self, root: Path, node: str, *, image_id: str = "sha256:1") -> None:
        self.directory = root / "nodes" / node
        self.directory.mkdir(parents=True)
        self.node = node
        self.add(
            RunEvent(
                phase="run",
                run_id=RUN_ID,
                node=node,
                gdrcheck_version="0.1.0",
                image_id=image_id,
                emulated=False,
            )
        )
        self.facts(facts(node))
        self.done()

    def add(self, *events: Event) -> None:
        """Append events."""
        append(self.directory, *events)

    def facts(self, found: Facts) -> None:
        """Write facts.json."""
        (self.directory / "facts.json").write_text(found.model_dump_json())

    def done(self, reason: str = "", exit_code: int = 0) -> None:
        """Write done.json."""
        text = f'{{"exit_code": {exit_code}, "reason": "{reason}", "finished": true}}'
        (self.directory / "done.json").write_text(text)

    def died(self) -> None:
        """The container ended before it wrote its last file."""
        (self.directory / "done.json").unlink()

    def plan(self, *ids: str, where: Where | None = None) -> None:
        """Plan cases of the node phase."""
        place = where or Where(node=self.node)
        cases = tuple(Case(id=id_, classname=f"{self.node}.ports", where=place) for id_ in ids)
        self.add(PlanEvent(phase="node", cases=cases))

    def start(self, id_: str, *steps: str) -> None:
        """Start a case and announce its steps."""
        self.add(
            StartEvent(phase="node", id=id_),
            *(StepEvent(phase="node", id=id_, text=text) for text in steps),
        )

    def case(
        self,
        id_: str,
        outcome: Outcome = Outcome.PASSED,
        *,
        message: str = "",
        findings: Sequence[Finding] = (),
        where: Where | None = None,
        blocked_by: str | None = None,
    ) -> None:
        """A case of the node phase from its plan to its end."""
        self.plan(id_, where=where)
        self.start(id_)
        self.add(
            EndEvent(
                phase="node",
                id=id_,
                outcome=outcome,
                duration_s=0.5,
                message=message,
                findings=tuple(findings),
                blocked_by=blocked_by,
            )
        )

    def pair(
        self,
        source: str,
        sink: str,
        outcome: Outcome = Outcome.PASSED,
        *,
        check: str = "pingpong",
        mode: str = "host-host",
        operation: str = "SEND",
        code: str = "PAIR-DATA-CORRUPT",
        blocked_by: str | None = None,
    ) -> str:
        """A pair case ``source`` to ``sink`` (places like node1/rxe0); returns its name."""
        id_ = f"{check}[{source} -> {sink}, {mode}, {operation}]"
        place = place_of(source, sink)
        found: tuple[Finding, ...] = ()
        if outcome is Outcome.FAILED:
            found = (Finding(code=code, where=place, observed="bad", expected="good"),)
        self.add(
            PlanEvent(phase="pair", cases=(Case(id=id_, classname="pairs.data", where=place),)),
            StartEvent(phase="pair", id=id_),
            EndEvent(phase="pair", id=id_, outcome=outcome, findings=found, blocked_by=blocked_by),
        )
        return id_

    def both_ways(
        self, other: str, nic: str = "rxe0", promises: Profile | None = None, gpu: str = ""
    ) -> None:
        """Passed pair cases with ``other``: everything that a rail owes in both directions."""
        promised = promises or profile()
        ends = {"out": (self.node, other), "in": (other, self.node)}
        for item in items(promised, promised, gpus=bool(gpu)):
            for direction in item.directions:
                source, sink = (
                    f"{node}/{gpu}/{nic}" if gpu else f"{node}/{nic}" for node in ends[direction]
                )
                self.pair(source, sink, check=item.check, mode=item.mode, operation=item.operation)

    def rendezvous(
        self,
        ready: Iterable[str],
        nics: Sequence[str] = (),
        clocks: Mapping[str, ClockOffset] = MappingProxyType({}),
        **others: str,
    ) -> None:
        """The list of the rendezvous: who is ready, with which rails, and the others' state."""
        rails = tuple(RailInfo(id=number, nic=nic) for number, nic in enumerate(nics))
        states = {
            name: NodeState(state="ready", rails=rails, clock=clocks.get(name)) for name in ready
        } | {
            name: NodeState.model_validate({"state": state, "reason": "no sign of life"})
            for name, state in others.items()
        }
        RendezvousResult(leader=self.node, nodes=states).write(self.directory / "rendezvous.json")


def place_of(source: str, sink: str) -> Where:
    """The Where of a pair case: the source's place, with the other node as the peer."""
    node, *device = source.split("/")
    gpu, nic = device if len(device) > 1 else (None, *device, None)[:2]
    return Where(node=node, gpu=gpu, nic=nic, peer=sink.partition("/")[0])


def port_down(node: str = "node1", nic: str = "rxe0") -> Finding:
    """A port that is not active."""
    return Finding(
        code="PORT-NOT-ACTIVE",
        where=Where(node=node, nic=nic),
        observed="state DOWN",
        expected="state ACTIVE",
    )


class Merged:
    """The outcome of a merge, read back from the files that it wrote.

    ``whole``: what the trees leave out of what their nodes owe counts as passed.
    """

    def __init__(self, root: Path, seen: SeenStates | None = None, *, whole: bool = True) -> None:
        if whole:
            fill(root)
        self.root = root
        self.summary = merge(root, seen or SeenStates())
        written = Summary.model_validate_json((root / "summary.json").read_bytes())
        assert written == self.summary
        self.junit = JUnitXml.fromfile(str(root / "junit.xml"))
        self.suites = {suite.name: suite for suite in self.junit}
        self.cases = {case.name: case for suite in self.junit for case in suite}

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.summary.verdict

    @property
    def uncompared(self) -> set[str]:
        """The cases about differences that these trees hold too little for."""
        return {
            name
            for name, case in self.cases.items()
            if case.result
            and name.startswith(("mtu_", "firmware_", "vbios_", "software_", "clocks_", "cabling"))
            and type(case.result[0]).__name__ == "Skipped"
        }

    def result(self, id_: str) -> tuple[str, str] | None:
        """The element of a case and its message; None when it passed."""
        found = self.cases[id_].result
        return (type(found[0]).__name__, found[0].message) if found else None


def two_nodes(root: Path) -> tuple[NodeTree, NodeTree]:
    """Two nodes on which everything passed."""
    write_run(root, run_spec("node1", "node2"))
    one, two = NodeTree(root, "node1"), NodeTree(root, "node2")
    for tree in (one, two):
        tree.case(f"port_active[{tree.node}/rxe0]", where=Where(node=tree.node, nic="rxe0"))
    one.both_ways("node2")
    return one, two


def seen(**states: str) -> SeenStates:
    """States as the playbook gives them."""
    return SeenStates(
        nodes={
            name: SeenState.model_validate(
                {"state": state, "reason": "" if state == "ok" else "why"}
            )
            for name, state in states.items()
        }
    )
