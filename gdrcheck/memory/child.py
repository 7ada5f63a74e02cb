"""What every child of this room does: answer lines with lines until its input ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from pydantic import BaseModel, ValidationError

from gdrcheck import steps
from gdrcheck.outcome import ProbeError
from gdrcheck.verbs.protocol import ErrorInfo, ErrorReply, Reply, encode_reply


class Handler(Protocol):
    """What does the commands of a child."""

    def handle(self, request: Any, /) -> BaseModel:
        """The result of the command. ProbeError if it cannot be done."""

    def close(self) -> None:
        """Undo everything, the last first."""


class RequestLine(Protocol):
    """A request, and the number that its reply repeats."""

    @property
    def id(self) -> int: ...

    @property
    def request(self) -> Any: ...


Decode = Callable[[bytes], RequestLine]


def serve(handler: Handler, decode: Decode, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends, then close ``handler``.

    ``decode`` raises pydantic.ValidationError for a line that is no request.
    """
    try:
        for line in requests:
            replies.write(encode_reply(_reply(handler, decode, line)))
            replies.flush()
    finally:
        handler.close()


def main(serve_streams: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """Serve on stdin and stdout. What else would print to stdout goes to stderr, as steps do."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    steps.set_sink(lambda text: print(text, file=sys.stderr, flush=True))
    with replies:
        serve_streams(sys.stdin.buffer, replies)


def _reply(handler: Handler, decode: Decode, line: bytes) -> Reply[BaseModel] | ErrorReply:
    try:
        asked = decode(line)
    except ValidationError as problem:
        text = f"not a request: {problem.error_count()} problems in {line[:200]!r}"
        return ErrorReply(id=-1, error=ErrorInfo(step="read the request", text=text))
    try:
        return Reply(id=asked.id, result=handler.handle(asked.request))
    except ProbeError as problem:
        return ErrorReply(id=asked.id, error=_error(problem, asked.request.command))


def _error(problem: ProbeError, command: str) -> ErrorInfo:
    """What the parent gets to know of it: whatever the error knows. ``name`` is a CudaError's."""
    return ErrorInfo(
        step=problem.step or command,
        errno=problem.error_number,
        status=getattr(problem, "status", None),
        vendor_error=getattr(problem, "vendor_error", None),
        cuda=getattr(problem, "cuda", None) or getattr(problem, "name", None),
        text=str(problem),
    )
