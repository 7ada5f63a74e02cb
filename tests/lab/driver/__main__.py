"""The driver in a container: ``python3 -m tests.lab.driver NODE FOLDER``.

Reads commands, a line each, and runs the real program of a pair or its responder. The endpoint
child stays between scenarios, with its device, its GPU and its registrations.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, connect
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.meeting import Meeting
from gdrcheck.pairing.pairs import RailEnd, RailPair
from gdrcheck.pairing.plan import ProgramPlan
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.pairing.serve import Responder
from gdrcheck.pairing.table import Cell, CellKey
from gdrcheck.pairing.truth import Ruling
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.verbs import protocol
from tests.lab.driver.scenario import DEVICE, GPU, Command, End, Line, Place, Scenario, Told

PORT = 18610
RAIL = 0
BUFFER_BYTES = (1 << 20) + protocol.MARGIN_BYTES


def main() -> None:
    """Do what stdin says, until it ends."""
    node, folder = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    driver = Driver(node, Path(folder))
    tell(Line())
    try:
        for line in sys.stdin:
            command = Command.model_validate_json(line)
            do = driver.measure if command.do == "measure" else driver.serve
            tell(do(command.scenario))
    finally:
        driver.close()


def tell(line: Line) -> None:
    """Write a line for the test."""
    print(line.model_dump_json(), flush=True)


class Driver:
    """One end, for as many scenarios as there are. ``close`` it."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._end: End | None = None
        self._process: RailProcess | None = None

    def measure(self, scenario: Scenario) -> Line:
        """The initiator's part: every cell, and what is said of it."""
        rail = _rail_pair(scenario)
        processes = {RAIL: self._rail(scenario)}
        waits = WalkWaits.for_rails(scenario.deadlines, 1)
        plan = ProgramPlan(
            sizes_bytes=scenario.sizes_bytes,
            iterations=scenario.iterations,
            modes=scenario.modes,
            operations=scenario.operations,
            around_mtu=False,
            directions=scenario.directions,
        )

        def done(_: RailPair, key: CellKey, __: Cell) -> None:
            tell(Line(done=_place(key)))
            if scenario.paced:
                sys.stdin.readline()

        def dial(seconds: float, stop: threading.Event) -> Channel:
            peer = scenario.there(self._node)
            identity = _identity(scenario, self._node)
            channel = connect(peer.address, PORT, identity, peer.node, "pair", seconds, stop)
            channel.start_heartbeats(waits.beat_s)
            return channel

        peer, limits = scenario.there(self._node).node, scenario.deadlines
        with closing(Meeting(0, self._node, peer, dial, processes, limits, waits)) as meeting:
            program = PairProgram(
                meeting.session, [rail], plan, limits, scenario.run_id, on_cell=done
            )
            table = program.correctness()[RAIL]
            rulings = program.rulings(RAIL)
            meeting.end()
        return Line(last=True, cells=_told(table.cells, rulings))

    def serve(self, scenario: Scenario) -> Line:
        """The responder's part; an initiator that was lost may come back."""
        here = scenario.here(self._node)
        waits = WalkWaits.for_rails(scenario.deadlines, 1)
        responder = Responder({RAIL: self._rail(scenario)}, {}, waits)
        identity = _identity(scenario, self._node)
        peer = scenario.there(self._node).node
        ended_by = "nobody called"
        with Listener(identity, here.address, PORT, [peer], None, waits.beat_s) as listener:
            tell(Line())
            patience_s = waits.meet_s
            while channel := listener.accept(peer, "pair", patience_s):
                try:
                    responder.serve(channel, time.monotonic() + waits.meet_s)
                except PeerError as error:
                    ended_by, patience_s = str(error), waits.return_s
                else:
                    return Line(last=True)
        return Line(last=True, ended_by=ended_by)

    def close(self) -> None:
        """End the endpoint child."""
        if self._process is not None:
            self._process.close()

    def _rail(self, scenario: Scenario) -> RailProcess:
        """The endpoint child of earlier scenarios, unless this one needs another."""
        end = scenario.here(self._node)
        if self._process is not None and end == self._end and not scenario.fresh:
            return self._process
        self.close()
        self._end = end
        request = protocol.Open(
            device=DEVICE,
            gid_index=end.gid_index,
            atomics=True,
            buffer_bytes=BUFFER_BYTES,
            completion_s=scenario.deadlines.completion_s,
        )
        self._process = RailProcess(
            node=self._node,
            rail_id=RAIL,
            request=request,
            gpu=end.gpu,
            queue_pairs=1,
            waits=scenario.deadlines,
            out_dir=self._folder,
            command=(sys.executable, *end.worker),
        )
        return self._process


def _identity(scenario: Scenario, node: str) -> Identity:
    text = scenario.model_dump_json().encode()
    return Identity(
        run_id=scenario.run_id,
        node=node,
        secret=hashlib.sha256(b"of a test" + text).digest(),
        image_id="",
        profile_hash=hashlib.sha256(text).hexdigest(),
    )


def _rail_pair(scenario: Scenario) -> RailPair:
    local, remote = (
        RailEnd(end.node, GPU if end.gpu else None, DEVICE, end.gpu.methods if end.gpu else ())
        for end in scenario.ends
    )
    return RailPair(RAIL, local, remote, has_gpus=all(end.gpu for end in scenario.ends))


def _place(key: CellKey) -> Place:
    return Place(mode=key.mode, operation=key.operation, direction=key.direction)


def _told(cells: Mapping[CellKey, Cell], rulings: Mapping[CellKey, Ruling]) -> tuple[Told, ...]:
    return tuple(
        Told(
            place=_place(key),
            finding=rulings[key].finding,
            blocked_by=rulings[key].blocked_by,
            error=rulings[key].error,
            raw="" if rulings[key].passed else repr(cell),
        )
        for key, cell in cells.items()
    )


if __name__ == "__main__":
    main()
