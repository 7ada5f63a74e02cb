"""The other pods' side: one connection to index 0 for the whole run, made again when it breaks."""

from __future__ import annotations

import base64
import logging
import secrets
import threading
import time
from collections.abc import Callable
from types import TracebackType

from pydantic import ValidationError

from gdrcheck.kubernetes.document import MAX_DOCUMENT_CHARS, JobDocument, identity_of
from gdrcheck.kubernetes.settings import Settings, pod_name
from gdrcheck.node.clock import Stop
from gdrcheck.outcome import GdrcheckError, PeerError
from gdrcheck.pairing.channel import Channel, ChannelLost, PeerRefused, PeerTimeout, connect
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.job_messages import (
    RESULT_BYTES,
    Arrived,
    DocumentPart,
    JobVerdict,
    ResultPart,
    VerdictTaken,
)
from gdrcheck.pairing.messages import Refused

TICK_S = 0.5
# One round of attempts to reach index 0, after which it is seen what came of them.
SLICE_S = 5.0
FLUSH_S = 10.0

log = logging.getLogger("gdrcheck.job")


class NeverArrived(PeerError):
    """Index 0 could not be reached at all: no run began."""


class Follower:
    """Reports to index 0 while the ``with`` block lasts, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waits = settings.waits
        self._leader = pod_name(settings.job, 0)
        self._identity = identity_of(settings)
        self._token = secrets.token_hex(16)
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._document: JobDocument | None = None
        self._archive: bytes | None = None
        self._delivered = False
        self._verdict: JobVerdict | None = None
        self._error: PeerError | None = None
        self._thread = threading.Thread(target=self._main, name="job", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def document(self, stop: Stop) -> JobDocument:
        """Wait for the run document.

        NeverArrived when index 0 is not there, PeerRefused when it does not want this pod, else
        PeerError when it is there and sends none.
        """
        # Index 0 may have been started as late as is allowed, and then waits as long again.
        deadline = Deadline.after(2 * self._settings.arrival_s + self._waits.lost_s)
        self._await(lambda: self._document is not None, deadline, stop, "await the run document")
        assert self._document is not None
        return self._document

    def deliver(self, archive: bytes) -> None:
        """Send ``archive`` to index 0, from now on as often as the connection breaks.

        Waits ``FLUSH_S`` at most for the first time, so that also a pod that must end sends it.
        """
        deadline = Deadline.after(FLUSH_S)
        with self._changed:
            self._archive = archive
            while not (self._delivered or self._error or deadline.expired):
                self._changed.wait(min(TICK_S, deadline.remaining_s))

    def verdict(self, deadline: Deadline, stop: Stop) -> JobVerdict:
        """Wait for the verdict. PeerError when none can come: index 0 is gone, or too slow."""
        self._await(lambda: self._verdict is not None, deadline, stop, "await the verdict")
        assert self._verdict is not None
        return self._verdict

    def _await(
        self, is_there: Callable[[], bool], deadline: Deadline, stop: Stop, step: str
    ) -> None:
        with self._changed:
            while not is_there():
                if self._error is not None:
                    raise self._error
                if stop.reason:
                    raise PeerError(stop.reason, side=self._settings.me, step=step)
                if deadline.expired:
                    raise PeerTimeout(
                        f"{self._leader}: {step}: nothing within {deadline.seconds:g} s",
                        side=self._leader,
                        step=step,
                    )
                self._changed.wait(min(TICK_S, deadline.remaining_s))

    def _main(self) -> None:
        error: PeerError
        try:
            while not self._stop.is_set() and self._verdict is None:
                with self._connect() as channel:
                    try:
                        self._talk(channel)
                    except ChannelLost as lost:
                        log.info("%s", lost)
                self._stop.wait(TICK_S)
            return
        except PeerError as met:
            error = met
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _connect(self) -> Channel:
        """A channel to index 0, tried until it has been waited for long enough."""
        settings, waits = self._settings, self._waits
        is_new = self._document is None
        deadline = Deadline.after(settings.arrival_s if is_new else waits.lost_s)
        unproven_since: float | None = None
        while True:
            try:
                return connect(
                    settings.leader_host,
                    settings.job_port,
                    self._identity,
                    self._leader,
                    "job",
                    min(SLICE_S, waits.silence_s, max(deadline.remaining_s, TICK_S)),
                    self._stop,
                )
            except PeerRefused:
                raise
            except PeerError as error:
                met = error.__cause__
            if not isinstance(met, GdrcheckError):
                unproven_since = None
            elif unproven_since is None:
                unproven_since = time.monotonic()
            elif time.monotonic() - unproven_since > waits.silence_s:
                raise self._unproven(met)
            if deadline.expired or self._stop.is_set():
                raise self._gone(is_new, deadline.seconds, met)

    def _unproven(self, met: BaseException) -> PeerRefused:
        return PeerRefused(
            f"{self._place} answers but does not prove the run's secret: this pod has another "
            f"secret, or something else listens there; last: {met}",
            side=self._leader,
            step="handshake",
        )

    def _gone(self, is_new: bool, seconds: float, met: BaseException | None) -> PeerError:
        kind = NeverArrived if is_new else PeerError
        word = "never arrived" if is_new else "was lost"
        return kind(
            f"{self._place} {word}: no answer within {seconds:g} s; last: {met}",
            side=self._leader,
            step="connect",
        )

    @property
    def _place(self) -> str:
        return f"{self._leader} ({self._settings.leader_host} port {self._settings.job_port})"

    def _talk(self, channel: Channel) -> None:
        """Report, and take part until the verdict is there. ChannelLost when the connection is."""
        channel.start_heartbeats(self._waits.beat_s)
        run_id = self._document.run.run_id if self._document is not None else None
        channel.send(
            Arrived(
                index=self._settings.index,
                token=self._token,
                node=self._settings.node,
                address=self._settings.address,
                held_run=run_id,
            )
        )
        text: list[str] = []
        delivered = False
        while not self._stop.is_set():
            with self._changed:
                archive = self._archive
            if archive is not None and not delivered:
                self._send_results(channel, archive)
                delivered = True
                with self._changed:
                    self._delivered = True
                    self._changed.notify_all()
            try:
                body = channel.receive(TICK_S, DocumentPart, JobVerdict, Refused)
            except PeerTimeout:
                if time.monotonic() - channel.heard_at > self._waits.silence_s:
                    raise ChannelLost(
                        f"{self._leader}: silent for {self._waits.silence_s:g} s",
                        side=self._leader,
                        step="job",
                    ) from None
                continue
            if isinstance(body, Refused):
                raise PeerRefused(
                    f"{self._leader} refused: {body.reason}", side=self._leader, step="job"
                )
            if isinstance(body, JobVerdict):
                with self._changed:
                    self._verdict = body
                    self._changed.notify_all()
                channel.send(VerdictTaken())
                return
            self._take_part(text, body)

    def _take_part(self, text: list[str], part: DocumentPart) -> None:
        text.append(part.text)
        if len(text) * len(text[0]) > MAX_DOCUMENT_CHARS:
            raise PeerError("the run document is too large", side=self._leader, step="document")
        if not part.last:
            return
        try:
            document = JobDocument.model_validate_json("".join(text))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise PeerError(
                f"{self._leader}: its run document is wrong: {first['msg']}",
                side=self._leader,
                step="document",
            ) from error
        text.clear()
        if self._settings.node not in document.present:
            raise PeerRefused(
                f"{self._leader}: its run has no node {self._settings.node}",
                side=self._leader,
                step="document",
            )
        with self._changed:
            self._document = document
            self._changed.notify_all()

    @staticmethod
    def _send_results(channel: Channel, archive: bytes) -> None:
        pieces = [archive[at : at + RESULT_BYTES] for at in range(0, len(archive), RESULT_BYTES)]
        for number, piece in enumerate(pieces or [b""], 1):
            data = base64.b64encode(piece).decode()
            channel.send(ResultPart(data=data, last=number >= len(pieces)))
