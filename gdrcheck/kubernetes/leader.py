"""Index 0's desk: the other pods arrive here, bring their results, and hear the verdict.

A pod keeps one connection for the whole run, so that its death is known at once. It may come back
on a new one; a process that took its place may not, since what was measured before is lost.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType

from gdrcheck.kubernetes.admission import admit
from gdrcheck.kubernetes.document import (
    JobDocument,
    identity_of,
    make_document,
    parts_of,
)
from gdrcheck.kubernetes.settings import Settings, pod_name
from gdrcheck.node.clock import Stop
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, PeerTimeout
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.job_messages import (
    MAX_ARCHIVE_BYTES,
    Arrived,
    JobVerdict,
    ResultPart,
    VerdictTaken,
)
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Refused
from gdrcheck.pairing.reception import Reception

TICK_S = 0.5
# A receive that only waits is repeated: what ends it is silence, or a loss.
WAIT_S = 3600.0
# A pod whose results are too large sends none, and has them in its log.
TOO_LARGE = f"its results are larger than {MAX_ARCHIVE_BYTES >> 20} MiB"

log = logging.getLogger("gdrcheck.job")


class _Pod:
    """One pod that arrived. ``channel`` is None while it has none."""

    def __init__(self, arrived: Arrived) -> None:
        self.arrived = arrived
        self.channel: Channel | None = None
        self.heard = time.monotonic()
        self.archive: bytes | None = None
        self.spoiled = ""
        self.has_verdict = False


class Leader:
    """The desk, open while the ``with`` block lasts. One thread for each pod that is connected."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waits = settings.waits
        self._own = Arrived(
            index=settings.index, token="0" * 32, node=settings.node, address=settings.address
        )
        pods = [pod_name(settings.job, index) for index in range(1, settings.pods)]
        self._listener = Listener(
            identity_of(settings),
            settings.address,
            settings.job_port,
            pods,
            beat_s=settings.waits.beat_s,
        )
        self._changed = threading.Condition()
        self._pods: dict[str, _Pod] = {}
        self._document: JobDocument | None = None
        self._verdicts: Mapping[str, JobVerdict] | None = None
        self._replaced = ""
        self._reception = Reception(self._listener, "job", self._attend)

    def __enter__(self) -> Leader:
        self._reception.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reception.__exit__(kind, error, traceback)

    @property
    def knocked(self) -> str:
        """Who came and proved nothing, if anyone did."""
        count = sum(self._listener.dropped.values())
        if not count:
            return ""
        return f"{count} connections proved nothing, the last {self._listener.last_dropped}"

    def begin(
        self, within_s: float, stop: Stop, now: datetime
    ) -> tuple[tuple[Arrived, ...], JobDocument]:
        """Wait for all pods, ``within_s`` at most, then make a run of those that are there and tell
        them; from then on nobody else may join. The pods, this one first, and the run.

        PeerError when this pod took the place of an index 0 that had begun a run, or must end.
        """
        deadline = Deadline.after(within_s)
        with self._changed:
            while self._there() < self._settings.pods and not deadline.expired:
                if why := self._replaced or stop.reason:
                    raise PeerError(why, side=self._settings.me, step="begin")
                self._changed.wait(min(TICK_S, deadline.remaining_s))
            # Who left again has not arrived: nobody could reach it.
            self._pods = {name: pod for name, pod in self._pods.items() if pod.channel is not None}
            arrived = (self._own, *(pod.arrived for pod in self._pods.values()))
            document = self._document = make_document(self._settings, arrived, now)
            channels = [pod.channel for pod in self._pods.values() if pod.channel is not None]
        for channel in channels:
            self._send_document(channel, document)
        return arrived, document

    def _there(self) -> int:
        """How many pods there are, this one included."""
        return 1 + sum(pod.channel is not None for pod in self._pods.values())

    def gather(
        self, deadline: Deadline, stop: Stop
    ) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        """Wait for the results of all pods that arrived. By node: the archives that came, and why
        the others did not."""
        with self._changed:
            while not (deadline.expired or stop.reason) and any(
                pod.archive is None and not self._lost(pod) for pod in self._pods.values()
            ):
                self._changed.wait(TICK_S)
            archives, lost = {}, {}
            for pod in self._pods.values():
                if pod.archive:
                    archives[pod.arrived.node] = pod.archive
                elif pod.archive is not None:
                    lost[pod.arrived.node] = TOO_LARGE
                else:
                    lost[pod.arrived.node] = (
                        self._lost(pod)
                        or stop.reason
                        or (f"sent no results within {deadline.seconds:g} s")
                    )
            return archives, lost

    def tell(self, verdicts: Mapping[str, JobVerdict], within_s: float) -> None:
        """Tell each node's pod its verdict, and wait until they have confirmed it."""
        deadline = Deadline.after(within_s)
        with self._changed:
            self._verdicts = verdicts
            there = [pod for pod in self._pods.values() if pod.channel is not None]
        for pod in there:
            self._send_verdict(pod)
        with self._changed:
            while not deadline.expired and any(
                not pod.has_verdict and not self._lost(pod) for pod in self._pods.values()
            ):
                self._changed.wait(min(TICK_S, deadline.remaining_s))

    def _lost(self, pod: _Pod) -> str:
        """Why nothing more is expected of ``pod``; empty while there is hope."""
        if pod.spoiled:
            return pod.spoiled
        silent_s = time.monotonic() - pod.heard
        if pod.channel is None and silent_s > self._waits.lost_s:
            return f"pod {self._name(pod)} was lost: nothing was heard of it for {silent_s:.0f} s"
        return ""

    def _name(self, pod: _Pod) -> str:
        return pod_name(self._settings.job, pod.arrived.index)

    def _attend(self, channel: Channel) -> None:
        """Serve one pod until its connection ends."""
        pod = None
        try:
            pod = self._admit(channel, channel.receive(self._waits.silence_s, Arrived))
            if pod is not None:
                self._take(channel, pod)
        except PeerError as error:
            log.info("%s", error)
        except binascii.Error as error:
            log.warning("%s: results that are no base64: %s", channel.peer, error)
        with self._changed:
            if pod is not None and pod.channel is channel:
                pod.channel = None
                pod.heard = channel.heard_at
            self._changed.notify_all()

    def _admit(self, channel: Channel, arrived: Arrived) -> _Pod | None:
        """The record of the pod that came; None when it is not wanted, which it is then told."""
        with self._changed:
            document, verdicts = self._document, self._verdicts
            there = {name: pod.arrived for name, pod in self._pods.items()}
            there[self._settings.me] = self._own
            answer = admit(
                self._settings,
                channel.peer,
                arrived,
                there,
                document.run.run_id if document else None,
            )
            self._replaced = self._replaced or answer.orphaned
            pod = None if answer.refusal else self._record(channel, arrived)
            self._changed.notify_all()
        if pod is None:
            channel.send(Refused(reason=answer.refusal[:500], retry=False))
            return None
        if document is not None and arrived.held_run is None:
            self._send_document(channel, document)
        if verdicts is not None:
            self._send_verdict(pod)
        return pod

    def _record(self, channel: Channel, arrived: Arrived) -> _Pod:
        pod = self._pods.get(channel.peer)
        if pod is None or pod.arrived.token != arrived.token:
            old, pod = pod, _Pod(arrived)
            self._pods[channel.peer] = pod
        else:
            old = pod
        if old is not None and old.channel is not None:
            old.channel.cut()
        pod.channel = channel
        return pod

    def _take(self, channel: Channel, pod: _Pod) -> None:
        """Take in what the pod sends until it needs index 0 no more."""
        archive = bytearray()
        while True:
            try:
                body = channel.receive(
                    WAIT_S, ResultPart, VerdictTaken, silence_s=self._waits.silence_s
                )
            except PeerTimeout:
                continue
            if isinstance(body, VerdictTaken):
                with self._changed:
                    pod.has_verdict = True
                    self._changed.notify_all()
                return
            archive += base64.b64decode(body.data, validate=True)
            if len(archive) > MAX_ARCHIVE_BYTES:
                with self._changed:
                    pod.spoiled = TOO_LARGE
                    self._changed.notify_all()
                return
            if body.last:
                self._keep(pod, bytes(archive))
                archive.clear()

    def _keep(self, pod: _Pod, archive: bytes) -> None:
        """The first whole archive counts: a repeated one is of a connection that broke."""
        digest = hashlib.sha256(archive).hexdigest()
        log.info("results of %s: %d bytes, sha256 %s", pod.arrived.node, len(archive), digest)
        with self._changed:
            if pod.archive is None:
                pod.archive = archive
            self._changed.notify_all()

    def _send_document(self, channel: Channel, document: JobDocument) -> None:
        try:
            for part in parts_of(document):
                channel.send(part)
        except PeerError as error:
            log.info("%s", error)

    def _send_verdict(self, pod: _Pod) -> None:
        channel, verdicts = pod.channel, self._verdicts
        if channel is None or verdicts is None or pod.arrived.node not in verdicts:
            return
        try:
            channel.send(verdicts[pod.arrived.node])
        except PeerError as error:
            log.info("%s", error)
