"""This end's rdma_cm child: one of its own, since rdma_cm's calls hold the GIL, without a deadline.

It is started when first needed, and kept: CUDA takes seconds to start.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel

from gdrcheck import steps
from gdrcheck.pairing.binding import bind
from gdrcheck.pairing.child import Child, ChildFailed
from gdrcheck.pairing.cm import limit_s
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer
from gdrcheck.pairing.tool_context import ToolContext
from gdrcheck.pairing.tools import CmAbsent, CmDone, CmGo, CmPrepare, CmPrepared
from gdrcheck.verbs import cm_protocol, protocol

WORKER = (sys.executable, "-m", "gdrcheck.memory.rdma_cm_worker")
R = TypeVar("R", bound=BaseModel)


class CmEnd:
    """rdma_cm at this end. ``interrupt`` ends what the child is doing, from any thread."""

    def __init__(self, context: ToolContext, command: Sequence[str] = WORKER) -> None:
        self._context = context
        self._command = tuple(command)
        self._child: Child | None = None
        # The child that is doing something now.
        self._busy: Child | None = None
        self._lock = threading.Lock()
        self._number = 0

    def prepare(self, request: CmPrepare, deadline: Deadline) -> Answer:
        """Get the child ready. EndFailure; ``CmAbsent`` when this end lacks what it takes."""
        context, gpu = self._context, self._context.gpu
        if context.rail.data_address is None:
            name = f"{context.rail.nic} port {context.rail.port}"
            return CmAbsent(reason=f"{name} has no IP address, and rdma_cm connects by that")
        if gpu is None:
            return CmAbsent(reason=f"{context.name} has no GPU to make the numbers")
        if gpu.exclusive:
            return CmAbsent(reason=context.exclusive)
        strange = set(request.methods) - (
            {"host"} if request.memory == "pinned" else {*gpu.methods}
        )
        if strange:
            text = f"{request.memory} memory is not registered here by {', '.join(sorted(strange))}"
            raise context.failure("rdma_cm prepare", text)
        asked = cm_protocol.Prepare(
            role=request.role,
            memory=request.memory,
            methods=request.methods,
            device=context.rail.nic,
            port=context.rail.port,
            address=context.rail.data_address,
            gpu=protocol.GpuChoice(slot=gpu.slot, uuids=gpu.uuids),
            emulated=gpu.emulated,
            token=request.token,
            completion_s=context.waits.completion_s,
        )
        limit = deadline.within(context.waits.check_s)
        ready = self._ask(asked, cm_protocol.Prepared, limit)
        return CmPrepared(address=context.rail.data_address, port=ready.port)

    def go(self, request: CmGo, deadline: Deadline) -> Answer:
        """Do what was prepared. EndFailure."""
        asked = cm_protocol.Go(address=request.address, port=request.port)
        limit = deadline.within(limit_s(self._context.waits))
        return CmDone(report=self._ask(asked, cm_protocol.CmReport, limit))

    def interrupt(self) -> None:
        """Kill the child if it is doing something; whoever waits for it meets its end."""
        with self._lock:
            if self._busy is not None:
                self._busy.strike()
                self._child = None

    def close(self) -> None:
        """End the child. May be repeated."""
        child, self._child = self._child, None
        if child is not None:
            child.close(Deadline.after(self._context.waits.completion_s))

    def _ask(self, request: cm_protocol.Request, result: type[R], deadline: Deadline) -> R:
        """One request and its reply. A child that fails at that is killed and forgotten."""
        step = f"rdma_cm {request.command}"
        with steps.step(f"{step} on {self._context.name}"), self._working() as child:
            self._number += 1
            try:
                line = child.ask(cm_protocol.encode_request(self._number, request), deadline)
                return protocol.decode_reply(line, self._number, request, result)
            except protocol.WorkerFailure as failure:
                raise self._context.failure(
                    failure.info.step, failure.info.text, failure.info
                ) from failure
            except (ChildFailed, protocol.ProtocolError) as failure:
                last = child.last_step()
                self._child = None
                text = f"rdma_cm child {failure}, last step: {last or 'none'}"
                stuck = child.kill()
                raise self._context.failure(
                    step, f"{text}; {stuck}" if stuck else text
                ) from failure

    @contextmanager
    def _working(self) -> Iterator[Child]:
        """The child, which may be interrupted in the block; forgotten after that if it was."""
        child = self._child or self._start()
        with self._lock:
            self._busy = child
        try:
            yield child
        finally:
            with self._lock:
                self._busy = None
            if self._child is not child:
                child.kill()

    def _start(self) -> Child:
        context = self._context
        log_path = context.out_dir / f"rail-{context.rail.id}-rdma_cm.log"
        try:
            child = Child(self._command, log_path)
        except OSError as error:
            text = f"{self._command[0]}: {error.strerror}"
            raise context.failure("start the rdma_cm child", text) from error
        self._child = child
        bind(child.pid, context.root, context.rail.nic)
        return child
