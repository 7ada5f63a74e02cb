"""The responder: does what the initiator asks, within what its own plan allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import (
    Arm,
    Armed,
    Body,
    Bye,
    Close,
    Closed,
    Connect,
    Connected,
    Endpoint,
    EndpointMade,
    Failure,
    Go,
    Open,
    Opened,
    Result,
    Serving,
    clipped,
)
from gdrcheck.pairing.patience import in_slices
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.verbs import protocol

log = logging.getLogger("gdrcheck.pair")


class Responder:
    """Serves sessions on this node's rails, one at a time.

    ``blocked`` maps a rail that cannot be used to the reason.
    """

    def __init__(
        self, rails: Mapping[int, RailProcess], blocked: Mapping[int, str], waits: WalkWaits
    ) -> None:
        self._rails = rails
        self._blocked = blocked
        self._waits = waits
        self._handlers: dict[type[Body], Callable[[Any, Deadline], Body]] = {
            Open: self._open,
            Endpoint: self._endpoint,
            Connect: self._connect,
            Arm: self._arm,
            Go: self._go,
            Close: self._close,
        }

    def serve(self, channel: Channel, begun_by: float) -> None:
        """Serve until the initiator says ``bye``; closes the channel.

        ``begun_by`` (monotonic) is until when its first request is awaited. PeerError when the
        initiator is lost or takes longer than a round may.
        """
        with channel:
            _send_to_leaving(channel, Serving())
            request = in_slices(
                begun_by,
                self._waits.slice_s,
                f"wait for {channel.peer} to begin",
                lambda seconds: self._receive(channel, seconds),
            )
            deadline = Deadline.after(self._waits.round_s)
            while not isinstance(request, Bye):
                channel.send(self._answer(request, deadline))
                request = self._receive(channel, deadline.remaining_s)
            _send_to_leaving(channel, Bye())

    def _receive(self, channel: Channel, seconds: float) -> Body:
        return channel.receive(seconds, *self._handlers, Bye, silence_s=self._waits.silence_s)

    def _answer(self, request: Body, deadline: Deadline) -> Body:
        try:
            return self._handlers[type(request)](request, deadline)
        except EndFailure as failure:
            log.warning("%s", failure)
            return Failure(step=failure.step[:200], text=clipped(str(failure)), error=failure.error)
        except PeerError as refusal:
            log.warning("refused a request: %s", refusal)
            return Failure(step=refusal.step, text=clipped(str(refusal)))

    def _rail(self, number: int) -> RailProcess:
        """The rail that was asked for. PeerError when it is not for use."""
        if number in self._blocked:
            raise _refusal(f"rail {number} is blocked by {self._blocked[number]}")
        rail = self._rails.get(number)
        if rail is None:
            raise _refusal(f"there is no rail {number}")
        return rail

    def _open(self, request: Open, deadline: Deadline) -> Body:
        rail = self._rail(request.rail)
        return Opened(info=rail.open(deadline), binding=clipped(rail.binding))

    def _endpoint(self, request: Endpoint, deadline: Deadline) -> Body:
        return EndpointMade(info=self._rail(request.rail).new_qp(deadline))

    def _connect(self, request: Connect, deadline: Deadline) -> Body:
        return Connected(info=self._rail(request.rail).connect(request.remote, deadline))

    def _arm(self, request: Arm, deadline: Deadline) -> Body:
        rail = self._rail(request.rail)
        largest = max(request.sizes_bytes)
        if largest + protocol.MARGIN_BYTES > rail.payload_bytes:
            raise _refusal(
                f"a message of {largest} bytes does not fit {rail.payload_bytes} bytes of payload"
            )
        rail.arm(worker_arm(request), deadline)
        return Armed()

    def _go(self, request: Go, deadline: Deadline) -> Body:
        return Result(report=self._rail(request.rail).go(deadline))

    def _close(self, request: Close, deadline: Deadline) -> Body:
        self._rail(request.rail).close_qp(deadline)
        return Closed()


def _send_to_leaving(channel: Channel, body: Body) -> None:
    """Send to a peer that may have said ``bye`` and gone; what it said is still to be read."""
    try:
        channel.send(body)
    except PeerError as error:
        log.info("%s", error)


def worker_arm(request: Arm) -> protocol.Arm:
    """The same request for an endpoint child."""
    return protocol.Arm.model_validate(request.model_dump(exclude={"rail"}))


def _refusal(text: str) -> PeerError:
    return PeerError(f"refused: {text}", side="initiator", step="check the request")
