"""Nodes of one run in this process, with fake endpoint children and real channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.pairs import LocalGpu, OwnedPair
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.walk import PairWalk
from gdrcheck.profile import Gpus, NicSelector, Profile, Rails
from gdrcheck.run import Deadlines
from tests.pairing.support import SECRET, Faults, in_thread, run_of

WAITS = Deadlines(completion_s=1.5, connect_s=2, check_s=3, rail_s=20, rendezvous_s=5, phase_s=60)
# One operation of host memory: what the walk itself does wants no more.
SMALL = ProgramPlan(
    sizes_bytes=(1, 1024),
    around_mtu=False,
    iterations=3,
    modes=("host-host",),
    operations=("SEND",),
)
SEND_OUT = CellKey("host-host", "SEND", "out")
GPU = LocalGpu(slot="0000:17:00.0", methods=("dmabuf",), emulated=True)


class Fleet:
    """Devices are named after their node: node1-rxe0. ``gpus``: every rail has one."""

    def __init__(
        self,
        directory: Path,
        count: int,
        *,
        rails: int = 1,
        gpus: bool = False,
        waits: Deadlines = WAITS,
        plan: ProgramPlan = SMALL,
    ) -> None:
        profile = Profile(
            gpus=Gpus(count=rails if gpus else 0, model="fake"),
            rails=Rails(count=rails, nics=(NicSelector(name="*"),)),
        )
        self.run = run_of(count, waits, rounds="all", profiles={"p": profile})
        self.faults = Faults(directory)
        self.directory = directory
        self.plan = plan
        self.gpus: Mapping[int, LocalGpu] = dict.fromkeys(range(rails), GPU) if gpus else {}
        self.states = {
            spec.name: NodeState(
                state="ready",
                rails=tuple(
                    RailInfo(
                        id=i,
                        nic=f"{spec.name}-rxe{i}",
                        gpu=f"gpu{i}" if gpus else None,
                        methods=("dmabuf",) if gpus else (),
                    )
                    for i in range(rails)
                ),
            )
            for spec in self.run.nodes
        }

    def write(self) -> None:
        """Leave run, list and directories where ``walk_process`` finds them."""
        (self.directory / "run.json").write_text(self.run.model_dump_json())
        self.result.write(self.directory / "rendezvous.json")
        for spec in self.run.nodes:
            (self.directory / spec.name).mkdir(exist_ok=True)

    @property
    def result(self) -> RendezvousResult:
        return RendezvousResult(leader="node1", nodes=self.states)

    def strike(self, node: str) -> None:
        self.states[node] = NodeState(state="absent", reason="for the test")

    def change_rail(self, node: str, number: int, **changes: Any) -> None:
        """Make ``node`` tell something else of its rail."""
        rails = list(self.states[node].rails)
        rails[number] = rails[number].model_copy(update=changes)
        self.states[node] = self.states[node].model_copy(update={"rails": tuple(rails)})

    def walk(self, node: str, plan: ProgramPlan | None = None) -> PairWalk:
        out = self.directory / node
        out.mkdir(exist_ok=True)
        return PairWalk(
            self.run, node, SECRET, self.result, out, plan=lambda _: plan or self.plan,
            gpus=self.gpus, command=self.faults.command, root=self.directory,
        )  # fmt: skip

    def serve(self, node: str):
        """Runs the whole walk of ``node`` beside the block; the tables of what it owns."""

        def body() -> list[RailTable]:
            with self.walk(node) as walk:
                found = tables(walk)
                walk.finish()
                return found

        return in_thread(body)

    def commands(self, device: str) -> list[str]:
        """The commands that the children of ``device`` got so far."""
        return [request["command"] for request in self.faults.requests(device)]


def tables(walk: PairWalk) -> list[RailTable]:
    return [table for pair in walk.pairs_owned() for table in walk.correctness(pair).values()]


def one_pair(walk: PairWalk) -> OwnedPair:
    (pair,) = walk.pairs_owned()
    return pair


def small(**changes: Any) -> ProgramPlan:
    return replace(SMALL, **changes)


def text_of(cell: Cell) -> str:
    """Why a cell could not be measured."""
    assert cell.failure is not None, cell
    return cell.failure.text
