"""Codes about PCI Express: links, settings, errors, and the way between GPU and NIC."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="PCI-LINK-WIDTH",
        title="A PCI Express link has fewer lanes than both its ends can do",
        meaning=(
            "A link between a NIC or GPU and its root port came up narrower than both ends can be, "
            "or than the profile promises. The bandwidth of everything behind it falls by the "
            "same share: half the lanes, half the rate."
        ),
        evidence=(
            "current_link_width and max_link_width of every function from the NIC or GPU to the "
            "root port in /sys/bus/pci/devices; the worst link is named, all are listed."
        ),
        causes=(
            "The card is not seated properly, or its edge or slot is dirty or damaged.",
            "A riser, cable or backplane between card and board is loose or broken.",
            "The firmware splits the slot (bifurcation) into narrower links.",
            "The slot is wired for fewer lanes than its connector has, and its port does not say "
            "so.",
            "A lane of the card, the switch or the processor is broken.",
        ),
        repair=(
            "As root, for both ends: `lspci -vv -s SLOT | grep -E 'LnkCap|LnkSta'`.",
            "The other end is the bridge above, which `lspci -D -PP -s SLOT` names before the "
            "slot; a narrow link reads (downgraded), and LnkCap tells which end can do no more.",
            "Read the kernel's messages: `dmesg | grep 'available PCIe bandwidth'`.",
            "Switch the node off, reseat card, riser and cables, and try again.",
            "Check the bifurcation of the slot in the firmware's setup.",
            "Swap the card with that of a good node: if the fault moves with it, replace the "
            "card, else the riser or the board.",
        ),
        source="PCI Express base specification 7.5.3, Linux Documentation/ABI/testing/"
        "sysfs-bus-pci, lspci(8)",
    ),
    Entry(
        code="PCI-LINK-SPEED",
        title="A PCI Express link is slower than both its ends can do",
        meaning=(
            "A link between a NIC or GPU and its root port runs at a lower speed than both ends "
            "can, or than the profile promises. The link of an idle GPU is not judged, since the "
            "driver lowers its speed, but both its ends must be able to keep the promise."
        ),
        evidence=(
            "current_link_speed and max_link_speed of every function from the NIC or GPU to the "
            "root port in /sys/bus/pci/devices; the worst link is named, all are listed."
        ),
        causes=(
            "Signal errors made the link train down: card, riser or cable is badly seated or "
            "marginal.",
            "The firmware limits the speed of the slot (for example to Gen4 for a riser).",
            "A retimer or switch has old firmware.",
            "A link that was retrained after an error stayed at its first speed.",
        ),
        repair=(
            "As root, for both ends: `lspci -vv -s SLOT | grep -E 'LnkCap|LnkSta|LnkCtl2'`.",
            "The other end is the bridge above, which `lspci -D -PP -s SLOT` names before the "
            "slot; a target speed in LnkCtl2 below LnkCap is a limit that somebody set.",
            "Look for link errors, at both ends: "
            "`cat /sys/bus/pci/devices/SLOT/aer_dev_correctable`.",
            "Set the slot's speed to automatic or to the full generation in the firmware's setup.",
            "Switch the node off, reseat card, riser and cables, and try again.",
            "Update the firmware of board, switch and card.",
            "Swap the card with that of a good node and see whether the fault moves.",
        ),
        source="PCI Express base specification 7.5.3, Linux Documentation/ABI/testing/"
        "sysfs-bus-pci, lspci(8)",
    ),
    Entry(
        code="PCI-AER-UNCORRECTABLE",
        title="PCI Express counted uncorrectable errors",
        meaning=(
            "A function between a NIC or GPU and its root port has reported uncorrectable errors "
            "since boot. Transactions were lost: data may be wrong, and the device may stop."
        ),
        evidence=(
            "The totals in aer_dev_fatal and aer_dev_nonfatal of every function from the NIC or "
            "GPU to the root port in /sys/bus/pci/devices."
        ),
        causes=(
            "The link is unreliable: card, riser or cable badly seated or failing.",
            "The device was reset or its firmware stopped while requests were under way "
            "(completion timeout).",
            "A request went to an address that no device answers (unsupported request), for "
            "example a peer that is blocked by access control.",
            "The firmware of the device or of a switch has a fault.",
        ),
        repair=(
            "See which kind it is: `grep -v ' 0$' /sys/bus/pci/devices/SLOT/aer_dev_*fatal`.",
            "Read when it happened: `dmesg -T | grep -i -E 'AER|PCIe Bus Error'`.",
            "Only at boot, and only unsupported requests: update the firmware; if they stay as "
            "many as they are, waive the finding with that reason.",
            "Reseat or replace card, riser and cable of the function that counts.",
            "Boot again and run the checks under load: the counts must stay 0.",
        ),
        source="Linux Documentation/ABI/testing/sysfs-bus-pci-devices-aer, PCI Express base "
        "specification 6.2",
    ),
    Entry(
        code="PCI-ACS",
        title="Access control redirects peer-to-peer traffic otherwise than promised",
        meaning=(
            "The profile promises whether the bridges between a GPU and its NIC send peer-to-peer "
            "requests up to the root complex. Redirected, GPUDirect transfers are slow, fail or "
            "hang on many machines; in virtual machines that own the devices it has to be on."
        ),
        evidence=(
            "The control register of Access Control Services (ReqRedir, CmpltRedir) of every "
            "bridge between GPU and NIC, from the configuration space that the host collector read."
        ),
        causes=(
            "The kernel enabled it because an IOMMU is on; `iommu=pt` does not change that.",
            "What disabled it at boot (a unit that runs `setpci`) did not run, or ran before a "
            "switch was reset.",
            "The firmware's setup enables ACS, often together with virtualisation or the IOMMU.",
        ),
        repair=(
            "Look, as root: `lspci -vvv -s BRIDGE | grep ACSCtl`; ReqRedir+ means redirected.",
            "On a node without virtual machines switch ACS off in the firmware's setup, and the "
            "IOMMU as well if the profile does not promise it: otherwise the kernel enables ACS "
            "again.",
            "Or as root at every boot, for each bridge: `setpci -s BRIDGE ECAP_ACS+0x6.w=0000`.",
            "Or on the kernel's command line: `pci=disable_acs_redir=BRIDGE`; further bridges "
            "follow after a semicolon, which GRUB wants in quotes.",
            "With virtual machines leave it on and enable address translation services (ATS) in "
            "the NIC: `mlxconfig -d SLOT set ATS_ENABLED=1`, then restart the node.",
        ),
        source="PCI Express base specification 7.7.11, NCCL user guide (troubleshooting), Linux "
        "Documentation/admin-guide/kernel-parameters.txt",
    ),
    Entry(
        code="PCI-RELAXED-ORDERING",
        title="Relaxed ordering of a NIC is not as promised",
        meaning=(
            "The NIC may or may not mark its requests for relaxed ordering, against the profile. "
            "Without it many platforms reach half the rate to GPU memory; forced on, software "
            "that polls memory may see data out of order."
        ),
        evidence="Bit 4 of Device Control in the NIC's PCI Express capability.",
        causes=(
            "The firmware's setup of the machine switches it off.",
            "The kernel switched it off, as it does below root ports with known faults, or that "
            "do not support it.",
            "The NIC's own configuration (PCI_WR_ORDERING) was changed.",
        ),
        repair=(
            "Look, as root: `lspci -vv -s SLOT | grep RlxdOrd`.",
            "See whether the kernel switched it off: `dmesg | grep -i 'relaxed ordering'`.",
            "Read the NIC's setting: `mlxconfig -d SLOT query PCI_WR_ORDERING`; per_mkey leaves it "
            "to the application.",
            "Set it in the firmware's setup (PCIe relaxed ordering).",
        ),
        source="PCI Express base specification 7.5.3.4, Linux drivers/pci/quirks.c, ibv_reg_mr(3)",
    ),
    Entry(
        code="PCI-PAYLOAD",
        title="The maximum payload of a NIC is smaller than promised",
        meaning=(
            "Each PCI Express packet of the NIC carries less data than the profile promises, so "
            "that headers take a larger share of the link."
        ),
        evidence="Bits 5 to 7 of Device Control in the NIC's PCI Express capability.",
        causes=(
            "A device below the same root port supports no more, and all get the smallest.",
            "The firmware's setup limits it, or the kernel left what the firmware had set.",
            "The card was plugged in while the machine ran, and got the default of 128 bytes.",
            "The kernel was started with `pci=pcie_bus_peer2peer`, which sets 128 bytes "
            "everywhere.",
        ),
        repair=(
            "As root, for the NIC and each bridge above: `lspci -vv -s SLOT | grep MaxPayload`.",
            "The bridges above are those that `lspci -D -PP -s SLOT` names; the first MaxPayload "
            "is what a function can, the second what is set.",
            "Set the maximum payload in the firmware's setup to automatic or larger.",
            "Or start the kernel with `pci=pcie_bus_safe`. Not with `pci=pcie_bus_perf`: it lowers "
            "the maximum read request to the payload.",
        ),
        source="PCI Express base specification 7.5.3.4, Linux Documentation/admin-guide/"
        "kernel-parameters.txt",
    ),
    Entry(
        code="PCI-READ-REQUEST",
        title="The maximum read request of a NIC is smaller than promised",
        meaning=(
            "The NIC asks for less data at a time than the profile promises. Reading memory, as "
            "for sending, needs more requests and may not reach the link's rate."
        ),
        evidence="Bits 12 to 14 of Device Control in the NIC's PCI Express capability.",
        causes=(
            "The firmware's setup or the kernel left the default of 512 bytes.",
            "The NIC was reset after it had been tuned.",
            "The kernel was started with `pci=pcie_bus_perf`, which lowers it to the payload.",
            "A script or a tuning profile wrote another value.",
        ),
        repair=(
            "Look, as root: `lspci -vv -s SLOT | grep MaxReadReq`.",
            "See that `cat /proc/cmdline` does not have `pcie_bus_perf` in it.",
            "Set it until the next boot, as root: `setpci -s SLOT CAP_EXP+8.w=5000:7000` "
            "(5 is 4096 bytes, 4 is 2048, 3 is 1024).",
            "Make it permanent in the firmware's setup or in a unit that runs at boot.",
        ),
        source="PCI Express base specification 7.5.3.4, setpci(8)",
    ),
    Entry(
        code="PCI-RAIL-DISTANCE",
        title="A rail's GPU and NIC are farther apart than promised",
        meaning=(
            "The best GPU that is left for the NIC, or the one that the profile names, is reached "
            "over more of the machine than the profile allows, for example through the host "
            "bridge instead of a PCI Express switch. GPUDirect is slower there, or impossible."
        ),
        evidence=(
            "The bridges above GPU and NIC in /sys/devices and the NUMA nodes of both, in the "
            "words of `nvidia-smi topo -m`."
        ),
        causes=(
            "The card is in another slot than on the other nodes.",
            "The profile names the wrong GPU for the rail, or the selectors take the NICs in "
            "another order.",
            "A GPU or a NIC is missing, and its neighbour's partner had to do.",
            "The machine is virtual, and the hypervisor hides the topology.",
        ),
        repair=(
            "Compare with a good node: `gdrcheck topo` on both, or `nvidia-smi topo -m`.",
            "Move the card to the slot that the manual gives for this GPU.",
            "Correct rails.nics in the profile (order, or gpu beside the selector).",
            "Let the hypervisor show the physical topology, or allow more in expect.rail_distance.",
        ),
        source="nvidia-smi(1) topo, NVML nvmlGpuTopologyLevel_t",
    ),
    Entry(
        code="PCI-DRIVER-UNBOUND",
        title="A NIC is on the bus, but no driver has taken it",
        meaning=(
            "A rail lacks its RDMA device, and a NIC that could serve it is there without a "
            "driver: the card is alive, its driver is not loaded or failed to start it. The "
            "missing device follows from this."
        ),
        evidence=(
            "Functions of Mellanox's in /sys/bus/pci/devices without a driver link that serve no "
            "device in /sys/class/infiniband."
        ),
        causes=(
            "The driver failed to start the device: its firmware does not answer, or too little "
            "address space was given to it.",
            "The module mlx5_core is not loaded, or is on a blacklist.",
            "The driver is too old to know the card.",
            "Someone unbound it, for example to give it to a virtual machine.",
        ),
        repair=(
            "Read why: `dmesg | grep -e mlx5 -e SLOT`.",
            "See what could drive it: `lspci -k -s SLOT`.",
            "Load or bind it: `modprobe mlx5_core`, or `echo SLOT > "
            "/sys/bus/pci/drivers/mlx5_core/bind`.",
            "Firmware that does not answer: switch the node off and on (a restart is not enough), "
            "then update the firmware.",
            "If the NIC is not meant to serve a rail, correct rails.nics in the profile.",
        ),
        source="Linux Documentation/ABI/testing/sysfs-bus-pci, drivers/net/ethernet/mellanox/"
        "mlx5/core/main.c",
    ),
)
