"""Codes about RDMA devices, their ports and their GIDs, on one node."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="PORT-DEVICE-MISSING",
        title="An RDMA device that the profile promises is not there",
        meaning=(
            "Fewer RDMA devices match the profile's selectors than it promises rails. Everything "
            "that needs the missing device is blocked by this finding."
        ),
        evidence="The devices in /sys/class/infiniband with slot and netdev, and the selectors.",
        causes=(
            "The driver of the NIC is not loaded, or failed to start the device.",
            "The profile's selector names a device that is called otherwise on this node.",
            "The RDMA subsystem is in exclusive network namespace mode, so the container sees "
            "only devices that were moved into it.",
            "The card is dead, unplugged, or switched off in the firmware.",
            "A software device (rxe, siw) was removed with `rdma link delete`, or not added at "
            "boot.",
        ),
        repair=(
            "List what there is: `rdma link show`; `lspci -nn | grep -i -E 'infiniband|ethernet'`.",
            "Read the driver's messages: `dmesg | grep -i -E 'mlx5|irdma|bnxt_re|rxe'`.",
            "Load the driver (for example `modprobe mlx5_ib`), or add the software device again: "
            "`rdma link add NAME type rxe netdev IFACE`.",
            "If the device only has another name, correct rails.nics in the profile.",
            "Check `rdma system show`; in exclusive mode move the device into the container, or "
            "switch to shared while no container runs: `rdma system set netns shared`.",
            "If `lspci` does not list the card, power the node off and on, then reseat it.",
        ),
        source="rdma-link(8), rdma-system(8), Linux Documentation/ABI/stable/"
        "sysfs-class-infiniband",
    ),
    Entry(
        code="PORT-DEVICE-EXTRA",
        title="More RDMA devices match the profile than it promises rails",
        meaning=(
            "The profile's selectors match more devices than there are rails, so nothing tells "
            "which of them serve the rails. None was taken, and no rail was measured."
        ),
        evidence="The devices that match, and the number of rails.",
        causes=(
            "The selector is too wide: it also matches ports for storage or management.",
            "A virtual function or a software device (rxe, siw) was added.",
            "rails.count is too small.",
        ),
        repair=(
            "List the devices: `rdma link show`; `ls -l /sys/class/infiniband`.",
            "Narrow rails.nics in the profile, for example by slot, or correct rails.count.",
            "Remove a device that should not be there.",
        ),
        source="rdma-link(8), gdrcheck's own rule: NICs are selected, never all of them",
    ),
    Entry(
        code="PORT-OPEN-FAILED",
        title="A verbs device does not open",
        meaning=(
            "The kernel lists the device, but user space cannot get a verbs context for it: no "
            "RDMA is possible from this container, whatever the state of the port."
        ),
        evidence="The errno of opening the device, and its /dev/infiniband/uverbsN with its mode.",
        causes=(
            "The character device is not in the container: sysfs shows every device of the host, "
            "also those that were not passed in.",
            "The image has no user-space provider for this device, or one older than the kernel's "
            "interface.",
            "SELinux or AppArmor denies access (EACCES).",
            "The device cgroup does not allow it (EPERM).",
            "The device is being reset, or its firmware has stopped.",
        ),
        repair=(
            "Compare `ls -l /dev/infiniband` inside and outside the container.",
            "Pass the devices in: `--device /dev/infiniband`, or the cluster's device plugin.",
            "Compare `ibv_devices` with `ls /sys/class/infiniband`; if only the latter lists the "
            "device, use an image with a newer rdma-core.",
            "Look for denials: `ausearch -m avc -ts recent`, or `dmesg | grep -i apparmor`.",
            "Look for a reset of the NIC: `dmesg -T | grep -i -E 'mlx5|health|fatal'`.",
        ),
        source="ibv_open_device(3), ibv_get_device_list(3), Linux drivers/infiniband/core/"
        "uverbs_main.c",
    ),
    Entry(
        code="PORT-NOT-ACTIVE",
        title="A port is not active",
        meaning="The port's logical state is not ACTIVE, so no queue pair can send through it.",
        evidence="State, physical state, LID and subnet manager's LID of the port from sysfs.",
        causes=(
            "No link: cable or transceiver missing, broken or of the wrong kind; far end down.",
            "Ethernet: the network interface below the device is administratively down.",
            "InfiniBand, state ARMED, or INIT for a moment only: the subnet manager is at work.",
            "The switch port is disabled or in an error state.",
        ),
        repair=(
            "Read both states: `rdma link show DEVICE/PORT`, or `ibstat DEVICE PORT`.",
            "Ethernet: `ip link set IFACE up`, and make it permanent.",
            "Physical state not LinkUp: check cable, transceiver and switch port; `mlxlink -d "
            "DEVICE -m` tells why there is no link.",
            "InfiniBand in INIT or ARMED: ask the subnet manager with `sminfo -C DEVICE -P PORT`, "
            "and read its log.",
        ),
        source="ibv_query_port(3), opensm(8), InfiniBand Architecture Specification vol. 1, ch. 7",
    ),
    Entry(
        code="PORT-NO-SUBNET-MANAGER",
        title="No subnet manager has configured an InfiniBand port",
        meaning=(
            "The cable is right and the link is up, but the port waits in state INIT: nobody has "
            "given it a LID, so nothing can be sent."
        ),
        evidence=(
            "State INIT, physical state LinkUp and sm_lid 0 in /sys/class/infiniband/DEVICE/ports/"
            "PORT."
        ),
        causes=(
            "No subnet manager runs in this fabric: opensm is stopped, or that of the switch is "
            "off.",
            "The subnet manager has lost its own way into the fabric, or serves another one.",
            "The subnet manager refuses the port: a list of allowed GUIDs, or a management key "
            "(M_Key) that another one has set.",
        ),
        repair=(
            "From an active port of the same fabric: `sminfo -C DEVICE -P PORT`.",
            "If none answers, see on its host: `systemctl status opensm` (opensmd with MLNX_OFED).",
            "Start one: `systemctl start opensm`, or switch on the one of a managed switch.",
            "If one answers, look for this port's GUID (`ibstat DEVICE PORT`) in its log.",
            "If all ports of a leaf wait, check the links from that leaf to the spine.",
        ),
        source="opensm(8), sminfo(8), InfiniBand Architecture Specification vol. 1, ch. 14",
    ),
    Entry(
        code="PORT-LANES",
        title="A port has lost lanes",
        meaning=(
            "The port runs with fewer lanes than the four of a full port, and is slower than "
            "promised for that reason: at the same speed with all lanes it would reach the rate."
        ),
        evidence=(
            "Rate, lanes and speed of the port, as in /sys/class/infiniband/DEVICE/ports/PORT/rate."
        ),
        causes=(
            "A lane of cable or transceiver is broken, or dirty: the link trained down.",
            "A splitter cable, or a switch port that is configured as split.",
            "The connector is not fully seated.",
            "Ethernet: a lower rate is configured on the switch, which takes fewer lanes.",
        ),
        repair=(
            "Read what came up: `mlxlink -d DEVICE`, or `ibportstate -C DEVICE -P PORT -D 0 PORT`.",
            "Unplug, clean and plug in both ends; a flap of the link trains it again.",
            "Swap cable or transceiver with a good neighbour and see whether the fault moves.",
            "Check the split and the speed that are configured on the switch port.",
            "If the narrow port is wanted, correct rails.port_rate_gbps in the profile.",
        ),
        source="ibportstate(8), Linux drivers/infiniband/core/sysfs.c (rate_show)",
    ),
    Entry(
        code="PORT-RATE-LOW",
        title="A port runs below the promised rate",
        meaning=(
            "The port came up with fewer lanes or a lower speed than the profile promises. "
            "Transfers are right, but cannot reach the bandwidth that was bought."
        ),
        evidence="The rate of the port as in /sys/class/infiniband/DEVICE/ports/PORT/rate.",
        causes=(
            "Cable or transceiver is made for a lower rate, or is marginal, so that the link "
            "trained down.",
            "The switch port is configured, or split, to a lower rate.",
            "The NIC is a slower model than the profile says.",
            "The firmware limits the port.",
        ),
        repair=(
            "Read what came up: `ethtool IFACE`, or `ibportstate -C DEVICE -P PORT -D 0 PORT`.",
            "Read what cable and transceiver can do: `mlxlink -d DEVICE -m`.",
            "Check speed, split and forward error correction of the switch port, the last against "
            "`ethtool --show-fec IFACE`.",
            "Swap cable or transceiver with a good neighbour and see whether the fault moves.",
            "Correct rails.port_rate_gbps if the profile is wrong.",
        ),
        source="ibportstate(8), ethtool(8), Linux Documentation/ABI/stable/sysfs-class-infiniband",
    ),
    Entry(
        code="PORT-LINK-LAYER",
        title="A port has another link layer than promised",
        meaning=(
            "The profile promises InfiniBand and the port speaks Ethernet, or the other way round. "
            "Addressing and switches would be of the wrong kind."
        ),
        evidence="/sys/class/infiniband/DEVICE/ports/PORT/link_layer.",
        causes=(
            "The port type in the firmware of a multi-protocol NIC is not the wanted one.",
            "The selector in the profile matches a NIC that is meant for something else, for "
            "example for storage.",
            "The profile belongs to another group of nodes.",
        ),
        repair=(
            "Read the port type: `mlxconfig -d SLOT query LINK_TYPE_P1` (P2 for a second port).",
            "Change it (1 is InfiniBand, 2 Ethernet): `mlxconfig -d SLOT set LINK_TYPE_P1=1`, and "
            "restart the node.",
            "Or correct rails.nics or rails.link_layer in the profile.",
        ),
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband, mlxconfig's manual",
    ),
    Entry(
        code="PORT-GID-NONE",
        title="A port has no usable GID",
        meaning=(
            "No entry of the port's GID table fits the profile: right type and address family, not "
            "zero, not link-local, and on a network interface of this network namespace."
        ),
        evidence="All populated entries of the GID table with index, type and network interface.",
        causes=(
            "The network interface has no IP address, so that only the link-local entry exists.",
            "The profile asks for an address family or a RoCE version that is not configured.",
            "The entries belong to interfaces of another network namespace: the container does "
            "not use the host's network.",
            "InfiniBand: the subnet manager has not configured the port yet.",
        ),
        repair=(
            "List the entries with their types: `ibv_devinfo -v -d DEVICE | grep GID`.",
            "See whose they are: `grep -r . "
            "/sys/class/infiniband/DEVICE/ports/PORT/gid_attrs/ndevs` (an empty entry answers "
            "Invalid argument, which is normal).",
            "See whether the interface has an address: `ip address show IFACE`; give it one, and "
            "make it permanent.",
            "Start the container with `--network host`, or move the interface into it.",
            "Correct gid.family and gid.type in the profile.",
        ),
        source="ibv_query_gid_ex(3), ibv_devinfo(1), Linux drivers/infiniband/core/roce_gid_mgmt.c",
    ),
)
