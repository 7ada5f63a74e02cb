"""A rail of this node as its parent sees it: one endpoint child, respawned after a death."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pydantic import BaseModel

from gdrcheck import steps
from gdrcheck.pairing.binding import bind
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.child import Child, ChildFailed
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.transfer import RegionKey
from gdrcheck.verbs import protocol

WORKER = (sys.executable, "-m", "gdrcheck.memory.worker")
R = TypeVar("R", bound=BaseModel)

log = logging.getLogger("gdrcheck.rail")


class RailError(EndFailure):
    """This node's end of a rail could not do its part; names device, command, step and time."""


def open_request(
    profile: Profile, waits: Deadlines, device: str, port: int, *, atomics: bool = False
) -> protocol.Open:
    """What a child is asked to open: the port ``port`` of ``device``, as ``profile`` promises."""
    return protocol.Open(
        device=device,
        port=port,
        gid=profile.gid,
        traffic_class=profile.traffic_class,
        service_level=profile.service_level,
        pkey=profile.pkey,
        path_mtu=profile.path_mtu,
        atomics=atomics,
        completion_s=waits.completion_s,
    )


class RailProcess:
    """The endpoint child of one rail, started by ``prepare`` or when first needed. ``close`` it.

    Deadlines: opening device or GPU, the start of the interpreter included, an exchange and a
    comparison ``check_s``; a measurement that and its own length; everything else ``connect_s``.
    Used by one thread at a time, but for ``interrupt``.
    """

    def __init__(
        self,
        *,
        node: str,
        rail_id: int,
        request: protocol.Open,
        gpu: LocalGpu | None = None,
        queue_pairs: int = 4,
        waits: Deadlines,
        out_dir: Path,
        command: Sequence[str] = WORKER,
        root: Path = Path("/"),
    ) -> None:
        self.node = node
        self.rail_id = rail_id
        self.device = request.device
        self.binding = "not started"
        self._request = request
        self._gpu = gpu
        self._create = protocol.CreateQp(queue_pairs=queue_pairs)
        self._waits = waits
        self._log_path = out_dir / f"rail-{rail_id}.log"
        self._command = tuple(command)
        self._root = root
        self._child: Child | None = None
        self._opened: protocol.Opened | None = None
        self._gpu_opened: protocol.GpuOpened | None = None
        self._has_qp = False
        self._number = 0

    @property
    def payload_bytes(self) -> int:
        """The size of the buffer that messages lie in, in each kind of memory."""
        return self._request.buffer_bytes

    @property
    def far(self) -> bool:
        """Whether GPU memory that is open reaches beyond 2 GiB."""
        return (
            self._gpu is not None
            and self._gpu.far
            and self._gpu_opened is not None
            and not self._gpu_opened.far_refused
        )

    def has(self, key: RegionKey) -> bool:
        """Whether the region is there: that of host memory always, others once the GPU is open."""
        if key.memory == "host":
            return key.method == "host"
        opened = self._gpu_opened
        return opened is not None and any(region.key == key for region in opened.regions)

    def prepare(self) -> None:
        """Start the child ahead of its first request, which then tells if that failed."""
        if self._child is None:
            with suppress(RailError):
                self._start()

    def open(self, deadline: Deadline) -> protocol.Opened:
        """Start the child and open the device, unless that is done. RailError."""
        if self._opened is None or self._child is None:
            self._opened = self._long(self._request, protocol.Opened, deadline)
        return self._opened

    def open_gpu(self, deadline: Deadline) -> protocol.GpuOpened:
        """Open the GPU and register its memory, unless that is done. RailError."""
        self.open(deadline)
        if self._gpu_opened is None:
            if self._gpu is None or not self._gpu.methods:
                raise self._error("open_gpu", "this rail has no GPU to be used")
            # The regions are told to the other end with the queue pairs, so these come after.
            self.close_qp(deadline)
            request = protocol.OpenGpu(
                gpu=protocol.GpuChoice(slot=self._gpu.slot, uuids=self._gpu.uuids),
                methods=self._gpu.methods,
                emulated=self._gpu.emulated,
                far=self._gpu.far,
                bar1_bytes=self._gpu.bar1_bytes,
                buffer_bytes=self._request.buffer_bytes,
            )
            self._gpu_opened = self._long(request, protocol.GpuOpened, deadline)
        return self._gpu_opened

    def port_state(self, deadline: Deadline) -> protocol.PortStateIs:
        """The state of the port, now. RailError."""
        self.open(deadline)
        return self._short(protocol.PortState(), protocol.PortStateIs, deadline)

    def new_qp(self, deadline: Deadline) -> protocol.EndpointInfo:
        """Queue pairs in place of earlier ones. RailError."""
        self.open(deadline)
        self.close_qp(deadline)
        info = self._short(self._create, protocol.EndpointInfo, deadline)
        self._has_qp = True
        return info

    def connect(self, remote: protocol.EndpointInfo, deadline: Deadline) -> protocol.Connected:
        """Connect the queue pairs to those of ``remote``. RailError."""
        return self._short(protocol.Connect(remote=remote), protocol.Connected, deadline)

    def arm(self, request: protocol.Arm, deadline: Deadline) -> None:
        """Get ready for one exchange. RailError."""
        self._short(request, protocol.Nothing, deadline)

    def go(self, deadline: Deadline) -> protocol.ExchangeResult:
        """Run the armed exchange; what went wrong with the data is in the result. RailError."""
        return self._long(protocol.Go(), protocol.ExchangeResult, deadline)

    def timed(self, request: protocol.Timed, deadline: Deadline) -> protocol.TimedResult:
        """Take part in a measurement. RailError."""
        limit = deadline.within(self._waits.check_s + request.seconds)
        return self._ask(request, protocol.TimedResult, limit)

    def staged(self, request: protocol.Staged, deadline: Deadline) -> protocol.StagedResult:
        """Take part in a comparison of ways. RailError."""
        return self._long(request, protocol.StagedResult, deadline)

    def close_qp(self, deadline: Deadline) -> None:
        """Destroy the queue pairs, if there are any. RailError, and the child is given up."""
        if self._has_qp:
            try:
                self._short(protocol.CloseQp(), protocol.Nothing, deadline)
            except RailError:
                self._forget()
                raise
            self._has_qp = False

    def interrupt(self) -> None:
        """Kill the child, so that a thread that waits for it goes on at once, with a RailError."""
        child = self._child
        if child is not None:
            child.strike()

    def close(self) -> None:
        """End the child. Waits a moment at most. May be repeated."""
        child = self._child
        self._child, self._opened, self._gpu_opened, self._has_qp = None, None, None, False
        if child is not None:
            child.close(Deadline.after(self._waits.completion_s))

    def __enter__(self) -> RailProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _long(self, request: protocol.Request, result: type[R], deadline: Deadline) -> R:
        return self._ask(request, result, deadline.within(self._waits.check_s))

    def _short(self, request: protocol.Request, result: type[R], deadline: Deadline) -> R:
        return self._ask(request, result, deadline.within(self._waits.connect_s))

    def _ask(self, request: protocol.Request, result: type[R], deadline: Deadline) -> R:
        """One request and its reply. A child that fails at that is killed and forgotten."""
        with steps.step(f"{request.command} on {self.node}/{self.device} (rail {self.rail_id})"):
            child = self._child or self._start()
            self._number += 1
            try:
                line = child.ask(protocol.encode_request(self._number, request), deadline)
                return protocol.decode_reply(line, self._number, request, result)
            except protocol.WorkerFailure as failure:
                raise self._error(request.command, str(failure), failure.info) from failure
            except (ChildFailed, protocol.ProtocolError) as failure:
                step = child.last_step()
                stuck = self._forget()
                reason = f"endpoint child {failure}, last step: {step or 'none'}"
                raise self._error(
                    request.command, f"{reason}; {stuck}" if stuck else reason
                ) from failure

    def _start(self) -> Child:
        try:
            child = Child(self._command, self._log_path)
        except OSError as error:
            raise self._error("start", f"{self._command[0]}: {error.strerror}") from error
        self._child = child
        self.binding = bind(child.pid, self._root, self.device)
        log.info("rail %d on %s: %s", self.rail_id, self.device, self.binding)
        return child

    def _forget(self) -> str:
        child = self._child
        self._child, self._opened, self._gpu_opened, self._has_qp = None, None, None, False
        return child.kill() if child is not None else ""

    def _error(self, step: str, text: str, info: protocol.ErrorInfo | None = None) -> RailError:
        return RailError(
            f"{self.node}/{self.device} (rail {self.rail_id}): {step}: {text}",
            side=self.node,
            step=info.step if info else step,
            error=info,
        )
