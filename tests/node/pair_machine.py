"""A node at the beginning of its pair phase, on which the real checks of that phase run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdrcheck.facts import Facts
from gdrcheck.node.clock import CaseLimit, Elapsed, Stop
from gdrcheck.node.phase import PhasePlan, run_phase
from gdrcheck.node.process import PACKAGE_ROOT
from gdrcheck.node.record import Record
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.results.cases import CaseResult
from gdrcheck.run import NodeSpec, RunSpec
from tests.node.support import run_spec, short_waits
from tests.pairing.support import LOOPBACK, free_ports

SECRET = "ab" * 32


@dataclass(frozen=True)
class Machine:
    """node1, about to begin its pair phase: its output directory and its root."""

    out: Path
    root: Path

    def port(self, **files: str) -> None:
        """Replace files of the port: it is ``hw_counters__link_downed`` for a counter."""
        for name, text in files.items():
            path = self.root / "sys/class/infiniband/rxe0/ports/1" / name.replace("__", "/")
            path.write_text(text)

    def facts(self, facts: Facts) -> None:
        """What was read before the transfers."""
        (self.out / "facts.json").write_text(facts.model_dump_json())

    def run(self, peer: str, spec: RunSpec | None = None) -> dict[str, CaseResult]:
        """The results of the pair phase with a node2 that was ``absent`` or ``ready``."""
        spec = spec or two("node1", "node2")
        rails = (RailInfo(id=0, nic="rxe0"),)
        states = {
            "node1": NodeState(state="ready", rails=rails),
            "node2": NodeState(state=peer, rails=rails if peer == "ready" else ()),
        }
        RendezvousResult(leader="node1", nodes=states).write(self.out / "rendezvous.json")
        (self.out.parent / "run.json").write_text(spec.model_dump_json())
        (self.out.parent / "secret").write_text(SECRET)
        plan = PhasePlan(
            phase="pair",
            checks=PACKAGE_ROOT / "checks",
            out=self.out,
            options=(
                "-p",
                "tests.node.live_root",
                f"--gdrcheck-run={self.out.parent / 'run.json'}",
                "--gdrcheck-node=node1",
                f"--gdrcheck-events={self.out / 'events.jsonl'}",
                f"--gdrcheck-secret={self.out.parent / 'secret'}",
                f"--gdrcheck-out={self.out}",
            ),
            start_s=60,
            case_limit=CaseLimit(60, from_step=True),
            phase_s=120,
        )
        with Record(self.out / "events.jsonl", "node1", Elapsed()) as record:
            run_phase(plan, record, Stop())
            return {case.id: case for case in record.ledger.results("node1", "not run")}


def two(*names: str, **changes: object) -> RunSpec:
    """A run of two nodes; the first one initiates."""
    nodes = tuple(
        NodeSpec(name=name, address=LOOPBACK, port=port, profile="soft")
        for name, port in zip(names, free_ports(2), strict=True)
    )
    return run_spec(nodes=nodes, **{"waits": short_waits(), **changes})
