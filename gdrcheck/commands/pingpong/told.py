"""The rail's process of a listener, whose user sees what the caller is at."""

from __future__ import annotations

from gdrcheck.commands.pingpong.party import tell
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.verbs import protocol


class ToldRail(RailProcess):
    """Says on standard error which mode is being measured, each once in a session."""

    _told: frozenset[str] = frozenset()

    def arm(self, request: protocol.Arm, deadline: Deadline) -> None:
        """Get ready for one exchange. RailError."""
        variant = request.variants[0]
        self._tell(f"{variant.source.memory}-{variant.sink.memory} is measured")
        super().arm(request, deadline)

    def timed(self, request: protocol.Timed, deadline: Deadline) -> protocol.TimedResult:
        """Take part in a measurement. RailError."""
        self._tell("latency and bandwidth are measured")
        return super().timed(request, deadline)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told |= {text}
            tell(text)
