"""The endpoint child: ``python3 -m gdrcheck.verbs.worker``. See ``protocol`` for what it is told.

Verbs calls hold the GIL and can hang in a driver, so they live in a process that can be killed.
Requests come on stdin, replies go to stdout, the step that is being done goes to stderr.
The end of stdin ends the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

# One message at a time: numpy's linear algebra threads would only cost start-up time. Read when
# numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pydantic import BaseModel, ValidationError

from gdrcheck import steps
from gdrcheck.outcome import ProbeError
from gdrcheck.pattern import Pattern
from gdrcheck.verbs import protocol
from gdrcheck.verbs.buffer import HostBuffer
from gdrcheck.verbs.compat import verbs_step
from gdrcheck.verbs.completion_queue import CompletionQueue, open_completion_queue
from gdrcheck.verbs.device import Device, open_device
from gdrcheck.verbs.endpoint import Endpoint, open_endpoint
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.exchange import Exchange, validate_plan
from gdrcheck.verbs.memory import REMOTE, Registration, register
from gdrcheck.verbs.mtu import own_mtu
from gdrcheck.verbs.queue_pair import Path
from gdrcheck.verbs.timed import TimedRun, validate_timed
from gdrcheck.verbs.waiting import post_greeting_receive


class _Opened:
    """What ``open`` made and ``close`` undoes, in reverse order."""

    def __init__(self, request: protocol.Open) -> None:
        self.request = request
        with contextlib.ExitStack() as stack:
            self.device: Device = stack.enter_context(open_device(request.device))
            port = self.device.port(request.port)
            chosen = self.device.choose_gid(port, request.gid)
            self.path = Path(
                port=port,
                gid=chosen,
                pkey_index=self.device.pkey_index(request.port, request.pkey),
                traffic_class=request.traffic_class,
                service_level=request.service_level,
                promised_mtu=request.path_mtu,
                completion_s=request.completion_s,
            )
            own_mtu(port.active_mtu, request.path_mtu)
            self.buffer = HostBuffer(request.buffer_bytes)
            self.registration: Registration = stack.enter_context(
                register(self.device, self.buffer.address, self.buffer.total_bytes, REMOTE)
            )
            self.pattern = Pattern(self.buffer.payload_bytes)
            self.queue: CompletionQueue = stack.enter_context(open_completion_queue(self.device))
            self.stack = stack.pop_all()

    def described(self) -> protocol.Opened:
        """What the parent wants to know and log of the choices made."""
        path = self.path
        return protocol.Opened(
            gid_index=path.gid.index,
            gid=path.gid.gid,
            gid_type=path.gid.type,
            netdev=path.gid.netdev,
            lid=path.port.lid,
            link_layer=path.port.link_layer,
            active_mtu=path.port.active_mtu,
            guid=self.device.guid,
        )


class _Pair:
    """A queue pair and whether it can still be used."""

    def __init__(self, opened: _Opened) -> None:
        with contextlib.ExitStack() as stack:
            self.endpoint: Endpoint = stack.enter_context(
                open_endpoint(
                    opened.device, opened.path, opened.buffer, opened.registration, opened.queue
                )
            )
            self.stack = stack.pop_all()
        self.usable = False
        self.armed: protocol.Arm | None = None

    def connected(self, step: str) -> Endpoint:
        """The endpoint; VerbsError if it is not connected or has broken."""
        if self.endpoint.remote is None:
            raise VerbsError("the queue pair is not connected", step=step)
        if not self.usable:
            raise VerbsError(
                "the queue pair is used up, since the last use of it did not complete", step=step
            )
        return self.endpoint


class Worker:
    """The state of the child; ``handle`` does one command."""

    def __init__(self) -> None:
        self._opened: _Opened | None = None
        self._pair: _Pair | None = None

    def handle(self, request: protocol.Request) -> BaseModel:
        """The result of the command. ProbeError if it cannot be done; then nothing has changed,
        except that a queue pair whose connection failed must be closed."""
        do: dict[type[Any], Callable[[Any], BaseModel]] = {
            protocol.Open: self._open,
            protocol.CreateQp: self._create_qp,
            protocol.Connect: self._connect,
            protocol.Arm: self._arm,
            protocol.Go: self._go,
            protocol.Timed: self._timed,
            protocol.CloseQp: self._close_qp,
            protocol.Close: self._close,
        }
        with verbs_step(request.command):
            return do[type(request)](request)

    def close(self) -> None:
        """Undo everything, the last first."""
        pair, self._pair = self._pair, None
        opened, self._opened = self._opened, None
        with contextlib.ExitStack() as stack:
            if opened is not None:
                stack.enter_context(opened.stack)
            if pair is not None:
                stack.enter_context(pair.stack)

    def _open(self, request: protocol.Open) -> protocol.Opened:
        if self._opened is not None:
            raise VerbsError(f"{self._opened.device.name} is open already", step="open")
        self._opened = _Opened(request)
        return self._opened.described()

    def _create_qp(self, _request: protocol.CreateQp) -> protocol.EndpointInfo:
        if self._opened is None:
            raise VerbsError("no device is open", step="create_qp")
        if self._pair is not None:
            raise VerbsError("there is a queue pair already", step="create_qp")
        self._pair = _Pair(self._opened)
        return self._pair.endpoint.info()

    def _connect(self, request: protocol.Connect) -> protocol.Connected:
        pair = self._pair
        if pair is None or pair.endpoint.remote is not None:
            raise VerbsError("there is no queue pair to connect", step="connect")
        # Before RTR, so that the other end can greet at once.
        post_greeting_receive(pair.endpoint)
        mtu = pair.endpoint.connect(request.remote)
        pair.usable = True
        return protocol.Connected(path_mtu=mtu)

    def _arm(self, request: protocol.Arm) -> protocol.Nothing:
        pair, _ = self._ready("arm")
        validate_plan(request, pair.endpoint.smaller_payload_bytes)
        pair.armed = request
        return protocol.Nothing()

    def _go(self, _request: protocol.Go) -> protocol.ExchangeResult:
        pair, opened = self._ready("go")
        plan, pair.armed = pair.armed, None
        if plan is None:
            raise VerbsError("nothing is armed", step="go")
        result = Exchange(
            pair.endpoint,
            opened.pattern,
            plan,
            source_id=_source_id(pair.endpoint, plan.role),
            completion_s=opened.request.completion_s,
        ).run()
        pair.usable = result.completed
        if result.completed:
            return result
        return result.model_copy(update={"port_state": _port_state(opened)})

    def _timed(self, request: protocol.Timed) -> protocol.TimedResult:
        pair, opened = self._ready("timed")
        validate_timed(request, pair.endpoint.smaller_payload_bytes)
        result = TimedRun(
            pair.endpoint,
            opened.pattern,
            request,
            source_id=_source_id(pair.endpoint, request.role),
            completion_s=opened.request.completion_s,
        ).run()
        pair.usable = result.completed
        return result

    def _close_qp(self, _request: protocol.CloseQp) -> protocol.Nothing:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.stack.close()
        return protocol.Nothing()

    def _close(self, _request: protocol.Close) -> protocol.Nothing:
        self.close()
        return protocol.Nothing()

    def _ready(self, step: str) -> tuple[_Pair, _Opened]:
        if self._opened is None or self._pair is None:
            raise VerbsError("there is no queue pair", step=step)
        self._pair.connected(step)
        return self._pair, self._opened


def _port_state(opened: _Opened) -> str:
    """The state of the port; that it cannot be read, when it has gone away."""
    try:
        return opened.device.port(opened.request.port).state
    except VerbsError as problem:
        return f"unreadable: {problem}"


def _source_id(endpoint: Endpoint, role: protocol.Role) -> int:
    """A number that names the sending queue pair, the same on both ends."""
    remote = endpoint.remote
    info = endpoint.info() if role == "source" or remote is None else remote
    text = f"{info.gid} {info.lid} {info.qpn} {info.psn}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _answer(worker: Worker, line: bytes) -> bytes:
    """The reply line for a request line."""
    try:
        asked = protocol.decode_request(line)
    except ValidationError as problem:
        text = f"not a request: {problem.error_count()} problems in {line[:200]!r}"
        error = protocol.ErrorInfo(step="read the request", text=text)
        return protocol.encode_reply(protocol.ErrorReply(id=-1, error=error))
    try:
        result = worker.handle(asked.request)
    except ProbeError as problem:
        error = protocol.ErrorInfo(
            step=problem.step or asked.request.command,
            errno=problem.error_number,
            status=getattr(problem, "status", None),
            vendor_error=getattr(problem, "vendor_error", None),
            text=str(problem),
        )
        return protocol.encode_reply(protocol.ErrorReply(id=asked.id, error=error))
    return protocol.encode_reply(protocol.Reply(id=asked.id, result=result))


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends, then undo everything."""
    worker = Worker()
    try:
        for line in requests:
            replies.write(_answer(worker, line))
            replies.flush()
    finally:
        worker.close()


def main() -> None:
    """Serve on stdin and stdout. Whatever else would print to stdout goes to stderr."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    steps.set_sink(lambda text: print(text, file=sys.stderr, flush=True))
    with replies:
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
