"""Limits of time of a Job, around those of a node's container."""

from __future__ import annotations

from dataclasses import dataclass

from gdrcheck.node.clock import overall_s
from gdrcheck.run import Deadlines

# What a node's process may take beyond its own deadline, until it is ended by force.
OVERTIME_S = 90.0


@dataclass(frozen=True, slots=True)
class JobWaits:
    """The waits of the pods for each other, in seconds, before ``scaled``.

    ``beat_s``: how often both ends of a pod's connection with index 0 say that they live, and
    ``silence_s`` after how long a silent one is cut. ``lost_s``: how long an end whose connection
    broke is waited for, which may be a network that stutters. ``delivery_s``: for the results,
    once the last node has ended. ``merge_s``: for judging, page included. ``farewell_s``: for the
    last answers and the log.
    """

    beat_s: float = 5
    silence_s: float = 30
    lost_s: float = 60
    delivery_s: float = 300
    merge_s: float = 900
    farewell_s: float = 60

    @classmethod
    def scaled(cls, factor: float) -> JobWaits:
        """The waits for work multiplied by ``factor``, as the deadlines of the run are.

        Those for a sign of life never grow: slow nodes send them as often.
        """
        base, of_life = cls(), min(factor, 1)
        return cls(
            beat_s=base.beat_s * of_life,
            silence_s=base.silence_s * of_life,
            lost_s=base.lost_s * of_life,
            delivery_s=base.delivery_s * factor,
            merge_s=base.merge_s * factor,
            farewell_s=base.farewell_s * factor,
        )

    def gathering_s(self, deadlines: Deadlines) -> float:
        """How long after the run document index 0 has what it will ever get."""
        return measuring_s(deadlines) + self.delivery_s

    def verdict_s(self, deadlines: Deadlines) -> float:
        """How long after the run document every pod has heard the verdict, if it ever does."""
        return self.gathering_s(deadlines) + self.merge_s


def measuring_s(deadlines: Deadlines) -> float:
    """How long after the run document every node's process has ended. ``deadlines`` as scaled."""
    return overall_s(deadlines) + OVERTIME_S


def job_deadline_s(deadlines: Deadlines, time_scale: float, arrival_s: float) -> float:
    """How long the pods of a Job take at most, from the first start to the last exit.

    ``activeDeadlineSeconds`` must be more, with room for pulling the image. ``deadlines`` are not
    scaled yet; ``arrival_s``, which never is, is how long index 0 waits for the other pods.
    """
    waits = JobWaits.scaled(time_scale)
    return arrival_s + waits.verdict_s(deadlines.scaled(time_scale)) + waits.farewell_s
