"""A node's side of the records of a wide run: one pair after the other, each in a journal first.

While a pair is measured, its records go to a file of their own, so that a hang or a death names its
case. When its last case has ended, the records of the whole pair are appended to the file of events
in one piece, and the journal is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results import events
from gdrcheck.results.cases import Ledger
from gdrcheck.results.events import MAX_PLANNED, Case, EndEvent, Event, EventWriter, PlanEvent
from gdrcheck.results.hung import Hung
from gdrcheck.results.pair_builder import PairRecords
from gdrcheck.results.pair_records import JOURNAL_FILE, PairEvent, PairPlanEvent


class PairJournal:
    """Takes the records of the pairs that ``node`` initiates. Close it.

    What an earlier process wrote of the same run is gone on with. ``hung``: what cases of later
    pairs are blocked by. OSError or ValueError where what is there cannot be read.
    """

    def __init__(
        self, node: str, events_file: Path, writer: EventWriter, hung: Sequence[Hung] = ()
    ) -> None:
        self.done: set[str] = set()
        # The pair that is being measured; None before the first, between two, and after the last.
        self.responder: str | None = None
        self.node = node
        self._writer = writer
        self._path = events_file.with_name(JOURNAL_FILE)
        self._hung = tuple(hung)
        self._journal: EventWriter | None = None
        self._ledger = Ledger()
        written = events.read(events_file).events
        self._planned = any(isinstance(event, PairPlanEvent) for event in written)
        self._records = PairRecords(written)
        for event in written:
            if isinstance(event, PairEvent):
                self.done.add(event.responder)
            elif isinstance(event, PlanEvent) and event.phase == "pair":
                # A pair that fits no template has ordinary records.
                self.done |= {self._partner(case.where) for case in event.cases if not case.of_node}

    def plan(self, responders: Sequence[str], cases: int) -> None:
        """Say which pairs are going to be measured, unless an earlier process said so."""
        if not self._planned:
            self._planned = True
            self._writer.write(
                PairPlanEvent(phase="pair", responders=tuple(responders), cases=cases)
            )

    def open(self, responder: str) -> None:
        """The pair with ``responder`` is the one that comes next."""
        self._close_journal()
        self.responder = responder
        self._ledger = Ledger()

    def begin(self, cases: Sequence[Case]) -> frozenset[str]:
        """Plan these cases, all of the open pair; returns the ids of those that are to be run."""
        earlier = _read(self._path)
        if self._is_of_open_pair(earlier):
            self._ledger.feed(earlier)
        else:
            self._path.unlink(missing_ok=True)
        self._journal = EventWriter(self._path)
        new = [case for case in cases if case.id not in self._ledger.planned]
        for first in range(0, len(new), MAX_PLANNED):
            self._append(PlanEvent(phase="pair", cases=tuple(new[first : first + MAX_PLANNED])))
        self._block([case for case in cases if case.id not in self._ledger.ended])
        left = frozenset(case.id for case in cases) - self._ledger.ended.keys()
        self._settle()
        return left

    def _block(self, cases: Sequence[Case]) -> None:
        for case in cases:
            hung = next((one for one in self._hung if one.blocks(case.where)), None)
            if hung is not None:
                self._append(
                    EndEvent(
                        phase="pair",
                        id=case.id,
                        outcome=Outcome.BLOCKED,
                        message=hung.message,
                        blocked_by=hung.id,
                    )
                )

    def write(self, record: Event) -> None:
        """Append a record of the open pair to the journal; after its last case those of the pair
        go to the file of events.
        """
        self._append(record)
        if isinstance(record, EndEvent):
            self._settle()

    def _append(self, record: Event) -> None:
        assert self._journal is not None
        self._journal.write(record)
        self._ledger.feed([record])

    def close(self) -> None:
        """Close the journal. What it holds stays there."""
        self._close_journal()
        self.responder = None

    def _settle(self) -> None:
        """When all of the pair has ended: its records, and no journal any more."""
        planned, ended = self._ledger.planned, self._ledger.ended
        if self.responder is None or not planned or planned.keys() - ended.keys():
            return
        results = [(case, ended[id_]) for id_, (_, case) in planned.items()]
        self._writer.write_all(self._records.of(self.node, self.responder, results))
        self._path.unlink(missing_ok=True)
        self.done.add(self.responder)
        self._close_journal()

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _is_of_open_pair(self, earlier: Sequence[Event]) -> bool:
        partners = {
            self._partner(case.where)
            for event in earlier
            if isinstance(event, PlanEvent)
            for case in event.cases
        }
        return partners == {self.responder}

    def _partner(self, where: Where) -> str:
        return (where.peer or "") if where.node == self.node else where.node


def _read(path: Path) -> Sequence[Event]:
    try:
        return events.read(path).events
    except FileNotFoundError:
        return ()
