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
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.verbs import protocol

WORKER = (sys.executable, "-m", "gdrcheck.verbs.worker")
R = TypeVar("R", bound=BaseModel)

log = logging.getLogger("gdrcheck.rail")


class RailError(EndFailure):
    """This node's end of a rail could not do its part; names device, command, step and time."""


class RailProcess:
    """The endpoint child of one rail, started by ``prepare`` or when first needed. ``close`` it.

    Deadlines: opening, which includes the start of the interpreter, and an exchange ``check_s``;
    everything else ``connect_s``.
    """

    def __init__(
        self,
        *,
        node: str,
        rail_id: int,
        device: str,
        port: int = 1,
        profile: Profile,
        waits: Deadlines,
        out_dir: Path,
        command: Sequence[str] = WORKER,
        root: Path = Path("/"),
    ) -> None:
        self.node = node
        self.rail_id = rail_id
        self.device = device
        self.binding = "not started"
        self._request = protocol.Open(
            device=device,
            port=port,
            gid=profile.gid,
            traffic_class=profile.traffic_class,
            service_level=profile.service_level,
            pkey=profile.pkey,
            path_mtu=profile.path_mtu,
            completion_s=waits.completion_s,
        )
        self._waits = waits
        self._log_path = out_dir / f"rail-{rail_id}.log"
        self._command = tuple(command)
        self._root = root
        self._child: Child | None = None
        self._opened: protocol.Opened | None = None
        self._has_qp = False
        self._number = 0

    @property
    def payload_bytes(self) -> int:
        """The size of the buffer that messages lie in."""
        return self._request.buffer_bytes

    def prepare(self) -> None:
        """Start the child ahead of its first request, which then tells if that failed."""
        if self._child is None:
            with suppress(RailError):
                self._start()

    def open(self, deadline: Deadline) -> protocol.Opened:
        """Start the child and open the device, unless that is done. RailError."""
        if self._opened is None or self._child is None:
            limit = deadline.within(self._waits.check_s)
            self._opened = self._ask(self._request, protocol.Opened, limit)
        return self._opened

    def new_qp(self, deadline: Deadline) -> protocol.EndpointInfo:
        """A queue pair in place of an earlier one. RailError."""
        self.open(deadline)
        self.close_qp(deadline)
        info = self._short(protocol.CreateQp(), protocol.EndpointInfo, deadline)
        self._has_qp = True
        return info

    def connect(self, remote: protocol.EndpointInfo, deadline: Deadline) -> protocol.Connected:
        """Connect the queue pair to ``remote``. RailError."""
        return self._short(protocol.Connect(remote=remote), protocol.Connected, deadline)

    def arm(self, request: protocol.Arm, deadline: Deadline) -> None:
        """Get ready for one exchange. RailError."""
        self._short(request, protocol.Nothing, deadline)

    def go(self, deadline: Deadline) -> protocol.ExchangeResult:
        """Run the armed exchange; what went wrong with the data is in the result. RailError."""
        limit = deadline.within(self._waits.check_s)
        return self._ask(protocol.Go(), protocol.ExchangeResult, limit)

    def close_qp(self, deadline: Deadline) -> None:
        """Destroy the queue pair, if there is one. RailError."""
        if self._has_qp:
            self._short(protocol.CloseQp(), protocol.Nothing, deadline)
            self._has_qp = False

    def close(self) -> None:
        """End the child. Waits a moment at most. May be repeated."""
        child, self._child = self._child, None
        self._opened, self._has_qp = None, False
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
        child, self._child = self._child, None
        self._opened, self._has_qp = None, False
        return child.kill() if child is not None else ""

    def _error(self, step: str, text: str, info: protocol.ErrorInfo | None = None) -> RailError:
        return RailError(
            f"{self.node}/{self.device} (rail {self.rail_id}): {step}: {text}",
            side=self.node,
            step=info.step if info else step,
            error=info,
        )
