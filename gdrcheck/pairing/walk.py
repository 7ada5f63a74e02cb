"""A node's way through the rounds of the pair phase: initiator in some, responder in others."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, PeerRefused, PeerTimeout, connect
from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.meeting import Meeting
from gdrcheck.pairing.messages import Purpose, Refused
from gdrcheck.pairing.own_rails import OwnRails
from gdrcheck.pairing.pairs import LocalGpu, OwnedPair, RailPair, owned_pairs, served_rounds
from gdrcheck.pairing.patience import in_slices
from gdrcheck.pairing.perftest import PerftestReport
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.rail import WORKER
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.reports import StagedPlan, StagedReport, TimedPlan, TimedReport
from gdrcheck.pairing.serve import Responder
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.tools import PerftestPlan
from gdrcheck.pairing.truth import Ruling
from gdrcheck.pairing.waits import LOOKAHEAD, MAX_RETURNS, WalkWaits
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction
from gdrcheck.verbs.cm_protocol import CmMemory

JOURNAL_FILE = "walk.json"

log = logging.getLogger("gdrcheck.pair")


class PairWalk:
    """Walks the rounds in order, as measurements are asked for. Use with ``with``; then ``finish``.

    Rounds that this node served are noted in ``out_dir``, so that a process that takes over from
    a killed one does not wait for partners who are through with it.
    """

    def __init__(
        self,
        run: RunSpec,
        node: str,
        secret: bytes,
        result: RendezvousResult,
        out_dir: Path,
        *,
        plan: Callable[[OwnedPair], ProgramPlan],
        gpus: Mapping[int, LocalGpu] | None = None,
        command: Sequence[str] = WORKER,
        root: Path = Path("/"),
    ) -> None:
        self._run = run
        self._node = node
        self._identity = Identity.of(run, node, secret)
        self._owned = owned_pairs(run, node, result)
        self._served = served_rounds(run, node, result)
        self._waits = WalkWaits.of(run.waits, result)
        self._journal = out_dir / JOURNAL_FILE
        self._over = self._read_journal()
        self._stack = ExitStack()
        self._plan = plan
        own = OwnRails.of(
            run, node, result.nodes[node].rails, gpus or {}, out_dir, command=command, root=root
        )
        self._rails, self._tools = own.processes, own.tools
        self._responder = Responder(self._rails, own.blocked, self._waits, tools=self._tools)
        self._meetings = {
            pair.round: Meeting(
                pair.round,
                node,
                pair.peer,
                partial(self._dial, pair.peer),
                self._rails,
                run.waits,
                self._waits,
            )
            for pair in self._owned
        }
        self._programs: dict[int, PairProgram] = {}
        self._listener: Listener | None = None
        self._position = 0

    def __enter__(self) -> PairWalk:
        """Listen and call the next responders. ProbeError when the port cannot be had."""
        with self._stack as stack:
            for rail in self._rails.values():
                stack.callback(rail.close)
            for tool in self._tools.values():
                stack.callback(tool.close)
            if self._owned or self._served:
                # Interpreters start side by side, on both nodes, while the channels are made.
                for rail in self._rails.values():
                    rail.prepare()
                spec = self._run.node(self._node)
                names = [node.name for node in self._run.nodes]
                self._listener = stack.enter_context(
                    Listener(
                        self._identity,
                        spec.address,
                        spec.port,
                        names,
                        self._refusal,
                        self._waits.beat_s,
                    )
                )
            for meeting in self._meetings.values():
                stack.callback(meeting.close)
            self._call_ahead()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def pairs_owned(self) -> tuple[OwnedPair, ...]:
        """The pairs that this node initiates, in round order, without struck-off peers."""
        return self._owned

    def program(self, pair: OwnedPair) -> PairProgram:
        """What is measured with the peer of ``pair``, after serving all earlier rounds.

        Must be asked for in round order: PeerError when the round is over.
        """
        self.advance(pair)
        if pair.round not in self._programs:
            self._programs[pair.round] = PairProgram(
                self._meetings[pair.round].session,
                pair.rails,
                self._plan(pair),
                self._run.waits,
                f"{self._run.run_id} {self._node} {pair.peer}",
                tools=self._tools,
            )
        return self._programs[pair.round]

    def correctness(self, pair: OwnedPair) -> Mapping[int, RailTable]:
        """See ``PairProgram.correctness``."""
        return self.program(pair).correctness()

    def rulings(self, pair: OwnedPair, rail_id: int) -> Mapping[CellKey, Ruling]:
        """See ``PairProgram.rulings``."""
        return self.program(pair).rulings(rail_id)

    def far(self, pair: OwnedPair, rail: RailPair, direction: Direction) -> Cell:
        """See ``PairProgram.far``."""
        return self.program(pair).far(rail, direction)

    def timed(
        self, pair: OwnedPair, rail: RailPair, plan: TimedPlan, direction: Direction
    ) -> TimedReport:
        """See ``PairProgram.timed``."""
        return self.program(pair).timed(rail, plan, direction)

    def timed_on_all(self, pair: OwnedPair, plan: TimedPlan) -> Mapping[int, TimedReport]:
        """See ``PairProgram.timed_on_all``."""
        return self.program(pair).timed_on_all(plan)

    def staged(
        self, pair: OwnedPair, rail: RailPair, plan: StagedPlan, direction: Direction
    ) -> StagedReport:
        """See ``PairProgram.staged``."""
        return self.program(pair).staged(rail, plan, direction)

    def perftest(
        self, pair: OwnedPair, rail: RailPair, plan: PerftestPlan, direction: Direction
    ) -> PerftestReport:
        """See ``PairProgram.perftest``."""
        return self.program(pair).perftest(rail, plan, direction)

    def rdma_cm(
        self, pair: OwnedPair, rail: RailPair, memory: CmMemory, direction: Direction
    ) -> CmExchange:
        """See ``PairProgram.rdma_cm``."""
        return self.program(pair).rdma_cm(rail, memory, direction)

    def advance(self, pair: OwnedPair) -> None:
        """Serve and end all rounds before that of ``pair``. PeerError when that one is over."""
        if pair.round < self._position:
            raise PeerError(
                f"round {pair.round} with {pair.peer} is over: this node is in round "
                f"{self._position}",
                side=self._node,
                step="advance",
            )
        self._advance_to(pair.round)

    def finish(self) -> None:
        """Serve the rounds that are left and take leave of everybody."""
        self._advance_to(max((*self._served, *self._meetings, -1)) + 1)

    def _advance_to(self, number: int) -> None:
        while self._position < number:
            if self._position in self._meetings:
                self._meetings[self._position].end()
            elif self._position in self._served:
                self._serve(self._position, self._served[self._position])
            # Nobody may ask for it any more, and there can be a thousand.
            self._programs.pop(self._position, None)
            self._position += 1
            self._call_ahead()

    def _call_ahead(self) -> None:
        for number in range(self._position, self._position + LOOKAHEAD + 1):
            if number in self._meetings:
                self._meetings[number].begin()

    def _dial(self, peer: str, seconds: float, stop: threading.Event) -> Channel:
        spec = self._run.node(peer)
        channel = connect(spec.address, spec.port, self._identity, peer, "pair", seconds, stop)
        channel.start_heartbeats(self._waits.beat_s)
        return channel

    def _serve(self, number: int, peer: str) -> None:
        """Serve ``peer``; one that is lost may come back a few times."""
        if peer in self._over:
            return
        until, begun_by = self._waits.heard_by(number), self._waits.begun_by(number)
        for _ in range(MAX_RETURNS + 1):
            try:
                channel = self._awaited(peer, until)
                self._responder.serve(channel, begun_by)
                break
            except (PeerRefused, PeerTimeout) as error:
                log.warning("round %d is given up: %s", number, error)
                break
            except PeerError as error:
                log.warning("round %d: %s", number, error)
                until = time.monotonic() + self._waits.return_s
                begun_by = self._waits.again_by(number)
        self._over.add(peer)
        partial_file = self._journal.with_suffix(".partial")
        journal = {"run_id": self._run.run_id, "over": sorted(self._over)}
        partial_file.write_text(json.dumps(journal))
        os.replace(partial_file, self._journal)

    def _awaited(self, peer: str, until: float) -> Channel:
        assert self._listener is not None
        return in_slices(
            until,
            self._waits.slice_s,
            f"wait for a call of {peer}",
            partial(self._listener.accept, peer, "pair"),
        )

    def _refusal(self, peer: str, purpose: Purpose) -> Refused | None:
        if purpose == "rendezvous":
            reason = "the rendezvous of this run is over; this node is struck off the list"
            return Refused(reason=reason, retry=False)
        if peer in self._over:
            return Refused(reason=f"its round with {self._node} is over", retry=False)
        if peer not in self._served.values():
            return Refused(reason=f"no round in which it meets {self._node}", retry=False)
        return None

    def _read_journal(self) -> set[str]:
        """Who is through, as an earlier process of this run noted it."""
        try:
            journal = json.loads(self._journal.read_text())
        except FileNotFoundError:
            return set()
        return set(journal["over"]) if journal["run_id"] == self._run.run_id else set()
