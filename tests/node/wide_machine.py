"""The pair phase of a node that initiates several pairs, with records of each case or each pair."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gdrcheck.node.clock import CaseLimit, Elapsed, Stop
from gdrcheck.node.phase import PhasePlan, run_phase
from gdrcheck.node.process import PACKAGE_ROOT
from gdrcheck.node.record import Record
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.results import events
from gdrcheck.results.cases import Ledger
from gdrcheck.results.events import Event
from gdrcheck.results.pair_records import (
    JOURNAL_FILE,
    OUTCOMES,
    TROUBLES,
    PairEvent,
    TemplateEvent,
)
from gdrcheck.run import RunSpec
from gdrcheck.transfer import EndLimits
from tests.node.pair_troubles import TROUBLES_VARIABLE, WIDE_VARIABLE, Trouble
from tests.node.support import facts, profile, run_spec

NODES = ("node1", "node2", "node3", "node4")
RAILS = {"count": 2, "nics": [{"name": "mlx5_*"}], "port_rate_gbps": 400}
GPUS = {"count": 2, "model": "NVIDIA H200"}
LIMITS = EndLimits(nic_rate_gbps=400, nic_link_gbps=504.1, gpu_link_gbps=504.1, distance="PIX")
ALWAYS, NEVER = 0, 1 << 40


@dataclass(frozen=True)
class Done:
    """What the phase left."""

    out: Path

    @property
    def events(self) -> Sequence[Event]:
        """The records of its file, all of which can be read."""
        log = events.read(self.out / "events.jsonl")
        assert not log.problems
        return log.events

    @property
    def journal(self) -> Path:
        return self.out / JOURNAL_FILE

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each case that is told of, however that is done."""
        ledger = Ledger()
        ledger.feed(self.events)
        if self.journal.exists():
            ledger.feed(events.read(self.journal).events)
        assert not ledger.problems
        found = {id_: end.outcome for id_, end in ledger.ended.items()}
        templates = {}
        for event in self.events:
            if isinstance(event, TemplateEvent):
                templates[event.number] = event.cases
            elif isinstance(event, PairEvent):
                cases = templates[event.template]
                for case, kind in zip(cases, event.kinds, strict=True):
                    id_ = case.id(event.initiator, event.responder)
                    if kind in OUTCOMES:
                        assert id_ not in found
                        found[id_] = OUTCOMES[kind]
                    elif kind in TROUBLES:
                        found[id_] = event.troubles[TROUBLES.index(kind)].outcome
        return found

    @property
    def pairs(self) -> list[str]:
        """The responders of the pairs with a record."""
        return [event.responder for event in self.events if isinstance(event, PairEvent)]


def run_pairs(
    root: Path,
    wide_bytes: int,
    *troubles: Trouble,
    case_s: float = 60,
    phase_s: float = 120,
    stop: Stop | None = None,
) -> Done:
    """The pair phase of node1, which initiates a pair with each other node."""
    out = root / "out"
    out.mkdir(parents=True)
    return run_pairs_of(
        "node1", out, wide_bytes, *troubles, case_s=case_s, phase_s=phase_s, stop=stop
    )


def wide_spec() -> RunSpec:
    """Four nodes, each of which meets each other one."""
    return run_spec(*NODES, rounds="all", profiles={"soft": profile(rails=RAILS, gpus=GPUS)})


def run_pairs_of(
    node: str,
    out: Path,
    wide_bytes: int,
    *troubles: Trouble,
    case_s: float = 60,
    phase_s: float = 120,
    stop: Stop | None = None,
) -> Done:
    """The pair phase of ``node``, whose files are in ``out``."""
    _write(node, out)
    plan = PhasePlan(
        phase="pair",
        checks=PACKAGE_ROOT / "checks",
        out=out,
        options=(
            *("-p", "tests.results.without_pyverbs", "-p", "tests.node.fake_walk"),
            f"--gdrcheck-run={out / 'run.json'}",
            f"--gdrcheck-node={node}",
            f"--gdrcheck-events={out / 'events.jsonl'}",
            f"--gdrcheck-secret={out / 'secret'}",
            f"--gdrcheck-out={out}",
        ),
        start_s=60,
        case_limit=CaseLimit(case_s, from_step=True),
        phase_s=phase_s,
    )
    journal = out / JOURNAL_FILE if wide_bytes == ALWAYS else None
    with (
        _environment(wide_bytes, troubles),
        Record(out / "events.jsonl", node, Elapsed(), journal) as record,
    ):
        run_phase(plan, record, stop or Stop())
    return Done(out)


def _write(node: str, out: Path) -> None:
    rails = tuple(
        RailInfo(
            id=number,
            nic=f"mlx5_{number}",
            gpu=f"gpu{number}",
            methods=("dmabuf",),
            limits=LIMITS,
        )
        for number in range(2)
    )
    state = NodeState(state="ready", rails=rails)
    RendezvousResult(leader="node1", nodes=dict.fromkeys(NODES, state)).write(
        out / "rendezvous.json"
    )
    (out / "facts.json").write_text(facts(node).model_dump_json())
    (out / "run.json").write_text(wide_spec().model_dump_json())
    (out / "secret").write_text("ab" * 32)


@contextmanager
def _environment(wide_bytes: int, troubles: Sequence[Trouble]) -> Iterator[None]:
    told = {
        WIDE_VARIABLE: str(wide_bytes),
        TROUBLES_VARIABLE: json.dumps([asdict(one) for one in troubles]),
    }
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]
