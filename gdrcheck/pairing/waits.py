"""How long the two ends of a pair wait for each other: the rule, in one place.

Every node walks the same rounds, but one that met a dead partner is late for the next. So:

- One round takes at most ``round_s``: ``connect_s`` to meet and ``rail_s`` for each rail, whether
  rails are used side by side or one after the other. A node that was held up in every round before
  round r still begins it by ``start + meet_s + r * round_s`` (induction over r; ``meet_s`` is how
  far the starts of two nodes may lie apart). Nobody gives up on a partner that is heard of before
  that.
- Being heard of: an initiator opens its channels to the responders of the next ``LOOKAHEAD``
  rounds ahead of time, and both ends say ``alive`` on them. A partner of which no channel came
  by ``start + meet_s``, later by ``round_s`` for each round beyond the lookahead, is given up.
- A partner that was heard of and then lost is given ``connect_s`` to come back, since a
  supervisor may start a process again that had to be killed.

So a dead partner costs one ``connect_s`` (or ``meet_s`` at the start), and a slow one is waited
for. The phase's deadline bounds everything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.run import Deadlines

LOOKAHEAD = 8
# How often a lost channel of one pair is made again, in all.
MAX_RETURNS = 3


@dataclass(frozen=True, slots=True)
class WalkWaits:
    """The waits of one walk. ``start`` is when it began, on the monotonic clock.

    ``slice_s``: a step is announced so often while waiting.
    """

    start: float
    meet_s: float
    return_s: float
    round_s: float
    silence_s: float
    beat_s: float
    slice_s: float

    @classmethod
    def of(cls, waits: Deadlines, result: RendezvousResult) -> WalkWaits:
        """The waits that follow from the deadlines and the largest number of rails of a node."""
        return cls.for_rails(
            waits, max((len(node.rails) for node in result.nodes.values()), default=0)
        )

    @classmethod
    def for_rails(cls, waits: Deadlines, rails: int) -> WalkWaits:
        """The waits that follow from the deadlines and a number of rails."""
        return cls(
            start=time.monotonic(),
            meet_s=2 * waits.connect_s,
            return_s=waits.connect_s,
            round_s=waits.connect_s + waits.rail_s * max(1, rails),
            silence_s=1.5 * waits.completion_s,
            beat_s=waits.completion_s / 4,
            slice_s=waits.connect_s,
        )

    def heard_by(self, number: int) -> float:
        """When the initiator of round ``number`` must have opened its channel."""
        return self.start + self.meet_s + max(0, number - LOOKAHEAD) * self.round_s

    def begun_by(self, number: int) -> float:
        """When both ends must have begun round ``number``, at the first try."""
        return self.start + self.meet_s + number * self.round_s + self.return_s

    def again_by(self, number: int) -> float:
        """When both ends must have begun round ``number``, if its channel was just made again.

        A responder first ends what its rails still do for the channel that was lost.
        """
        return max(self.begun_by(number), time.monotonic() + 2 * self.return_s)
