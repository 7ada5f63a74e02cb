"""How two ends prove to each other that they know the run's secret, before they believe anything.

connector → acceptor: ``hello``, signed with a key made of the secret and the run id
acceptor → connector: ``hello``, likewise
connector → acceptor: ``proof``, signed with the session key
acceptor → connector: ``welcome`` or ``refused``, signed with the session key

The ``welcome`` tells the acceptor's clock, which was read after the ``proof`` was sent and before
the ``welcome`` came: so the connector knows how far it is from its own, to half a round trip.

The session key is made of the secret, both hellos (which hold the nonces), the run id and both
names, so recorded frames of another connection do not fit. Each direction has its own key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gdrcheck import __version__
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.frames import PROTOCOL_VERSION, FrameError, FrameSocket, pack, unpack
from gdrcheck.pairing.messages import (
    Body,
    ClockOffset,
    Hello,
    Proof,
    Purpose,
    Refused,
    Welcome,
    clipped,
)
from gdrcheck.run import RunSpec

HANDSHAKE_S = 5.0
# What the playbook tells a container about itself; run.json only says what was wanted.
IMAGE_ID_VARIABLE = "GDRCHECK_IMAGE_ID"
IMAGE_ID_LIMIT = 253
# A hello is a few hundred bytes; nobody who has proven nothing gets to send more.
HELLO_LIMIT_BYTES = 4096

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this end is. Both ends must agree on all but ``node``.

    ``image_id`` is empty when it is not known, and then agrees with every other.
    ``profile_hash`` covers the whole run document: profiles, nodes and their order.
    """

    run_id: str
    node: str
    secret: bytes = field(repr=False)
    image_id: str
    profile_hash: str
    version: str = __version__

    @classmethod
    def of(cls, run: RunSpec, node: str, secret: bytes) -> Identity:
        """The identity of ``node`` in ``run``, in the image of this container if that is told."""
        image_id = os.environ.get(IMAGE_ID_VARIABLE) or run.image_id
        document = run.model_dump_json().encode()
        return cls(
            run_id=run.run_id,
            node=node,
            secret=secret,
            image_id=clipped(image_id, IMAGE_ID_LIMIT),
            profile_hash=hashlib.sha256(document).hexdigest(),
        )

    def hello(self, peer: str, purpose: Purpose) -> Hello:
        """A hello to ``peer`` with a fresh nonce."""
        return Hello(
            nonce=secrets.token_hex(32),
            node=self.node,
            peer=peer,
            run_id=self.run_id,
            protocol=PROTOCOL_VERSION,
            version=self.version,
            image_id=self.image_id,
            profile_hash=self.profile_hash,
            purpose=purpose,
        )

    def hello_key(self, side: str) -> bytes:
        """The key of a hello from the ``connector`` or the ``acceptor``."""
        return _derive(self.secret, "gdrcheck hello", side, self.run_id)

    def difference(self, other: Hello) -> str:
        """What ``other`` does not share with this end, empty when all is alike."""
        for what, mine, theirs in (
            ("protocol version", str(PROTOCOL_VERSION), str(other.protocol)),
            ("gdrcheck version", self.version, other.version),
            ("image", self.image_id, other.image_id or self.image_id),
            ("hash of profiles and run", self.profile_hash, other.profile_hash),
        ):
            if what == "image" and not mine:
                continue
            if mine != theirs:
                return f"{what} differs: {self.node} has {mine!r}, {other.node} has {theirs!r}"
        return ""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one connection, by the end that sends."""

    connector: bytes = field(repr=False)
    acceptor: bytes = field(repr=False)


def session_keys(secret: bytes, connector: Hello, acceptor: Hello) -> Keys:
    """The keys that belong to these two hellos and no others."""
    base = _derive(
        secret,
        "gdrcheck session",
        connector.run_id,
        connector.node,
        acceptor.node,
        connector.nonce,
        acceptor.nonce,
        connector.model_dump_json(),
        acceptor.model_dump_json(),
    )
    return Keys(_derive(base, "connector"), _derive(base, "acceptor"))


def _derive(key: bytes, *parts: str) -> bytes:
    message = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
    return hmac.digest(key, message, "sha256")


@dataclass(frozen=True, slots=True)
class Proven:
    """A peer that has proven the secret, and the keys for what follows (frames from 1 on).

    ``clock`` is the peer's clock against ours; only the connecting end learns it.
    """

    peer: str
    purpose: Purpose
    keys: Keys
    clock: ClockOffset | None = None


def accept_handshake(
    wire: FrameSocket,
    identity: Identity,
    allowed_peers: frozenset[str],
    refusal: Callable[[Hello], Refused | None],
) -> Proven | Refused:
    """Serve one handshake; total time ``HANDSHAKE_S``. The caller closes ``wire``.

    ``refusal`` says why a proven peer is not wanted, which is then told to it and returned.
    FrameError, ConnectionLost or PeerError when nothing was proven.
    """
    deadline = Deadline.after(HANDSHAKE_S)
    theirs = _take(wire, identity.hello_key("connector"), deadline, Hello)
    if theirs.peer != identity.node or theirs.run_id != identity.run_id:
        raise FrameError(f"hello is meant for {theirs.peer}, run {theirs.run_id}")
    if theirs.node not in allowed_peers:
        raise FrameError(f"{theirs.node} is no peer of {identity.node}")
    mine = identity.hello(theirs.node, theirs.purpose)
    wire.send(pack(identity.hello_key("acceptor"), 0, mine), deadline)
    keys = session_keys(identity.secret, theirs, mine)
    _take(wire, keys.connector, deadline, Proof)
    refused = refusal(theirs)
    answer: Body = refused or Welcome(clock_s=time.time())
    wire.send(pack(keys.acceptor, 0, answer), deadline)
    return refused or Proven(theirs.node, theirs.purpose, keys)


def connect_handshake(
    wire: FrameSocket, identity: Identity, peer: str, purpose: Purpose, deadline: Deadline
) -> Proven | Refused:
    """Drive one handshake with ``peer``. The caller closes ``wire``.

    FrameError, ConnectionLost or PeerError when the peer proved nothing.
    """
    mine = identity.hello(peer, purpose)
    wire.send(pack(identity.hello_key("connector"), 0, mine), deadline)
    theirs = _take(wire, identity.hello_key("acceptor"), deadline, Hello)
    if (theirs.node, theirs.peer, theirs.run_id) != (peer, identity.node, identity.run_id):
        raise FrameError(f"{theirs.node} of run {theirs.run_id} answered in place of {peer}")
    keys = session_keys(identity.secret, mine, theirs)
    sent_s, began = time.time(), time.monotonic()
    wire.send(pack(keys.connector, 0, Proof()), deadline)
    answer = _take(wire, keys.acceptor, deadline, Welcome, Refused)
    if isinstance(answer, Refused):
        return answer
    assert isinstance(answer, Welcome)
    clock = clock_offset(sent_s, time.monotonic() - began, answer.clock_s)
    return Proven(peer, purpose, keys, clock)


def clock_offset(sent_s: float, round_trip_s: float, other_s: float) -> ClockOffset:
    """The other end's clock against ours, as it answered ``other_s`` within the round trip.

    It was read at some moment of the round trip, which began at ``sent_s`` by our clock.
    """
    half_s = round_trip_s / 2
    return ClockOffset(offset_s=round(other_s - (sent_s + half_s), 6), error_s=round(half_s, 6))


def _take(wire: FrameSocket, key: bytes, deadline: Deadline, *kinds: type[B]) -> B:
    frame = wire.receive(deadline, HELLO_LIMIT_BYTES)
    awaited = " or ".join(kind.TYPE for kind in kinds)
    if frame is None:
        raise PeerError(
            f"no {awaited} within {deadline.seconds:g} s", side="peer", step=f"await {awaited}"
        )
    body = unpack(key, 0, frame)
    if not isinstance(body, kinds):
        raise FrameError(f"{body.TYPE} came in place of {awaited}")
    return body
