"""Whether index 0 lets a pod take part. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdrcheck.kubernetes.settings import Settings, pod_name
from gdrcheck.pairing.job_messages import Arrived
from gdrcheck.run import RESERVED_NAMES


@dataclass(frozen=True, slots=True)
class Admission:
    """``refusal`` says why a pod is not wanted, empty when it is.

    ``orphaned`` says that the pod is in a run which another index 0 began, so that this one, which
    took its place, has no run to begin.
    """

    refusal: str = ""
    orphaned: str = ""


def admit(
    settings: Settings,
    name: str,
    arrived: Arrived,
    there: Mapping[str, Arrived],
    run_id: str | None,
) -> Admission:
    """What becomes of the pod ``name``. ``there`` are those that arrived before, index 0 included,
    by name; ``run_id`` is the run that has begun, None before.
    """
    if name != pod_name(settings.job, arrived.index):
        return Admission(f"{name} says that its index is {arrived.index}")
    if arrived.held_run is not None and arrived.held_run != run_id:
        return Admission(
            f"{settings.me} is not the one that began run {arrived.held_run}",
            f"{name} is in the middle of run {arrived.held_run}, which another {settings.me} "
            "began: that run is lost",
        )
    known = there.get(name)
    if run_id is not None and known is None:
        return Admission(f"run {run_id} began without {name}, which came too late")
    if run_id is not None and known is not None and known.token != arrived.token:
        return Admission(
            f"{name} was replaced while run {run_id} was under way; what it measured is lost"
        )
    if arrived.node in RESERVED_NAMES:
        return Admission(f"{name} is on a node called {arrived.node}, which is reserved")
    for other, pod in there.items():
        if other != name and pod.node == arrived.node:
            return Admission(
                f"{name} and {other} are on one node, {arrived.node}; the Job must keep them apart"
            )
    return Admission()
