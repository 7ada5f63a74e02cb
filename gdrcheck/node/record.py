"""The supervisor's side of ``events.jsonl``: what it writes itself, and what it makes of it all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from gdrcheck.findings.model import Finding, Where
from gdrcheck.node.clock import Elapsed
from gdrcheck.node.tail import EventTail
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import Ledger, class_name
from gdrcheck.results.events import Case, EndEvent, Event, EventWriter, Phase, PlanEvent, clip
from gdrcheck.results.plain import one_line


class Record:
    """The events of ``node`` in ``path``, read back as they come. Close it, or use ``with``.

    Its own records are read back too, so ``ledger`` always says what the file says. Each case
    that ends is told on stdout, which is what ``podman logs`` shows.
    """

    def __init__(self, path: Path, node: str, elapsed: Elapsed) -> None:
        self.node = node
        self.ledger = Ledger()
        self._elapsed = elapsed
        self._writer = EventWriter(path)
        self._tail = EventTail(path)

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
        self.write(
            EndEvent(
                phase=phase,
                id=id_,
                outcome=outcome,
                duration_s=max(0.0, took_s),
                message=clip(message),
                blocked_by=blocked_by,
                findings=findings,
            )
        )

    def error(self, id_: str, message: str, findings: tuple[Finding, ...] = ()) -> None:
        """Write an error that belongs to no check, as a case of its own."""
        case = Case(id=id_, classname=class_name(self.node, "run"), where=Where(node=self.node))
        self.write(PlanEvent(phase="run", cases=(case,)))
        self.end("run", id_, Outcome.ERROR, message, findings=findings)

    def follow(self) -> list[Event]:
        """Take in what was written since; returns the new events."""
        events = self._tail.read()
        self.ledger.feed(events)
        for event in events:
            if isinstance(event, EndEvent):
                self.say(f"{event.outcome:<10} {event.id} ({event.duration_s:.1f} s)")
        return events

    def say(self, text: str) -> None:
        """One line of progress, with the time since the start."""
        print(f"[{self._elapsed.seconds:7.1f} s] {one_line(text)}", flush=True)

    def drop_partial(self) -> int:
        """Cut off a record that its writer died in; returns its bytes. See EventTail."""
        return self._tail.drop_partial()

    def close(self) -> None:
        """Close the file."""
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
