"""One end of a reliable connection: its queue pairs, its regions, and work requests over them."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdrcheck.transfer import RegionKey, Role
from gdrcheck.verbs.compat import SGE, RecvWR, SendWR, enums
from gdrcheck.verbs.completion_queue import (
    QUEUE_DEPTH,
    SIDE_RECEIVES,
    CompletionQueue,
    open_completion_queue,
)
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.link import ONE_SIDED, Completion, Payload, Place, Target, Verb
from gdrcheck.verbs.mtu import agreed_mtu
from gdrcheck.verbs.protocol import EndpointInfo, QueuePairInfo, RemoteRegion
from gdrcheck.verbs.queue_pair import (
    Address,
    Path,
    QueuePair,
    next_completion,
    open_queue_pair,
)
from gdrcheck.verbs.regions import LocalRegion

# Shapes of an exchange are few; whoever asks for more pays for building them again.
_KEPT_REQUESTS = 4096


class Endpoint:
    """Reliable queue pairs over registered payloads. Made by ``open_endpoint``.

    As a ``link.Link`` it is the first queue pair. One completion queue serves all of them. Work
    requests of exchanges are built once per shape and reused: building one costs more than
    posting it.
    """

    def __init__(
        self,
        path: Path,
        regions: Mapping[RegionKey, LocalRegion],
        queue: CompletionQueue,
        queue_pairs: tuple[QueuePair, ...],
    ) -> None:
        self._path = path
        self._regions = dict(regions)
        self.queue = queue
        self.queue_pairs = queue_pairs
        self.remote: EndpointInfo | None = None
        self._sends: dict[tuple[Verb, Place | None, RegionKey | None, int], Any] = {}
        self._receives: dict[Place | None, Any] = {}

    # --- connecting -----------------------------------------------------------------------------

    def info(self) -> EndpointInfo:
        """What the other end needs to connect, and to address the memory of this one."""
        path = self._path
        return EndpointInfo(
            queue_pairs=tuple(
                QueuePairInfo(qpn=pair.address.qpn, psn=pair.address.psn)
                for pair in self.queue_pairs
            ),
            regions=tuple(region.told() for region in self._regions.values()),
            gid=path.gid.gid,
            gid_index=path.gid.index,
            gid_type=path.gid.type,
            lid=path.port.lid,
            link_layer=path.port.link_layer,
            mtu=path.local_mtu,
        )

    def connect(self, remote: EndpointInfo) -> int:
        """Bring the queue pairs to RTS towards those of ``remote``; the path MTU in bytes.

        VerbsError naming the transition that the device refused, or the promised path MTU that
        the other end does not offer.
        """
        local = self.info()
        if remote.link_layer != local.link_layer:
            raise VerbsError(
                f"this port is {local.link_layer}, the other end's is {remote.link_layer}",
                step="connect",
            )
        if len(remote.queue_pairs) != len(self.queue_pairs):
            raise VerbsError(
                f"this end has {len(self.queue_pairs)} queue pairs, the other one "
                f"{len(remote.queue_pairs)}",
                step="connect",
            )
        mtu = agreed_mtu(local.mtu, remote.mtu, self._path.promised_mtu)
        for pair, theirs in zip(self.queue_pairs, remote.queue_pairs, strict=True):
            pair.connect(Address(theirs.qpn, theirs.psn, remote.gid, remote.lid), mtu)
        self.remote = remote
        return mtu

    def source_id(self, role: Role) -> int:
        """A number that names the first queue pair of the source, the same on both ends; ``role``
        is this end's. VerbsError before the queue pairs are connected.
        """
        info = self.info() if role == "source" else self._connected("source_id")
        first = info.queue_pairs[0]
        text = f"{info.gid} {info.lid} {first.qpn} {first.psn}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    def local(self, key: RegionKey) -> LocalRegion:
        """A region of this end. VerbsError if there is none of that key."""
        region = self._regions.get(key)
        if region is None:
            raise VerbsError(f"this end has not registered {key.text()}", step="find a region")
        return region

    def remote_region(self, key: RegionKey) -> RemoteRegion:
        """A region of the other end. VerbsError if it told of none of that key."""
        for region in self._connected("find a region").regions:
            if region.key == key:
                return region
        raise VerbsError(f"the other end has not registered {key.text()}", step="find a region")

    # --- link.Link ------------------------------------------------------------------------------

    def payload(self, key: RegionKey) -> Payload:
        """The memory of a region of this end."""
        return self.local(key).payload

    def post_receive(self, work_id: int, place: Place | None) -> None:
        """Post a receive for a message; None is for one without data."""
        request = self._receives.get(place)
        if request is None:
            self._make_room()
            request = self._receive_request(place)
            self._receives[place] = request
        request.wr_id = work_id
        what = f"of {place.length if place else 0} B"
        self.queue_pairs[0].post_receive(request, what)

    def post(
        self, work_id: int, verb: Verb, place: Place | None, target: Target | None, immediate: int
    ) -> None:
        """Post an operation, signaled."""
        shape = (verb, place, target.key if target else None, target.offset if target else 0)
        request = self._sends.get(shape)
        if request is None:
            self._make_room()
            request = self._send_request(verb, place, target, signaled=True)
            self._sends[shape] = request
        if target is not None and verb in ("FETCH_ADD", "CMP_SWAP"):
            self._set_atomic(request, verb, target)
        request.wr_id = work_id
        request.imm_data = socket.htonl(immediate)
        what = f"{verb} of {place.length if place else 0} B"
        self.queue_pairs[0].post_send(request, what)

    def poll(self, wait_s: float = 0) -> Completion | None:
        """The next completion, None if there is none; blocks for ``wait_s`` at the most."""
        return next_completion(self.queue, wait_s)

    # --- work requests --------------------------------------------------------------------------

    def receive_request(self, key: RegionKey, start: int, length: int) -> Any:
        """A receive for a piece of a payload, for any of the queue pairs. Close it after use."""
        return self._receive_request(Place(key, start, length))

    def send_request(
        self,
        verb: Verb,
        local_key: RegionKey,
        local_start: int,
        length: int,
        remote_key: RegionKey | None = None,
        remote_start: int = 0,
        *,
        signaled: bool = True,
    ) -> Any:
        """An operation on a piece of a payload, for any of the queue pairs; one-sided verbs name
        the other end's region. Close it after use. VerbsError before the queue pairs are connected.
        """
        target = None if remote_key is None else Target(remote_key, remote_start)
        return self._send_request(
            verb, Place(local_key, local_start, length), target, signaled=signaled
        )

    def close_requests(self) -> None:
        """Free the memory of all kept work requests (pyverbs up to 64 leaks it otherwise)."""
        for request in (*self._sends.values(), *self._receives.values()):
            request.close()
        self._sends.clear()
        self._receives.clear()

    def _make_room(self) -> None:
        # What was posted is the device's already: its work request is free.
        if len(self._sends) + len(self._receives) >= _KEPT_REQUESTS:
            self.close_requests()

    def _receive_request(self, place: Place | None) -> Any:
        element = self._element(place)
        request = RecvWR(num_sge=1, sg=[element])
        element.close()
        if place is None:
            request.num_sge = 0
        return request

    def _send_request(
        self, verb: Verb, place: Place | None, target: Target | None, *, signaled: bool
    ) -> Any:
        flags = enums.ibv_send_flags.IBV_SEND_SIGNALED if signaled else 0
        element = self._element(place)
        request = SendWR(opcode=_opcode(verb), num_sge=1, sg=[element], send_flags=flags)
        element.close()
        if place is None:
            request.num_sge = 0
        if verb not in ONE_SIDED:
            return request
        if target is None:
            raise VerbsError(f"{verb} without a place at the other end", step=verb)
        if verb in ("FETCH_ADD", "CMP_SWAP"):
            self._set_atomic(request, verb, target)
        else:
            region = self.remote_region(target.key)
            request.set_wr_rdma(region.rkey, region.address + target.offset)
        return request

    def _set_atomic(self, request: Any, verb: Verb, target: Target) -> None:
        region = self.remote_region(target.key)
        first = target.operand if verb == "FETCH_ADD" else target.compare
        swap = 0 if verb == "FETCH_ADD" else target.operand
        request.set_wr_atomic(region.rkey, region.address + target.offset, first, swap)

    def _element(self, place: Place | None) -> Any:
        if place is None:
            return SGE(0, 0, 0)
        region = self.local(place.key)
        return SGE(region.address(place.offset, place.length), place.length, region.lkey)

    def _connected(self, step: str) -> EndpointInfo:
        if self.remote is None:
            raise VerbsError(f"{step}: the queue pairs are not connected", step=step)
        return self.remote


def _opcode(verb: Verb) -> Any:
    codes = enums.ibv_wr_opcode
    return {
        "CREDIT": codes.IBV_WR_SEND_WITH_IMM,
        "SEND": codes.IBV_WR_SEND,
        "SEND_WITH_IMM": codes.IBV_WR_SEND_WITH_IMM,
        "WRITE": codes.IBV_WR_RDMA_WRITE,
        "WRITE_WITH_IMM": codes.IBV_WR_RDMA_WRITE_WITH_IMM,
        "READ": codes.IBV_WR_RDMA_READ,
        "FETCH_ADD": codes.IBV_WR_ATOMIC_FETCH_AND_ADD,
        "CMP_SWAP": codes.IBV_WR_ATOMIC_CMP_AND_SWP,
    }[verb]


@contextmanager
def open_endpoint(
    device: Device,
    path: Path,
    regions: Mapping[RegionKey, LocalRegion],
    queue_pairs: int,
    *,
    atomics: bool = False,
) -> Iterator[Endpoint]:
    """Queue pairs in state INIT on one completion queue, nothing posted yet.

    Destroyed at the end of the block, before the regions, which are the caller's.
    """
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(open_completion_queue(device, queue_pairs))
        pairs = tuple(
            stack.enter_context(
                open_queue_pair(
                    device,
                    path,
                    queue,
                    QUEUE_DEPTH,
                    receive_depth=SIDE_RECEIVES if number else QUEUE_DEPTH,
                    atomics=atomics,
                )
            )
            for number in range(queue_pairs)
        )
        endpoint = Endpoint(path, regions, queue, pairs)
        stack.callback(endpoint.close_requests)
        yield endpoint
