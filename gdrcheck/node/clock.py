"""Limits of time: how long a case, a phase and the whole container may take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event

from gdrcheck.run import Deadlines

# What the start of the interpreter, the last files and the exit may take at the ends of a run.
MARGIN_S = 60.0


@dataclass(frozen=True, slots=True)
class CaseLimit:
    """How long one case may take. ``from_step`` restarts its clock at each step of the case."""

    seconds: float
    from_step: bool = False


def start_limit_s(waits: Deadlines) -> float:
    """How long a pytest process may take from its start to its plan: imports from a cold disk."""
    return waits.check_s + MARGIN_S


def node_case_limit(waits: Deadlines) -> CaseLimit:
    """A case of the node phase has ``check_s`` from its start, whatever its steps."""
    return CaseLimit(waits.check_s)


def pair_case_limit(waits: Deadlines, rails: int) -> CaseLimit:
    """A case of the pair phase: counted from its last step.

    Before its own exchange a case may serve earlier rounds, in which the partner is allowed
    ``connect_s`` and ``rail_s`` for each rail, without a step that this node announces.
    """
    return CaseLimit(waits.connect_s + waits.rail_s * (max(1, rails) + 1), from_step=True)


def rendezvous_wait_s(waits: Deadlines) -> float:
    """How long a node that is ready waits for the list: the others may use up their phase."""
    return waits.phase_s + waits.rendezvous_s + waits.check_s


def overall_s(waits: Deadlines) -> float:
    """After this long a container ends itself, whatever it is doing."""
    return 2 * waits.phase_s + waits.rendezvous_s + 2 * waits.check_s + MARGIN_S


class Stop:
    """A request to end the run early, with its reason. The first one counts."""

    def __init__(self) -> None:
        self._event = Event()
        self._reason = ""

    def request(self, reason: str) -> None:
        """Ask everybody who looks to stop."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    @property
    def reason(self) -> str:
        """Why to stop; empty while nobody asked."""
        return self._reason if self._event.is_set() else ""


class Elapsed:
    """Seconds since this was made, on the monotonic clock."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._start
