"""The responder: does what the initiator asks, within what its own plan allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel, EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.lanes import Lanes
from gdrcheck.pairing.messages import Answer, Body, Bye, Failure, Request, Serving, clipped
from gdrcheck.pairing.patience import in_slices
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.pairing.session_messages import (
    REQUESTS,
    Arm,
    Armed,
    Close,
    Closed,
    Connect,
    Connected,
    Endpoint,
    EndpointMade,
    Go,
    GpuOpened,
    Open,
    Opened,
    OpenGpu,
    PortState,
    PortStateIs,
    Result,
    Staged,
    StagedDone,
    Timed,
    TimedDone,
)
from gdrcheck.pairing.tools import REQUESTS as TOOL_REQUESTS
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.transfer import RegionKey, Role, Variant
from gdrcheck.verbs import protocol

W = TypeVar("W", bound=BaseModel)

log = logging.getLogger("gdrcheck.pair")


class Tools(Protocol):
    """What a rail has beside its endpoint child: perftest and rdma_cm.

    ``opened``: the port that they are to use. ``answer`` raises EndFailure for what this end could
    not do, PeerError for what it refuses. ``end_session`` ends what a session left running.
    """

    opened: protocol.Opened | None

    def answer(self, request: Request, deadline: Deadline) -> Answer: ...

    def end_session(self) -> None: ...


class Responder:
    """Serves sessions on this node's rails, one session at a time and all its rails side by side.

    ``blocked`` maps a rail that cannot be used to the reason.
    """

    def __init__(
        self,
        rails: Mapping[int, RailProcess],
        blocked: Mapping[int, str],
        waits: WalkWaits,
        *,
        tools: Mapping[int, Tools] | None = None,
    ) -> None:
        self._rails = rails
        self._blocked = blocked
        self._waits = waits
        self._tools = tools or {}
        self._handlers: dict[type[Request], Callable[[RailProcess, Any, Deadline], Answer]] = {
            Open: self._open,
            OpenGpu: lambda rail, _, until: GpuOpened(info=rail.open_gpu(until)),
            PortState: lambda rail, _, until: PortStateIs(info=rail.port_state(until)),
            Endpoint: lambda rail, _, until: EndpointMade(info=rail.new_qp(until)),
            Connect: lambda rail, asked, until: Connected(info=rail.connect(asked.remote, until)),
            Arm: _arm,
            Go: lambda rail, _, until: Result(report=rail.go(until)),
            Timed: _timed,
            Staged: _staged,
            Close: _close,
        }

    def serve(self, channel: Channel, begun_by: float) -> None:
        """Serve until the initiator says ``bye``; closes the channel.

        ``begun_by`` (monotonic) is until when its first request is awaited. PeerError when the
        initiator is lost or takes longer than a round may. Nothing of the session runs afterwards.
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
            with ExitStack() as stack:
                for tool in self._tools.values():
                    stack.callback(tool.end_session)
                lanes = stack.enter_context(
                    Lanes(
                        lambda asked: channel.send(self._answer(asked, deadline)),
                        self._interrupt,
                        self._waits.silence_s,
                    )
                )
                while isinstance(request, Request):
                    if not lanes.put(request.rail, request):
                        channel.send(_refused(request, "too many requests of one rail at once"))
                    request = self._receive(channel, deadline.remaining_s)
            _send_to_leaving(channel, Bye())

    def _receive(self, channel: Channel, seconds: float) -> Body:
        kinds: tuple[type[Body], ...] = (*REQUESTS, *TOOL_REQUESTS, Bye)
        return channel.receive(
            seconds, *kinds, silence_s=self._waits.silence_s, awaited="a request"
        )

    def _interrupt(self, rail: int) -> None:
        """End what ``rail`` is doing for a session that is over."""
        if rail in self._rails:
            self._rails[rail].interrupt()
        if rail in self._tools:
            self._tools[rail].end_session()

    def _answer(self, request: Request, deadline: Deadline) -> Answer:
        try:
            answer = self._done(request, deadline)
        except EndFailure as failure:
            log.warning("%s", failure)
            answer = Failure(
                step=failure.step[:200], text=clipped(str(failure)), error=failure.error
            )
        except PeerError as refusal:
            log.warning("refused a request: %s", refusal)
            answer = Failure(step=refusal.step[:200], text=clipped(str(refusal)))
        return _addressed(answer, request)

    def _done(self, request: Request, deadline: Deadline) -> Answer:
        rail = self._rail(request.rail)
        handler = self._handlers.get(type(request))
        if handler is not None:
            return handler(rail, request, deadline)
        if request.rail not in self._tools:
            raise _refusal(f"rail {request.rail} has no tools for {request.TYPE}")
        return self._tools[request.rail].answer(request, deadline)

    def _rail(self, number: int) -> RailProcess:
        """The rail that was asked for. PeerError when it is not for use."""
        if number in self._blocked:
            raise _refusal(f"rail {number} is blocked by {self._blocked[number]}")
        rail = self._rails.get(number)
        if rail is None:
            raise _refusal(f"there is no rail {number}")
        return rail

    def _open(self, rail: RailProcess, request: Open, deadline: Deadline) -> Answer:
        info = rail.open(deadline)
        if request.rail in self._tools:
            self._tools[request.rail].opened = info
        return Opened(info=info, binding=clipped(rail.binding))


def _arm(rail: RailProcess, request: Arm, deadline: Deadline) -> Answer:
    for variant in request.variants:
        _check(rail, request.role, variant, max(request.sizes_bytes), far=request.far)
    rail.arm(worker_request(request, protocol.Arm), deadline)
    return Armed()


def _timed(rail: RailProcess, request: Timed, deadline: Deadline) -> Answer:
    _check(rail, request.role, request.variant, request.size_bytes)
    return TimedDone(report=rail.timed(worker_request(request, protocol.Timed), deadline))


def _staged(rail: RailProcess, request: Staged, deadline: Deadline) -> Answer:
    _check(rail, request.role, request.variant, request.size_bytes)
    return StagedDone(report=rail.staged(worker_request(request, protocol.Staged), deadline))


def _close(rail: RailProcess, _: Close, deadline: Deadline) -> Answer:
    rail.close_qp(deadline)
    return Closed()


def _check(
    rail: RailProcess, role: Role, variant: Variant, size_bytes: int, *, far: bool = False
) -> None:
    """What is asked for is within this end's own plan. PeerError if not."""
    if size_bytes + protocol.MARGIN_BYTES > rail.payload_bytes:
        raise _refusal(
            f"a message of {size_bytes} bytes does not fit {rail.payload_bytes} bytes of payload"
        )
    key: RegionKey = variant.source if role == "source" else variant.sink
    if not rail.has(key):
        raise _refusal(f"there is no region of {key.text()} on rail {rail.rail_id}")
    if far and key.memory == "gpu" and not rail.far:
        raise _refusal(f"GPU memory of rail {rail.rail_id} does not reach beyond 2 GiB")


def worker_request(request: Request, kind: type[W]) -> W:
    """The same request for an endpoint child."""
    return kind.model_validate(request.model_dump(exclude={"rail", "number"}))


def _addressed(answer: Answer, request: Request) -> Answer:
    return answer.model_copy(update={"rail": request.rail, "number": request.number})


def _refused(request: Request, text: str) -> Answer:
    return _addressed(Failure(step="check the request", text=text), request)


def _refusal(text: str) -> PeerError:
    return PeerError(f"refused: {text}", side="initiator", step="check the request")


def _send_to_leaving(channel: Channel, body: Body) -> None:
    """Send to a peer that may have said ``bye`` and gone; what it said is still to be read."""
    try:
        channel.send(body)
    except PeerError as error:
        log.info("%s", error)
