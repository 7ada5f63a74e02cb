"""Codes about how RDMA ports are set up: firmware, partition, MTU, traffic class, ARP."""

from __future__ import annotations

from gdrcheck.findings.model import Entry, Severity

ENTRIES = (
    Entry(
        code="PORT-FIRMWARE",
        title="A NIC runs another firmware than promised",
        meaning=(
            "The firmware of a NIC that serves a rail is not the version that the profile names. "
            "Known faults of GPUDirect RDMA are bound to firmware versions."
        ),
        evidence="/sys/class/infiniband/DEVICE/fw_ver, and the board (board_id).",
        causes=(
            "The NIC was replaced, or missed the last update.",
            "The new firmware was burned, but the NIC was not reset since.",
            "The profile names an old version.",
        ),
        repair=(
            "Read what runs and what was burned: `mlxfwmanager --query`, or `flint -d SLOT query`.",
            "Burn the promised version: `mlxfwmanager -d SLOT -u -i IMAGE`; the image must be for "
            "the card's board id (PSID).",
            "Drain the node and make it run: `mlxfwreset -d SLOT reset`, or restart the node.",
            "Or correct expect.firmware in the profile.",
        ),
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband, NVIDIA MFT manual",
    ),
    Entry(
        code="PORT-PKEY-MISSING",
        title="A port is not a member of the promised partition",
        meaning=(
            "The partition key of the profile is not in the port's table, neither as full nor as "
            "limited member: no queue pair can be set up in that partition. Of a key with the bit "
            "of full members (0x8000) the limited one does not do: two limited members cannot "
            "talk to one another."
        ),
        evidence="The entries of /sys/class/infiniband/DEVICE/ports/PORT/pkeys that are not zero.",
        causes=(
            "The subnet manager's partition configuration does not list this port's GUID, or "
            "lists it without `=full`.",
            "The NIC was replaced, so that its GUID is a new one.",
            "A virtual function was given no index of the partition.",
            "Ethernet: RoCE knows the default partition 0xffff only; partitions are VLANs there.",
        ),
        repair=(
            "Read: `grep . /sys/class/infiniband/DEVICE/ports/PORT/pkeys/* | grep -v 0x0000`.",
            "Add the port's GUID (`ibstat DEVICE PORT`) to the partition, in partitions.conf of "
            "opensm or in the fabric manager, and have it read again.",
            "Or correct pkey in the profile.",
        ),
        source="InfiniBand Architecture Specification vol. 1, 10.9; opensm(8), PARTITION "
        "CONFIGURATION",
    ),
    Entry(
        code="PORT-MTU-LOW",
        title="A port's active MTU is below the promised one",
        meaning=(
            "Connections cannot have the path MTU that the profile asks for. Packets are smaller, "
            "or, where an end insists, large messages fail."
        ),
        evidence="Active and largest MTU as ibv_query_port says, and the MTU of the interface.",
        causes=(
            "Ethernet: the interface's MTU is too small. RDMA takes the largest of 256, 512, 1024, "
            "2048 and 4096 bytes that fits with its headers.",
            "InfiniBand: the port at the other end of the cable, or the subnet manager, allows "
            "less.",
            "A virtual function: its parent's MTU limits it.",
            "The profile asks for more than the device can.",
        ),
        repair=(
            "Read what is in force: `ibv_devinfo -d DEVICE | grep mtu`; `ip link show IFACE`.",
            "Ethernet: `ip link set IFACE mtu 9000` (4200 at least for 4096), permanently, and the "
            "same on every switch port on the way.",
            "InfiniBand: find the switch port with `iblinkinfo -C DEVICE -P PORT -D 0,PORT`, and "
            "read its MTU: `smpquery -C DEVICE -P PORT -D portinfo 0,PORT SWITCHPORT`.",
            "Or correct expect.mtu_bytes or path_mtu in the profile.",
        ),
        source="ibv_query_port(3), smpquery(8), Linux include/rdma/ib_addr.h (iboe_get_mtu)",
    ),
    Entry(
        code="PORT-TRAFFIC-CLASS",
        title="The driver forces another traffic class than the profile asks for",
        meaning=(
            "All RoCE packets of this device carry the traffic class that was written to its "
            "override, whatever the application asks. They may land in a queue of the switch that "
            "drops packets under load."
        ),
        evidence="/sys/class/infiniband/DEVICE/tc/PORT/traffic_class (Global tclass).",
        causes=(
            "A start script of this node writes an old or a wrong value.",
            "The profile's traffic_class was changed and the nodes were not.",
        ),
        repair=(
            "Read it: `cat /sys/class/infiniband/DEVICE/tc/PORT/traffic_class`.",
            "Write the promised one: "
            "`echo CLASS > /sys/class/infiniband/DEVICE/tc/PORT/traffic_class`.",
            "Or have none: `echo tclass=-1 > /sys/class/infiniband/DEVICE/tc/PORT/traffic_class`.",
            "Correct the script that sets it at boot.",
            "Compare trust and priorities: `mlnx_qos -i IFACE`.",
            "Or correct traffic_class in the profile.",
        ),
        source="NVIDIA MLNX_OFED manual, Quality of Service, RoCE",
    ),
    Entry(
        code="PORT-ARP-FLUX",
        title="RoCE rails in one IPv4 network answer ARP for one another",
        meaning=(
            "With Linux's defaults any interface answers for every address of the node. Peers then "
            "learn the MAC address of the wrong NIC, and packets of one rail arrive at another: "
            "connections time out now and then, or take a path that was not meant."
        ),
        evidence="The connected IPv4 networks of the rails' interfaces; arp_ignore, arp_announce "
        "and arp_filter of all and of each interface.",
        causes=(
            "All rails were put into one network, and the ARP settings were left at 0.",
            "The settings were made on the fly, and are gone since the last start.",
        ),
        repair=(
            "Give each rail a network of its own.",
            "Or keep them apart, for each interface: `sysctl -w net.ipv4.conf.IFACE.arp_ignore=1 "
            "net.ipv4.conf.IFACE.arp_announce=2`, permanently in /etc/sysctl.d.",
            "With that, route by source address (`ip rule add from ADDRESS table NUMBER`, and the "
            "network in that table), or answers leave by the first interface.",
            "Forget what peers have learned, on the peers: `ip neigh flush dev IFACE`.",
        ),
        severity=Severity.WARN,
        source="Linux Documentation/networking/ip-sysctl.rst (arp_filter, arp_announce, "
        "arp_ignore)",
    ),
)
