"""pyverbs.cmid without a NIC: rdma_cm between identifiers of this process, beside ``fake_pyverbs``.

As the real one, it knows no deadline, and an event must be acknowledged. ``net`` is the network.
"""

from __future__ import annotations

import errno
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.verbs import fake_pyverbs
from tests.verbs.fake_nic import Closable, PyverbsRDMAError
from tests.verbs.fake_pyverbs import PD, Context
from tests.verbs.fake_queue_pair import QP

EVENTS = {
    0: "ADDR_RESOLVED", 2: "ROUTE_RESOLVED", 4: "CONNECT_REQUEST", 5: "CONNECT_RESPONSE",
    7: "UNREACHABLE", 8: "REJECTED", 9: "ESTABLISHED",
}  # fmt: skip
TCP = 0x0106
# No test waits longer for an event than it takes to see that none comes.
PATIENCE_S = 20


# Address and port.
Place = tuple[str | None, str | None]


@dataclass
class Net:
    """Whose address is on which device, and who listens where."""

    devices: dict[str, str] = field(default_factory=lambda: {"192.0.2.1": "sim0"})
    listeners: dict[Place, Any] = field(default_factory=dict)
    # So many binds find their port taken.
    taken: int = 0
    bound: list[str] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)


net = Net()


class AddrInfo:
    def __init__(
        self,
        src: str | None = None,
        dst: str | None = None,
        src_service: str | None = None,
        dst_service: str | None = None,
        port_space: int = 0,
        flags: int = 0,
    ) -> None:
        assert port_space == TCP
        assert flags & 2, "nothing may be looked up"
        self.src, self.dst = (src, src_service), (dst, dst_service)

    def close(self) -> None:
        pass


class ConnParam:
    def __init__(self, retry: int, rnr_retry: int, qp_num: int, data_len: int = 0) -> None:
        self.retries = (retry, rnr_retry)
        self.qp_num, self.data_len = qp_num, data_len
        self.data = b""
        net.parameters.append(self)

    def set_private_data(self, data: bytes) -> None:
        self.data = data[: self.data_len]


class CMEventChannel(Closable):
    what = "event channel"

    def __init__(self) -> None:
        super().__init__()
        self.events: queue.Queue[tuple[int, bytes, Any]] = queue.Queue()


class CMEvent(Closable):
    what = "event"

    def __init__(self, channel: CMEventChannel) -> None:
        self.event_type, self.private_data, self.caller = channel.events.get(timeout=PATIENCE_S)
        super().__init__()

    def event_str(self) -> str:
        return f"RDMA_CM_EVENT_{EVENTS[self.event_type]}"


class CMID(Closable):
    what = "identifier"

    def __init__(self, creator: Any, port_space: int = TCP, listen_id: CMID | None = None) -> None:
        super().__init__()
        assert port_space == TCP
        self.other: CMID | None = None
        self.qp_num = 0
        self.place: Place = (None, None)
        self.target: Place = (None, None)
        self.channel: CMEventChannel
        self.context: Any = None
        self.pd: Any = None
        if isinstance(creator, CMEvent):
            assert listen_id is not None
            self.channel = listen_id.channel
            self.other, creator.caller.other = creator.caller, self
            return
        self.channel = creator

    def bind_addr(self, info: AddrInfo) -> None:
        if info.src[0] not in net.devices:
            raise PyverbsRDMAError("Failed to Bind ID", errno.ENODEV)
        net.bound.append(str(info.src[1]))
        if net.taken:
            net.taken -= 1
            raise PyverbsRDMAError("Failed to Bind ID", errno.EADDRINUSE)
        self.place = info.src
        # They are the identifier's, and go with it.
        self.context = Context(net.devices[str(info.src[0])])
        self.pd = PD(self.context)

    @property
    def dev_name(self) -> str:
        return str(self.context.name)

    @property
    def port_num(self) -> int:
        return 1

    def listen(self, _backlog: int) -> None:
        net.listeners[self.place] = self

    def resolve_addr(self, info: AddrInfo, _timeout_ms: int) -> None:
        self.target = info.dst
        self._happens(0)

    def resolve_route(self, _timeout_ms: int) -> None:
        self._happens(2)

    def connect(self, parameters: ConnParam) -> None:
        listener = net.listeners.get(self.target)
        if listener is None:
            self._happens(8)
            return
        self.qp_num = parameters.qp_num
        # As in a REQ of the CM, the private data is longer than what was given.
        data = parameters.data.ljust(56, b"\0")
        listener.channel.events.put((4, data, self))

    def accept(self, parameters: ConnParam) -> None:
        assert self.other is not None
        self.qp_num = parameters.qp_num
        self.other._happens(5)

    def reject(self) -> None:
        assert self.other is not None
        self.other._happens(8)

    def establish(self) -> None:
        assert self.other is not None
        self.other._happens(9)

    def init_qp_attr(self, state: int) -> tuple[SimpleNamespace, int]:
        peer = self.other.qp_num if self.other else 0
        return SimpleNamespace(qp_state=state, dest_qp_num=peer, qp_access_flags=7), 1

    def close(self) -> None:
        super().close()
        if net.listeners.get(self.place) is self:
            del net.listeners[self.place]
        for owned in (self.pd, self.context):
            if owned is not None:
                owned.close()

    def _happens(self, event: int) -> None:
        self.channel.events.put((event, b"", self))


def _modify(pair: Any, attributes: SimpleNamespace, _mask: int) -> None:
    steps = {1: pair.to_init, 2: pair.to_rtr, 3: pair.to_rts}
    steps[attributes.qp_state](attributes)


@contextmanager
def installed() -> Iterator[Net]:
    """``fake_pyverbs`` with this module in it; the network is new."""
    with fake_pyverbs.installed():
        net.__init__()  # type: ignore[misc]
        module = ModuleType("pyverbs.cmid")
        for member in (CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam):
            setattr(module, member.__name__, member)
        sys.modules["pyverbs.cmid"] = module
        QP.modify = _modify  # type: ignore[attr-defined]
        try:
            yield net
        finally:
            del QP.modify  # type: ignore[attr-defined]
