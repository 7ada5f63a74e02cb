"""Facts about RDMA devices and their ports."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, Field

from gdrcheck.facts.base import FactsModel, LinkLayer, Slot, Unreadable
from gdrcheck.facts.cabling import Neighbour


def _is_subnet(text: str) -> str:
    IPv4Network(text)
    return text


Subnet = Annotated[str, AfterValidator(_is_subnet)]


class GidEntry(FactsModel):
    """One populated slot of a port's GID table. ``netdev`` is empty when the kernel names none."""

    index: int
    gid: str
    type: str
    netdev: str


class Netdev(FactsModel):
    """A network interface of an RDMA device.

    ``up``: administratively, and with a carrier where the driver tells. ``subnets`` are the IPv4
    networks that are directly connected to it, as ``10.0.0.0/24``, by the main routing table.
    ``neighbour`` None: nobody asked for it.
    """

    name: str
    mtu_bytes: int | Unreadable
    up: bool | Unreadable
    subnets: tuple[Subnet, ...] | Unreadable
    neighbour: Neighbour | Unreadable | None = None


class Port(FactsModel):
    """One port of an RDMA device, as sysfs shows it. ``rate_gbps`` is in Gb/s (bits).

    ``lanes`` and ``speed`` are of ``4X NDR``. ``pkeys`` are the entries of the partition key table
    that are not zero; empty for a port that has no such table (iWARP). ``traffic_class`` is the
    device-wide override of mlx5, None when none is set or the driver has no such file. ``counters``
    holds those of ``counters/`` and ``hw_counters/``; a name in both keeps the former's value.
    ``unreadable_counters``: those that are there and could not be read, each with the reason.
    """

    number: int
    state: str | Unreadable
    physical_state: str | Unreadable
    rate_gbps: float | Unreadable
    lanes: int | Unreadable
    speed: str | Unreadable
    link_layer: LinkLayer | Unreadable
    lid: int | Unreadable
    sm_lid: int | Unreadable
    pkeys: tuple[int, ...] | Unreadable
    gids: tuple[GidEntry, ...] | Unreadable
    traffic_class: int | Unreadable | None
    counters: dict[str, int] | Unreadable
    unreadable_counters: dict[str, str] = Field(default_factory=dict)


class VerbsPort(FactsModel):
    """What ``ibv_query_port`` answers: MTUs in bytes."""

    number: int
    active_mtu_bytes: int
    max_mtu_bytes: int


class VerbsDevice(FactsModel):
    """What opening the device by libibverbs gave: its ports, or the error.

    ``error_number`` is the errno; None when there is none, as for a device that does not answer.
    """

    name: str
    error: str | None
    error_number: int | None
    ports: tuple[VerbsPort, ...]


class RdmaDevice(FactsModel):
    """One RDMA device. ``slot`` is the PCI function, None for a device with none below it.

    ``netdevs`` are those of the device itself, and the bond above them, if its GIDs name one.
    ``firmware`` and ``board`` are what the driver says (``fw_ver``, ``board_id``), None when it
    says none. ``verbs`` is what libibverbs made of it.
    """

    name: str
    driver: str | Unreadable
    slot: Slot | None
    netdevs: tuple[Netdev, ...]
    uverbs: str | Unreadable
    software: bool
    firmware: str | Unreadable | None
    board: str | Unreadable | None
    ports: tuple[Port, ...]
    verbs: VerbsDevice | Unreadable

    @property
    def netdev_names(self) -> tuple[str, ...]:
        """The names of the device's network interfaces."""
        return tuple(netdev.name for netdev in self.netdevs)

    def port(self, number: int) -> Port | None:
        """The port with this number, None when sysfs shows none."""
        return next((port for port in self.ports if port.number == number), None)


class DeviceCounters(FactsModel):
    """The counters of one port at one moment; the fields are those of ``Port``."""

    device: str
    port: int
    counters: dict[str, int] | Unreadable
    unreadable_counters: dict[str, str] = Field(default_factory=dict)


class CountersAfter(FactsModel):
    """The counters of all ports after the transfers. ``counters.json`` of a node."""

    node: str
    ports: tuple[DeviceCounters, ...] | Unreadable
