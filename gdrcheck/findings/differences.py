"""Codes about what differs between nodes."""

from __future__ import annotations

from gdrcheck.findings.model import Entry, Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="PORT-MTU-DIFFERS",
        title="The active MTU of a rail differs between nodes",
        meaning=(
            "The ports of one rail have different active MTUs. Transfers work with the smaller "
            "one, so nothing fails, but every pair with this node is slower than it could be; with "
            "software that takes the MTU of its own port, large messages hang."
        ),
        evidence=(
            "The active MTU that libibverbs tells for the rail's port on each node of a profile; "
            "if it does not tell on all of them, the MTU of the network interface."
        ),
        causes=(
            "Ethernet: the interface of one node has another MTU (1500 in place of 9000, say).",
            "The MTU was set by hand and lost at a restart.",
            "InfiniBand: the switch port at the other end of the cable is set to, or can do, a "
            "smaller MTU; the subnet manager gives both ends the smaller one.",
        ),
        repair=(
            "Read it on both nodes: `ibv_devinfo -d DEVICE | grep active_mtu`; "
            "`ip link show IFACE`.",
            "Ethernet: `ip link set IFACE mtu 9000`, and the same in the node's network "
            "configuration.",
            "Check that the switch ports on the way carry frames of that size.",
            "InfiniBand: find the switch port with `iblinkinfo -C DEVICE -P PORT -D 0,PORT`, and "
            "compare its MTU with that of a good node's: "
            "`smpquery -C DEVICE -P PORT -D portinfo 0,PORT SWITCHPORT`.",
        ),
        source="ibv_query_port(3), ip-link(8), smpquery(8), iblinkinfo(8)",
    ),
    Entry(
        code="PORT-FIRMWARE-DIFFERS",
        title="NICs of one model run different firmware",
        meaning=(
            "NICs with the same board id do not all run the same firmware. It is no fault by "
            "itself, but a fault that shows on some nodes only may come from it."
        ),
        evidence="Board id and firmware of every NIC that serves a rail (board_id, fw_ver).",
        causes=(
            "One card was replaced, or left out of an update.",
            "The new firmware is written, but the node was not restarted since.",
            "The nodes were delivered in several lots.",
        ),
        repair=(
            "Read what runs and what is written: `mlxfwmanager --query`, or `flint -d SLOT query`.",
            "Choose one version and burn it card by card: `mlxfwmanager -d SLOT -u -i IMAGE`. "
            "Without `-d SLOT` it burns every card that the image fits.",
            "Drain the node and restart it, or make the card alone run it: "
            "`mlxfwreset -d SLOT reset`.",
            "Promise it: expect.firmware in the profile makes a wrong version a failure.",
        ),
        severity=Severity.WARN,
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband (fw_ver, board_id), "
        "mlxfwmanager's manual",
    ),
    Entry(
        code="GPU-VBIOS-DIFFERS",
        title="GPUs of one board run different VBIOS versions",
        meaning=(
            "GPUs with the same board part number do not all have the same VBIOS. It is no fault "
            "by itself, but clocks, power limits and known faults come with it, so results of "
            "such GPUs cannot be compared."
        ),
        evidence="Board part number and VBIOS version of every GPU, as NVML tells them; the model "
        "where it tells no board part number.",
        causes=(
            "A GPU, or the whole board of GPUs, was replaced by one with another version.",
            "An update of the system's firmware left one node or one GPU out.",
            "The nodes were delivered in several lots.",
        ),
        repair=(
            "Read it on both nodes: "
            "`nvidia-smi --query-gpu=pci.bus_id,vbios_version --format=csv`.",
            "Bring all to one version with the firmware package of the system's manufacturer; "
            "never flash a VBIOS that is not from there.",
            "Promise it: expect.vbios in the profile makes a wrong version a failure.",
        ),
        severity=Severity.WARN,
        source="NVML API reference (nvmlDeviceGetVbiosVersion, nvmlDeviceGetBoardPartNumber), "
        "nvidia-smi(1)",
    ),
    Entry(
        code="HOST-DRIFT",
        title="Nodes of one profile differ in software or settings",
        meaning=(
            "Operating system, kernel, relevant words of its command line, NVIDIA's driver, OFED, "
            "rdma-core, or a setting of the platform, of NICs or of GPUs is not the same on all "
            "nodes. It is no fault by itself, but results of such nodes cannot be compared, and a "
            "fault on some of them may come from it."
        ),
        evidence=(
            "The value on each node, and which nodes differ from most, or that there is a tie. Of "
            "the command line only words about IOMMU, PCI, memory, cores and drivers are compared. "
            "A value of several NICs or GPUs names those that differ from the others of the node."
        ),
        causes=(
            "A node missed an update, or was installed at another time from another image.",
            "An update is installed, but the node was not restarted since.",
            "A setting was tried out by hand on one node and left there, or was lost at a restart.",
            "The BIOS of one node has other settings (ACS, IOMMU, payload), or its defaults.",
        ),
        repair=(
            "Look at the values in the finding: which of them is the wanted one.",
            "Bring the nodes that differ to the same version or setting, and restart them where "
            "it is one of the kernel or the BIOS.",
            "If the nodes are meant to differ, give them different profiles.",
            "Promise it: expect.os, kernel, command_line, driver, ofed, iommu, acs_redirect, "
            "max_read_request_bytes, ecc or power_limit_w, among others, make a wrong value a "
            "failure.",
        ),
        severity=Severity.WARN,
        source="os-release(5), uname(2), Linux Documentation/admin-guide/kernel-parameters.rst, "
        "PCI Express base specification, NVML API reference",
    ),
    Entry(
        code="HOST-CLOCK-OFFSET",
        title="The clocks of two nodes differ",
        meaning=(
            "The clock of this node is more than a second away from that of the node that led the "
            "rendezvous. No measurement depends on it, but logs of the nodes cannot be put side by "
            "side, and tickets and certificates may be refused."
        ),
        evidence=(
            "The leader's clock, read within one round trip of the channel's handshake, against "
            "the middle of that round trip; half the round trip is the error, and only what is "
            "certain counts."
        ),
        causes=(
            "Time synchronisation (chrony, ntpd, systemd-timesyncd) is not running on the node.",
            "It runs, but cannot reach its servers.",
            "The leader's own clock is wrong: then all other nodes are named.",
            "A virtual machine was suspended and resumed.",
        ),
        repair=(
            "Read the state on both nodes: `timedatectl`; `chronyc tracking`.",
            "Start the service: `systemctl enable --now chronyd` (on Debian and Ubuntu it is "
            "called chrony), or systemd-timesyncd in its place.",
            "Check that the servers answer: `chronyc sources -v`.",
            "Step the clock once if it is far off: `chronyc makestep`.",
        ),
        severity=Severity.WARN,
        source="chronyc(1), timedatectl(1), docs/channel.md",
    ),
)
