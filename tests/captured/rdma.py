"""Builds the RDMA part of a machine: devices, ports, network interfaces, and what opening gave.

Layout: Linux Documentation/ABI/stable/sysfs-class-infiniband and -net. Addresses are invented:
GUIDs and MAC addresses are zero but for a number, IPv4 addresses are those for documentation.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.captured.pci import Place
from tests.captured.tree import Tree

VERBS_RECORD = "run/gdrcheck/recorded/verbs.json"
ROUTES = "proc/self/net/route"
ROUTE_TITLE = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
ZERO_GID = ":".join(["0000"] * 8)
COUNTERS = (
    "VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery "
    "local_link_integrity_errors port_rcv_constraint_errors port_rcv_data port_rcv_errors "
    "port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors "
    "port_xmit_constraint_errors port_xmit_data port_xmit_discards port_xmit_packets "
    "port_xmit_wait symbol_error unicast_rcv_packets unicast_xmit_packets"
)
MLX5_COUNTERS = (
    "duplicate_request implied_nak_seq_err local_ack_timeout_err np_cnp_sent "
    "np_ecn_marked_roce_packets out_of_buffer out_of_sequence packet_seq_err req_cqe_error "
    "resp_cqe_error rnr_nak_retry_err roce_adp_retrans roce_slow_restart rp_cnp_handled "
    "rp_cnp_ignored rx_icrc_encapsulated rx_write_requests"
)
RXE_COUNTERS = (
    "ack_deferred completer_retry_err duplicate_request link_downed out_of_seq_request "
    "rcvd_pkts rcvd_rnr_err rdma_recvs rdma_sends retry_exceeded_err send_err send_rnr_err "
    "sent_pkts"
)


@dataclass(frozen=True, slots=True)
class Gid:
    """A populated slot of a GID table. ``netdev`` None: reading it gives an error."""

    gid: str
    type: str = "IB/RoCE v1"
    netdev: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The files of one port. ``gid_slots`` is the size of the table, populated or not."""

    link_layer: str
    rate: str
    state: str = "4: ACTIVE"
    physical_state: str = "5: LinkUp"
    lid: int = 0
    sm_lid: int = 0
    pkeys: tuple[int, ...] = (0xFFFF,)
    pkey_slots: int = 1
    gids: Mapping[int, Gid] = field(default_factory=dict)
    gid_slots: int = 256
    mtu_bytes: int = 4096
    traffic_class: str | None = None
    counters: str = COUNTERS
    hw_counters: str = MLX5_COUNTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network interface. ``address``: its IPv4 address with the length of the prefix."""

    name: str
    mtu_bytes: int
    address: str | None = None
    hardware_type: int = 1
    up: bool = True


def infiniband(number: int, **changes: Any) -> Port:
    """An active NDR port whose LID is ``number``."""
    port = Port(
        link_layer="InfiniBand",
        rate="400 Gb/sec (4X NDR)",
        lid=number,
        sm_lid=1,
        pkey_slots=128,
        gids={0: Gid(f"fe80:0000:0000:0000:0000:00ff:fe00:{number:04x}")},
        gid_slots=8,
    )
    return replace(port, **changes)


def roce(number: int, interface: Interface, **changes: Any) -> Port:
    """An active 400 Gb/s RoCE port with the usual four entries of an interface with IPv4."""
    local = f"fe80:0000:0000:0000:0000:00ff:fe00:{number:04x}"
    gids = {0: local, 1: local}
    if interface.address:
        packed = ipaddress.ip_interface(interface.address).ip.packed.hex()
        gids |= dict.fromkeys((2, 3), f"0000:0000:0000:0000:0000:ffff:{packed[:4]}:{packed[4:]}")
    port = Port(
        link_layer="Ethernet",
        rate="400 Gb/sec (4X NDR)",
        gids={
            index: Gid(gid, "RoCE v2" if index % 2 else "IB/RoCE v1", interface.name)
            for index, gid in gids.items()
        },
    )
    return replace(port, **changes)


class Rdma:
    """Adds RDMA devices and network interfaces to ``tree``. ``done`` writes what they share."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._devices = 0
        self._interfaces = 0
        self._verbs: list[dict[str, object]] = []
        self._routes = [ROUTE_TITLE]

    def mlx5(
        self,
        place: Place,
        name: str,
        ports: Sequence[Port],
        interfaces: Sequence[Interface] = (),
        *,
        firmware: str = "28.43.2026",
        board: str = "MT_0000000838",
    ) -> None:
        """A device of mlx5_ib on the PCI function at ``place``."""
        files = {"fw_ver": firmware, "board_id": board, "hca_type": "MT4129", "hw_rev": "0"}
        self._device(f"{place.folder}/infiniband/{name}", files, ports)
        self._tree.link(f"{place.folder}/infiniband/{name}/device", place.folder)
        self._uverbs(f"{place.folder}/infiniband_verbs", name, place.folder)
        self._opened(name, ports)
        for interface in interfaces:
            self.interface(place.folder, interface)

    def rxe(self, name: str, interface: Interface, port: Port) -> None:
        """A device of rdma_rxe over a network interface; it has no ``device`` link."""
        # rxe tells no firmware, but the core gives every device the file.
        files = {"fw_ver": "", "parent": interface.name}
        self._device(f"sys/devices/virtual/infiniband/{name}", files, [port])
        self._uverbs("sys/devices/virtual/infiniband_verbs", name, None)
        self._opened(name, [port])

    def interface(self, device: str, interface: Interface) -> None:
        """A network interface of the device whose folder is ``device``."""
        self._interfaces += 1
        folder = f"{device}/net/{interface.name}"
        self._tree.put(
            folder,
            {
                "address": f"02:00:00:00:00:{self._interfaces:02x}",
                "carrier": int(interface.up),
                "dev_id": "0x0",
                "dev_port": 0,
                "flags": "0x1003" if interface.up else "0x1002",
                "ifindex": self._interfaces + 1,
                "mtu": interface.mtu_bytes,
                "operstate": "up" if interface.up else "down",
                "type": interface.hardware_type,
            },
        )
        self._tree.link(f"{folder}/device", device)
        self._tree.link(f"sys/class/net/{interface.name}", folder)
        self._tree.put(
            f"proc/sys/net/ipv4/conf/{interface.name}",
            {"arp_announce": 0, "arp_filter": 0, "arp_ignore": 0, "rp_filter": 2},
        )
        if interface.address and interface.up:
            self._routes.append(_route(interface.name, interface.address))

    def done(self) -> None:
        """Writes what is one for all devices."""
        self._tree.put("sys/class/infiniband_verbs", {"abi_version": 6})
        self._tree.put("dev/infiniband", {"rdma_cm": ""})
        record = json.dumps(self._verbs, indent=1)
        self._tree.put(VERBS_RECORD.rpartition("/")[0], {"verbs.json": record})
        self._tree.put("proc/self/net", {"route": "\n".join(self._routes)})
        self._tree.link("proc/net", "proc/self/net")

    def _device(self, folder: str, files: Mapping[str, str], ports: Sequence[Port]) -> None:
        name = folder.rpartition("/")[2]
        guid = f"0000:0000:0000:{self._devices:04x}"
        common = {"node_type": "1: CA", "node_guid": guid, "sys_image_guid": guid}
        self._tree.put(folder, {**common, "node_desc": f"node {name}", **files})
        self._tree.link(f"sys/class/infiniband/{name}", folder)
        for number, port in enumerate(ports, start=1):
            self._port(f"{folder}/ports/{number}", port)
            if port.traffic_class is not None:
                text = port.traffic_class
                self._tree.put(f"{folder}/tc/{number}", {"traffic_class": text})

    def _port(self, folder: str, port: Port) -> None:
        self._tree.put(
            folder,
            {
                "cap_mask": "0x2259e848",
                "lid": f"{port.lid:#x}",
                "lid_mask_count": 0,
                "link_layer": port.link_layer,
                "phys_state": port.physical_state,
                "rate": port.rate,
                "sm_lid": f"{port.sm_lid:#x}",
                "sm_sl": 0,
                "state": port.state,
            },
        )
        free = max(0, port.pkey_slots - len(port.pkeys))
        pkeys = (*port.pkeys, *[0] * free)
        table = {str(at): f"{pkey:#06x}" for at, pkey in enumerate(pkeys)}
        self._tree.put(f"{folder}/pkeys", table)
        self._gids(folder, port)
        self._tree.put(f"{folder}/counters", dict.fromkeys(port.counters.split(), 0))
        self._tree.put(f"{folder}/hw_counters", dict.fromkeys(port.hw_counters.split(), 0))
        self._tree.put(f"{folder}/hw_counters", {"lifespan": 12})

    def _gids(self, folder: str, port: Port) -> None:
        """The table. An empty slot reads zero; its type and interface read EINVAL: no files."""
        gids = dict.fromkeys(map(str, range(port.gid_slots)), ZERO_GID)
        gids |= {str(index): gid.gid for index, gid in port.gids.items()}
        self._tree.put(f"{folder}/gids", gids)
        for kind in ("types", "ndevs"):
            self._tree.folder(f"{folder}/gid_attrs/{kind}")
        for index, gid in port.gids.items():
            self._tree.put(f"{folder}/gid_attrs/types", {str(index): gid.type})
            if gid.netdev is not None:
                self._tree.put(f"{folder}/gid_attrs/ndevs", {str(index): gid.netdev})

    def _uverbs(self, folder: str, device: str, below: str | None) -> None:
        name = f"uverbs{self._devices}"
        self._devices += 1
        self._tree.put(f"{folder}/{name}", {"abi_version": 1, "ibdev": device})
        self._tree.link(f"sys/class/infiniband_verbs/{name}", f"{folder}/{name}")
        if below is not None:
            self._tree.link(f"{folder}/{name}/device", below)
        # A device file in truth; the probes look at names and modes only.
        self._tree.put("dev/infiniband", {name: ""})

    def _opened(self, name: str, ports: Sequence[Port]) -> None:
        answers = [
            {
                "number": number,
                "active_mtu_bytes": port.mtu_bytes,
                "max_mtu_bytes": 4096,
            }
            for number, port in enumerate(ports, start=1)
        ]
        self._verbs.append({"name": name, "error": None, "error_number": None, "ports": answers})


def _route(interface: str, address: str) -> str:
    """The directly connected network as a line of /proc/net/route: words in host byte order."""
    network = ipaddress.ip_interface(address).network
    destination, mask = (
        value.packed[::-1].hex().upper() for value in (network.network_address, network.netmask)
    )
    return f"{interface}\t{destination}\t00000000\t0001\t0\t0\t0\t{mask}\t0\t0\t0"
