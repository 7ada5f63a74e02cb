"""This end: its NIC opened, its GPU's memory registered, all of it once and for a trial.

So whoever starts an end hears at once what is wrong with it, and a caller need not wait for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from gdrcheck.commands.pingpong.choice import Choice
from gdrcheck.commands.pingpong.trial import Trial, Workers
from gdrcheck.node.rails import ready_rails
from gdrcheck.pairing.hand_messages import MAX_FINDINGS, End, Settings
from gdrcheck.pairing.messages import clipped
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.pairing.rail import open_request
from gdrcheck.registration import Method
from gdrcheck.run import Deadlines
from gdrcheck.verbs import protocol


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the trial showed. ``end`` is for the other end; the rest for this one's process."""

    end: End
    request: protocol.Open
    gpu: LocalGpu | None


def prepare(
    choice: Choice, node: str, gid_index: int | None, waits: Deadlines, workers: Workers
) -> Prepared:
    """Try what ``choice`` says. What does not work is in the end's rail and findings.

    ``--method any`` takes dma-buf where that works, else peermem; its words say which one it was.
    """
    request = open_request(choice.profile, waits, choice.rail.nic, choice.rail.port)
    request = request.model_copy(update={"gid_index": gid_index})
    trial = Trial(choice, node, request, waits, workers)
    blocked_by = trial.nic()
    methods: tuple[Method, ...] = ()
    if blocked_by is None and choice.gpu_number is not None:
        methods = trial.methods()
    (info,) = ready_rails(choice.profile, choice.facts, ())
    gpu_blocked_by = None if methods else trial.why_no_gpu
    rail = info.model_copy(
        update={
            "blocked_by": blocked_by and clipped(blocked_by, 300),
            "gpu_blocked_by": gpu_blocked_by and clipped(gpu_blocked_by, 300),
            "methods": methods,
        }
    )
    end = End(
        node=node,
        rail=rail,
        about=clipped(trial.about(methods)),
        emulated=choice.facts.emulated,
        software=choice.rail.device is not None and choice.rail.device.software,
        gpu_unwanted=choice.gpu_unwanted,
        findings=tuple(trial.findings[:MAX_FINDINGS]),
    )
    gpu = trial.local_gpu(methods) if methods else None
    return Prepared(end, request, gpu)


def with_settings(request: protocol.Open, settings: Settings, waits: Deadlines) -> protocol.Open:
    """``request`` as the caller wants it for both ends."""
    # What a measurement of two ways needs: see verbs.timed.
    needed_bytes = 2 * settings.largest_bytes + 5 * protocol.MARGIN_BYTES
    return request.model_copy(
        update={
            "buffer_bytes": max(request.buffer_bytes, needed_bytes),
            "traffic_class": settings.traffic_class,
            "path_mtu": settings.path_mtu,
            "atomics": settings.atomics,
            "completion_s": waits.completion_s,
        }
    )


def waits_of(settings: Settings) -> Deadlines:
    """The deadlines of both ends, nested, within the time that all of it may take."""
    usual = Deadlines()
    scale = min(settings.time_scale, settings.timeout_s / (2 * usual.check_s))
    return Deadlines(
        completion_s=usual.completion_s * scale,
        connect_s=usual.connect_s * scale,
        check_s=usual.check_s * scale,
        rail_s=settings.timeout_s,
        rendezvous_s=usual.connect_s * scale,
        phase_s=2 * settings.timeout_s,
    )
