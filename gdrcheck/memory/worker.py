"""The endpoint child: ``python3 -m gdrcheck.memory.worker``. See ``verbs.protocol`` for what it is
told.

Verbs calls hold the GIL, and calls of either driver can hang, so they live in a process that can be
killed. Requests come on stdin, replies go to stdout, the step that is being done goes to stderr.
The end of stdin ends the process. Without GPU memory it needs no CUDA.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, BinaryIO

# One message at a time: numpy's linear algebra threads would only cost start-up time. Read when
# numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pydantic import BaseModel

from gdrcheck.memory import child
from gdrcheck.memory.opened import Opened
from gdrcheck.verbs import protocol
from gdrcheck.verbs.compat import verbs_step
from gdrcheck.verbs.endpoint import Endpoint, open_endpoint
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.exchange import Exchange
from gdrcheck.verbs.messages import validate_plan
from gdrcheck.verbs.timed import TimedRun
from gdrcheck.verbs.waiting import post_greeting_receive


class _Pairs:
    """Queue pairs and whether they can still be used."""

    def __init__(self, opened: Opened, request: protocol.CreateQp) -> None:
        with contextlib.ExitStack() as stack:
            self.endpoint: Endpoint = stack.enter_context(
                open_endpoint(
                    opened.device,
                    opened.path,
                    opened.regions,
                    request.queue_pairs,
                    atomics=opened.request.atomics,
                )
            )
            self.stack = stack.pop_all()
        self.usable = False
        self.armed: protocol.Arm | None = None

    def connected(self, step: str) -> Endpoint:
        """The endpoint; VerbsError if it is not connected or has broken."""
        if self.endpoint.remote is None:
            raise VerbsError("the queue pairs are not connected", step=step)
        if not self.usable:
            raise VerbsError(
                "the queue pairs are used up, since the last use of them did not complete",
                step=step,
            )
        return self.endpoint


class Worker:
    """The state of the child; ``handle`` does one command."""

    def __init__(self) -> None:
        self._opened: Opened | None = None
        self._pairs: _Pairs | None = None

    def handle(self, request: protocol.Request) -> BaseModel:
        """The result of the command. ProbeError if it cannot be done; then nothing has changed,
        except that queue pairs whose connection or use failed must be closed."""
        do: dict[type[Any], Callable[[Any], BaseModel]] = {
            protocol.Open: self._open,
            protocol.OpenGpu: self._open_gpu,
            protocol.PortState: self._port_state,
            protocol.CreateQp: self._create_qp,
            protocol.Connect: self._connect,
            protocol.Arm: self._arm,
            protocol.Go: self._go,
            protocol.Timed: self._timed,
            protocol.Staged: self._staged,
            protocol.CloseQp: self._close_qp,
            protocol.Close: self._close,
        }
        with verbs_step(request.command):
            return do[type(request)](request)

    def close(self) -> None:
        """Undo everything, the last first."""
        pairs, self._pairs = self._pairs, None
        opened, self._opened = self._opened, None
        with contextlib.ExitStack() as stack:
            if opened is not None:
                stack.enter_context(opened.stack)
            if pairs is not None:
                stack.enter_context(pairs.stack)

    def _open(self, request: protocol.Open) -> protocol.Opened:
        if self._opened is not None:
            raise VerbsError(f"{self._opened.device.name} is open already", step="open")
        self._opened = Opened(request)
        return self._opened.described()

    def _open_gpu(self, request: protocol.OpenGpu) -> protocol.GpuOpened:
        opened = self._device("open_gpu")
        if self._pairs is not None:
            raise VerbsError("there are queue pairs already", step="open_gpu")
        return opened.open_gpu(request)

    def _port_state(self, _request: protocol.PortState) -> protocol.PortStateIs:
        return protocol.PortStateIs(state=self._device("port_state").port_state())

    def _create_qp(self, request: protocol.CreateQp) -> protocol.EndpointInfo:
        opened = self._device("create_qp")
        if self._pairs is not None:
            raise VerbsError("there are queue pairs already", step="create_qp")
        self._pairs = _Pairs(opened, request)
        return self._pairs.endpoint.info()

    def _connect(self, request: protocol.Connect) -> protocol.Connected:
        pairs = self._pairs
        if pairs is None or pairs.endpoint.remote is not None:
            raise VerbsError("there are no queue pairs to connect", step="connect")
        # Before RTR, so that the other end can greet at once.
        post_greeting_receive(pairs.endpoint)
        mtu = pairs.endpoint.connect(request.remote)
        pairs.usable = True
        return protocol.Connected(path_mtu=mtu)

    def _arm(self, request: protocol.Arm) -> protocol.Nothing:
        pairs, endpoint, _ = self._ready("arm")
        told = endpoint.info().regions, endpoint.remote.regions if endpoint.remote else ()
        local, remote = ({one.key: one.length_bytes for one in regions} for regions in told)
        validate_plan(request, local, remote)
        pairs.armed = request
        return protocol.Nothing()

    def _go(self, _request: protocol.Go) -> protocol.ExchangeResult:
        pairs, endpoint, opened = self._ready("go")
        plan, pairs.armed = pairs.armed, None
        if plan is None:
            raise VerbsError("nothing is armed", step="go")
        exchange = Exchange(
            endpoint,
            plan,
            source_id=endpoint.source_id(plan.role),
            completion_s=opened.request.completion_s,
        )
        pairs.usable = False
        result = exchange.run()
        pairs.usable = result.completed
        if result.completed:
            return result
        return result.model_copy(update={"port_state": opened.port_state()})

    def _timed(self, request: protocol.Timed) -> protocol.TimedResult:
        pairs, endpoint, opened = self._ready("timed")
        run = TimedRun(endpoint, request, completion_s=opened.request.completion_s)
        pairs.usable = False
        result = run.run()
        pairs.usable = result.completed
        return result

    def _staged(self, request: protocol.Staged) -> protocol.StagedResult:
        # It copies between GPU and host memory, which takes CUDA.
        from gdrcheck.memory.staged import StagedRun

        pairs, endpoint, opened = self._ready("staged")
        run = StagedRun(endpoint, request, completion_s=opened.request.completion_s)
        pairs.usable = False
        result = run.run()
        pairs.usable = result.completed
        return result

    def _close_qp(self, _request: protocol.CloseQp) -> protocol.Nothing:
        pairs, self._pairs = self._pairs, None
        if pairs is not None:
            pairs.stack.close()
        return protocol.Nothing()

    def _close(self, _request: protocol.Close) -> protocol.Nothing:
        self.close()
        return protocol.Nothing()

    def _device(self, step: str) -> Opened:
        if self._opened is None:
            raise VerbsError("no device is open", step=step)
        return self._opened

    def _ready(self, step: str) -> tuple[_Pairs, Endpoint, Opened]:
        if self._opened is None or self._pairs is None:
            raise VerbsError("there are no queue pairs", step=step)
        return self._pairs, self._pairs.connected(step), self._opened


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends, then undo everything."""
    child.serve(Worker(), protocol.decode_request, requests, replies)


if __name__ == "__main__":
    child.main(serve)
