"""An open RDMA device, and what its ports say."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from gdrcheck.facts import GidEntry
from gdrcheck.profile import Gid
from gdrcheck.verbs import gid
from gdrcheck.verbs.compat import PD, Context, PyverbsError, get_device_list, owned, verbs_step
from gdrcheck.verbs.errors import VerbsError

LinkLayer = Literal["infiniband", "ethernet"]

# 32 bytes each, in an attribute whose length the kernel counts in 16 bits: more is EINVAL.
_GID_TABLE_ENTRIES = 2047
# enum ibv_port_state and enum ibv_port_phys_state of libibverbs/verbs.h and the IB specification.
_STATES = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
_PHYSICAL_STATES = {
    1: "Sleep", 2: "Polling", 3: "Disabled", 4: "PortConfigurationTraining",
    5: "LinkUp", 6: "LinkErrorRecovery", 7: "Phy Test",
}  # fmt: skip
_GID_TYPES = {0: "IB", 1: "RoCE v1", 2: "RoCE v2"}


@dataclass(frozen=True, slots=True)
class PortInfo:
    """What ``ibv_query_port`` says. ``active_mtu`` is in bytes."""

    number: int
    state: str
    physical_state: str
    link_layer: LinkLayer
    lid: int
    sm_lid: int
    active_mtu: int


def device_names() -> tuple[str, ...]:
    """The RDMA devices that libibverbs finds; empty when there are none."""
    with verbs_step("list the RDMA devices"):
        try:
            return tuple(device.name.decode() for device in get_device_list())
        except PyverbsError as problem:
            # Without RDMA in the kernel pyverbs raises, without an errno.
            if getattr(problem, "error_code", -1) == -1:
                return ()
            raise


class Device:
    """An open device with a protection domain. Made and closed by ``open_device``."""

    def __init__(self, name: str, context: Any, pd: Any) -> None:
        self.name = name
        self.context = context
        self.pd = pd

    @property
    def guid(self) -> str:
        """The node GUID as ``0011:2233:4455:6677``."""
        with verbs_step(f"query device {self.name}"):
            # pyverbs gives the big-endian number as it lies in memory.
            raw = int(self.context.query_device().node_guid).to_bytes(8, "little").hex()
        return ":".join(raw[at : at + 4] for at in range(0, 16, 4))

    def port(self, number: int) -> PortInfo:
        """The state of a port. VerbsError if the device has no such port."""
        with verbs_step(f"query port {number} of {self.name}"):
            attributes = self.context.query_port(number)
        infiniband = int(attributes.link_layer) == 1
        return PortInfo(
            number=number,
            state=_STATES.get(int(attributes.state), f"state {attributes.state}"),
            physical_state=_PHYSICAL_STATES.get(
                int(attributes.phys_state), f"state {attributes.phys_state}"
            ),
            link_layer="infiniband" if infiniband else "ethernet",
            lid=int(attributes.lid),
            sm_lid=int(attributes.sm_lid),
            active_mtu=128 << int(attributes.active_mtu),
        )

    def gids(self, port: int) -> tuple[GidEntry, ...]:
        """The populated entries of a port's GID table, by index."""
        with verbs_step(f"read the GID table of {self.name}"):
            table = self.context.query_gid_table(_GID_TABLE_ENTRIES)
        entries = [
            GidEntry(
                index=int(entry.gid_index),
                gid=gid.normal(entry.gid_str()),
                type=_GID_TYPES.get(int(entry.gid_type), f"type {entry.gid_type}"),
                netdev=_netdev(int(entry.ndev_ifindex)),
            )
            for entry in table
            if int(entry.port_num) == port
        ]
        return tuple(sorted(entries, key=lambda entry: entry.index))

    def choose_gid(self, port: PortInfo, wanted: Gid, index: int | None = None) -> gid.GidChoice:
        """The GID to use on a port, with ``index`` that entry; ``gid.NoUsableGid`` if none is."""
        if index is not None:
            return gid.forced(self.gids(port.number), index, link_layer=port.link_layer)
        return gid.choose(
            self.gids(port.number),
            link_layer=port.link_layer,
            wanted=wanted,
            local_netdevs={name for _, name in socket.if_nameindex()},
        )

    def pkey_index(self, port: int, pkey: int | None) -> int:
        """Where the partition key is in the port's table; index 0 when none is asked for."""
        if pkey is None:
            return 0
        step = f"find partition key {pkey:#06x} in the table of {self.name} port {port}"
        with verbs_step(step):
            count = int(self.context.query_port(port).pkey_tbl_len)
            for index in range(count):
                # pyverbs gives network byte order; bit 15 is full against limited membership.
                if (socket.ntohs(int(self.context.query_pkey(port, index))) ^ pkey) & 0x7FFF == 0:
                    return index
        raise VerbsError(f"{step}: it is in none of the {count} entries", step=step)


def _netdev(ifindex: int) -> str:
    """The name of a network device; "ifindex N" if it is none of this namespace's."""
    if ifindex == 0:
        return ""
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return f"ifindex {ifindex}"


@contextmanager
def open_device(name: str) -> Iterator[Device]:
    """The device called ``name`` with a protection domain; closed at the end of the block.

    VerbsError if it does not exist (the message lists those that do) or cannot be opened.
    """
    # libmlx5 copies small messages out of the completion entry with the CPU unless told not to,
    # which would hide what the NIC wrote (mlx5dv_create_qp.3). Read when the device is opened.
    os.environ["MLX5_SCATTER_TO_CQE"] = "0"
    step = f"open RDMA device {name}"
    names = device_names()
    if name not in names:
        found = f"there are {', '.join(names)}" if names else "this machine has none"
        raise VerbsError(f"{step}: no such device; {found}", step=step)
    with contextlib.ExitStack() as stack:
        with verbs_step(step):
            context = stack.enter_context(owned(Context(name=name), f"close {name}"))
        with verbs_step(f"allocate a protection domain on {name}"):
            pd = stack.enter_context(owned(PD(context), f"ibv_dealloc_pd on {name}"))
        yield Device(name, context, pd)
