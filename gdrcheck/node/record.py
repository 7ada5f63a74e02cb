"""The supervisor's side of ``events.jsonl``: what it writes itself, and what it makes of it all.

In a wide run the same of the journal, in which the records of one pair stand while it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from gdrcheck.findings.model import Finding, Where
from gdrcheck.node.clock import Elapsed
from gdrcheck.node.tail import EventTail, JournalTail
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import Ledger, class_name
from gdrcheck.results.events import Case, EndEvent, Event, EventWriter, PlanEvent, clip
from gdrcheck.results.pair_records import PairEvent, PairPlanEvent
from gdrcheck.results.plain import one_line
from gdrcheck.results.record import Phase

# Of the cases of a wide run only others than these are told one by one.
UNTOLD = (Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_JUDGED)


class Record:
    """The events of ``node`` in ``path``, read back as they come. Close it, or use ``with``.

    Its own records are read back too, so ``ledger`` always says what the file says. Each case
    that ends is told on stdout, which is what ``podman logs`` shows. ``journal``: where the records
    of pairs are while they are measured, in a wide run; of pairs that are done each one is told.
    """

    def __init__(
        self, path: Path, node: str, elapsed: Elapsed, journal: Path | None = None
    ) -> None:
        self.node = node
        self.ledger = Ledger()
        self.pairs_planned: tuple[str, ...] = ()
        self.pairs_done: set[str] = set()
        self._pair = Ledger()
        self._ended_in_journals = 0
        self._elapsed = elapsed
        self._writer = EventWriter(path)
        self._tail = EventTail(path)
        self._journal_path = journal
        self._journal = None if journal is None else JournalTail(journal)

    @property
    def is_wide(self) -> bool:
        """Whether pairs are told of by one record each."""
        return self._journal is not None

    @property
    def progress(self) -> int:
        """A number that grows when a case or a pair has ended."""
        return len(self.ledger.ended) + self._ended_in_journals + len(self.pairs_done)

    @property
    def pairs_left(self) -> list[str]:
        """The partners in the pairs of a wide run that are not done."""
        return [name for name in self.pairs_planned if name not in self.pairs_done]

    def ledger_of(self, id_: str) -> Ledger:
        """The ledger that knows of the case ``id_``: of the pair that is measured, or of all."""
        return self._pair if id_ in self._pair.planned else self.ledger

    def remaining(self, phase: Phase) -> list[str]:
        """The ids planned in ``phase`` that have no result yet, in plan order."""
        return [*self._pair.remaining(phase), *self.ledger.remaining(phase)]

    def running(self, phase: Phase) -> list[str]:
        """The ids of ``phase`` that started and have no result yet."""
        return [*self._pair.running(phase), *self.ledger.running(phase)]

    def write(self, event: Event) -> None:
        """Append ``event`` and take it in."""
        self._writer.write(event)
        self.follow()

    def end(
        self,
        phase: Phase,
        id_: str,
        outcome: Outcome,
        message: str,
        *,
        blocked_by: str | None = None,
        findings: tuple[Finding, ...] = (),
        started: datetime | None = None,
    ) -> None:
        """Write the result of a case that cannot write its own; ``started`` if it ever did."""
        took_s = (datetime.now(UTC) - started).total_seconds() if started else 0.0
        event = EndEvent(
            phase=phase,
            id=id_,
            outcome=outcome,
            duration_s=max(0.0, took_s),
            message=clip(message),
            blocked_by=blocked_by,
            findings=findings,
        )
        if self._journal_path is not None and id_ in self._pair.planned:
            with EventWriter(self._journal_path) as journal:
                journal.write(event)
            self.follow()
        else:
            self.write(event)

    def error(self, id_: str, message: str, findings: tuple[Finding, ...] = ()) -> None:
        """Write an error that belongs to no check, as a case of its own."""
        case = Case(id=id_, classname=class_name(self.node, "run"), where=Where(node=self.node))
        self.write(PlanEvent(phase="run", cases=(case,)))
        self.end("run", id_, Outcome.ERROR, message, findings=findings)

    def follow(self) -> list[Event]:
        """Take in what was written since; returns the new events."""
        found: list[Event] = []
        # The journal first: the record of a pair in the other file is newer than all of it there.
        for is_new, events in self._journal.read() if self._journal is not None else ():
            if is_new:
                self._pair = Ledger()
            self._pair.feed(events)
            self._ended_in_journals += sum(isinstance(event, EndEvent) for event in events)
            self._tell(events, UNTOLD)
            found += events
        events = self._tail.read()
        self.ledger.feed(events)
        for event in events if self.is_wide else ():
            self._take_of_pairs(event)
        self._tell(events, ())
        return [*found, *events]

    def _take_of_pairs(self, event: Event) -> None:
        match event:
            case PairPlanEvent():
                self.pairs_planned = event.responders
            case PairEvent():
                self._is_done(event.responder)
            case PlanEvent(phase="pair"):
                # A pair that fits no template has ordinary records, all at once.
                for name in {name for case in event.cases for name in self._partner(case)}:
                    self._is_done(name)
            case _:
                pass

    def _is_done(self, responder: str) -> None:
        if responder in self.pairs_done:
            return
        self.pairs_done.add(responder)
        # The one that comes next may have begun already.
        if any(responder in self._partner(case) for _, case in self._pair.planned.values()):
            self._pair = Ledger()
        done, planned = len(self.pairs_done), len(self.pairs_planned)
        self.say(f"pair with {responder} is done ({done} of {planned})")

    def _partner(self, case: Case) -> set[str]:
        """The other node of a pair's case; none of one of the node's own."""
        where = case.where
        return set() if case.of_node else {where.node, where.peer or self.node} - {self.node}

    def _tell(self, events: Sequence[Event], untold: Sequence[Outcome]) -> None:
        for event in events:
            if isinstance(event, EndEvent) and event.outcome not in untold:
                self.say(f"{event.outcome:<10} {event.id} ({event.duration_s:.1f} s)")

    def say(self, text: str) -> None:
        """One line of progress, with the time since the start."""
        print(f"[{self._elapsed.seconds:7.1f} s] {one_line(text)}", flush=True)

    def drop_partial(self) -> int:
        """Cut off records that their writer died in; returns their bytes. See EventTail."""
        cut = self._journal.drop_partial() if self._journal is not None else 0
        return cut + self._tail.drop_partial()

    def close(self) -> None:
        """Close the files."""
        if self._journal is not None:
            self._journal.close()
        self._writer.close()

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
