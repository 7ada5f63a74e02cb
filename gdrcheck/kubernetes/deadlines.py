"""When Kubernetes ends a pod, and when the Job: each later than what is inside ends by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gdrcheck.kubernetes.waits import job_deadline_s
from gdrcheck.run import Deadlines

# What pulling the image may take on a slow node, and finding nodes for all pods.
PULL_S = 900.0
SCHEDULING_S = 900.0


@dataclass(frozen=True, slots=True)
class JobDeadlines:
    """Seconds, strictly nested: ``program_s`` from the first pod's start to the last exit,
    ``pod_s`` from a pod's admission by its node, ``job_s`` from the creation of the Job.
    """

    program_s: int
    pod_s: int
    job_s: int


def nested(time_scale: float, arrival_s: float) -> JobDeadlines:
    """The deadlines of a Job whose pods have ``arrival_s`` to arrive."""
    program_s = job_deadline_s(Deadlines(), time_scale, arrival_s)
    # The first pod waits for the last one, which may have begun as late as that.
    pod_s = program_s + arrival_s + PULL_S
    return JobDeadlines(
        program_s=math.ceil(program_s),
        pod_s=math.ceil(pod_s),
        job_s=math.ceil(pod_s + SCHEDULING_S),
    )
