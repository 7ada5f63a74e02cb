"""The rdma_cm child: ``python3 -m gdrcheck.memory.rdma_cm_worker``. ``cm_protocol`` tells its part.

Requests come on stdin, replies go to stdout, the step that is being done goes to stderr. The end of
stdin ends the process.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

# Read when numpy is imported: its linear algebra threads would only cost start-up time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pydantic import BaseModel, ValidationError

from gdrcheck import steps
from gdrcheck.gpu.session import Session
from gdrcheck.memory.rdma_cm import CmExchange
from gdrcheck.outcome import ProbeError
from gdrcheck.verbs.cm_protocol import Go, Prepare, Request, RequestLine
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.protocol import ErrorInfo, ErrorReply, Reply


class CmWorker:
    """The state of the child: the GPUs that are open, and the exchange that is prepared."""

    def __init__(self) -> None:
        self._session = Session()
        self._exchange: CmExchange | None = None

    def handle(self, request: Request) -> BaseModel:
        """The result of the command. ProbeError if it cannot be done; nothing is prepared then."""
        if isinstance(request, Prepare):
            self._undo()
            self._exchange = CmExchange(request, self._session)
            return self._exchange.prepared()
        return self._go(request)

    def close(self) -> None:
        """Undo everything, the last first."""
        try:
            self._undo()
        finally:
            self._session.close()

    def _go(self, request: Go) -> BaseModel:
        if self._exchange is None:
            raise VerbsError("nothing is prepared", step="go")
        try:
            return self._exchange.go(request)
        finally:
            self._undo()

    def _undo(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def _answer(worker: CmWorker, line: bytes) -> bytes:
    """The reply line for a request line."""
    reply: Reply[BaseModel] | ErrorReply
    try:
        asked = RequestLine.model_validate_json(line)
    except ValidationError as problem:
        text = f"not a request: {problem.error_count()} problems in {line[:200]!r}"
        reply = ErrorReply(id=-1, error=ErrorInfo(step="read the request", text=text))
        return _line(reply)
    try:
        reply = Reply(id=asked.id, result=worker.handle(asked.request))
    except ProbeError as problem:
        reply = ErrorReply(id=asked.id, error=_info(problem, asked.request.command))
    return _line(reply)


def _info(problem: ProbeError, command: str) -> ErrorInfo:
    return ErrorInfo(
        step=problem.step or command,
        errno=problem.error_number,
        status=getattr(problem, "status", None),
        vendor_error=getattr(problem, "vendor_error", None),
        cuda=getattr(problem, "name", None),
        text=str(problem),
    )


def _line(reply: BaseModel) -> bytes:
    return reply.model_dump_json().encode() + b"\n"


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends, then undo everything."""
    worker = CmWorker()
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
