"""The layout of a frame, and moving frames over a socket under a deadline. See docs/channel.md.

A frame is 4 bytes of length (big endian, of the JSON text alone), the JSON text
``{"v", "seq", "type", "body"}``, and 32 bytes of HMAC-SHA256 over both under a key that belongs to
one direction of one connection.
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gdrcheck.outcome import GdrcheckError
from gdrcheck.pairing import hand_messages, job_messages, messages, session_messages, tools
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Body

PROTOCOL_VERSION = 3
MAX_TEXT_BYTES = 64 * 1024
TAG_BYTES = 32
LENGTH = struct.Struct("!I")
CHUNK_BYTES = 64 * 1024


def _every(*rooms: Mapping[str, type[Body]]) -> dict[str, type[Body]]:
    """All kinds of body by their type. ValueError for a type that two of ``rooms`` claim."""
    found: dict[str, type[Body]] = {}
    for room in rooms:
        if twice := found.keys() & room.keys():
            raise ValueError(f"two kinds of body are called {', '.join(sorted(twice))}")
        found.update(room)
    return found


BODIES = _every(
    messages.BODIES,
    session_messages.BODIES,
    tools.BODIES,
    hand_messages.BODIES,
    job_messages.BODIES,
)


class FrameError(GdrcheckError):
    """What arrived is no frame of this connection: size, tag, number, form or content."""


class ConnectionLost(GdrcheckError):
    """The connection ended or broke."""


class _Text(BaseModel):
    """The JSON text of a frame."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    v: int
    seq: int
    type: str
    body: dict[str, Any]


def pack(key: bytes, number: int, body: Body) -> bytes:
    """The frame that carries ``body`` as number ``number`` of its direction.

    FrameError when the body is larger than a frame may be.
    """
    text = _Text(
        v=PROTOCOL_VERSION, seq=number, type=body.TYPE, body=body.model_dump(mode="json")
    ).model_dump_json()
    payload = text.encode()
    if len(payload) > MAX_TEXT_BYTES:
        raise FrameError(f"a {body.TYPE} of {len(payload)} bytes exceeds {MAX_TEXT_BYTES}")
    signed = LENGTH.pack(len(payload)) + payload
    return signed + hmac.digest(key, signed, "sha256")


def unpack(key: bytes, number: int, frame: bytes) -> Body:
    """The body in ``frame``, which must be whole, ours, and number ``number`` of its direction.

    FrameError if anything about it is wrong. Nothing is parsed before the tag has been compared.
    """
    signed, tag = frame[:-TAG_BYTES], frame[-TAG_BYTES:]
    if len(frame) < LENGTH.size + TAG_BYTES or len(frame) != frame_bytes(frame):
        raise FrameError("the length does not fit the frame")
    if not hmac.compare_digest(hmac.digest(key, signed, "sha256"), tag):
        raise FrameError("the tag is wrong: other secret, other run, changed or replayed")
    try:
        text = _Text.model_validate_json(signed[LENGTH.size :])
    except ValidationError as problem:
        raise FrameError(f"the text is not a message: {problem.errors()[0]['msg']}") from problem
    if text.v != PROTOCOL_VERSION:
        raise FrameError(f"protocol version {text.v}, expected {PROTOCOL_VERSION}")
    if text.seq != number:
        raise FrameError(f"frame number {text.seq} came in place of {number}")
    return _body(text)


def _body(text: _Text) -> Body:
    model = BODIES.get(text.type)
    if model is None:
        raise FrameError(f"unknown type {text.type[:40]!r}")
    try:
        # By way of JSON, where strictness knows that an array stands for a tuple.
        return model.model_validate_json(json.dumps(text.body), strict=True)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise FrameError(f"{text.type}: {place}: {first['msg']}") from problem


def frame_bytes(start: bytes | bytearray) -> int:
    """How long the frame is that begins with ``start`` (at least 4 bytes)."""
    return int(LENGTH.unpack_from(start)[0]) + LENGTH.size + TAG_BYTES


class FrameSocket:
    """A connected TCP socket that moves whole frames. Owns and closes the socket.

    A receive that ran out of time keeps what has arrived, so it can be repeated. A send that ran
    out of time leaves half a frame on the wire: the connection is then broken for good.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._inbox = bytearray()
        self._broken = False

    def receive(self, deadline: Deadline, limit_bytes: int = MAX_TEXT_BYTES) -> bytes | None:
        """The next whole frame, None when the deadline passed first.

        FrameError when it announces more than ``limit_bytes`` of text; ConnectionLost.
        """
        while True:
            if len(self._inbox) >= LENGTH.size:
                size = frame_bytes(self._inbox)
                if size > limit_bytes + LENGTH.size + TAG_BYTES:
                    raise FrameError(f"a frame of {size} bytes is announced, more than allowed")
                if len(self._inbox) >= size:
                    frame = bytes(self._inbox[:size])
                    del self._inbox[:size]
                    return frame
            if not self._wait(select.POLLIN, deadline):
                return None
            self._fill()

    def send(self, frame: bytes, deadline: Deadline) -> None:
        """Hand ``frame`` to the kernel. ConnectionLost, also when the deadline passed."""
        if self._broken:
            raise ConnectionLost("an earlier send was cut short")
        view = memoryview(frame)
        while view:
            if not self._wait(select.POLLOUT, deadline):
                self._broken = True
                raise ConnectionLost(f"no data was taken for {deadline.seconds:.1f} s")
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._broken = True
                raise ConnectionLost(f"send: {error.strerror}") from error

    def cut(self) -> None:
        """End the connection without freeing the socket: wakes a thread that waits on it."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # The other end was quicker: it is ended all the same.

    def close(self) -> None:
        """End the connection and free the socket."""
        self.cut()
        self._socket.close()

    def _fill(self) -> None:
        try:
            data = self._socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLost(f"receive: {error.strerror}") from error
        if not data:
            raise ConnectionLost("closed by the other end")
        self._inbox += data

    def _wait(self, event: int, deadline: Deadline) -> bool:
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise ConnectionLost("closed on this end")
        poll = select.poll()
        poll.register(descriptor, event)
        return bool(poll.poll(deadline.remaining_s * 1000))
