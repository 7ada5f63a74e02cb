"""Codes about how fast data moves between two nodes."""

from __future__ import annotations

from gdrcheck.findings.model import Entry, Severity

ENTRIES = (
    Entry(
        code="PAIR-BANDWIDTH-LOW",
        title="Bandwidth is below what the path must reach",
        meaning=(
            "Data was right, but moved slower than the least of NIC rate, PCIe link of the NIC and "
            "PCIe link of the GPU at both ends, each times the profile's factor. The finding names "
            "the element that bounds the path."
        ),
        evidence=(
            "Rate by size, the limiting element and its factor, host memory in the same loop, "
            "perftest's figure beside it, and what the facts know that can slow the path."
        ),
        causes=(
            "GPU memory slow, host memory at rate: the peer path; access control (ACS) or the "
            "IOMMU sends it through the root complex, or GPU and NIC are on different sockets.",
            "Host memory slow as well: loss on the way (see the counters of the ports), a wrong "
            "traffic class, or another MTU than promised.",
            "One rail alone at rate, all at once slow: rails share a PCIe link or a switch uplink.",
            "A PCIe link came up narrower or slower than it can.",
            "Relaxed ordering is off, which costs much on some hosts.",
            "Other traffic on the same port or GPU during the run.",
        ),
        repair=(
            "Compare host to host with GPU to GPU: it tells the fabric from the peer path.",
            "Fabric: see PORT-ERROR-RATE and the counters of the switch ports; compare "
            "`mlnx_qos -i IFACE` with the switch.",
            "Peer path: see distance and bridges with `gdrcheck topo`; read ACS on the bridges, as "
            "root: `lspci -vvv -s BRIDGE | grep ACSCtl`.",
            "Read the links under load, as root: `lspci -vvv -s SLOT | grep LnkSta`.",
            "Compare with perftest by hand (it is in the image), first on one node "
            "`ib_write_bw -d DEVICE -x GID_INDEX -q 4 -s 4194304 --report_gbits`, then the same "
            "with the first one's address behind it on the other.",
        ),
        source="perftest README, PCI Express Base Specification, ibv_reg_mr(3) (relaxed ordering)",
    ),
    Entry(
        code="PAIR-LATENCY-HIGH",
        title="Latency is above the profile's limit",
        meaning=(
            "Half the round trip of a small message, median, is above latency_limit_us of the "
            "profile. The figure is that of our own loop, named in the result, which costs a few "
            "microseconds more than perftest's."
        ),
        evidence="p50, p99 and max in microseconds, the loop, and perftest's figure beside them.",
        causes=(
            "The worker did not run on cores near the NIC, or these were busy.",
            "Power saving: cores sleep deeply between messages.",
            "Congestion, or more switches on the way than thought.",
            "GPU memory only: the peer path goes through the root complex or another socket.",
            "The limit was written for perftest's loop, or for another class of hardware.",
        ),
        repair=(
            "Compare with perftest's figure in the result: if that is low, raise the limit.",
            "Read which cores the worker ran on (in the result), and what else ran there.",
            "Limit deep sleep of cores, and look at the governor: "
            "`grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`.",
            "Compare pairs of the same leaf with pairs across leaves.",
        ),
        source="perftest README, Linux Documentation/admin-guide/pm/cpuidle.rst",
    ),
    Entry(
        code="PAIR-PEER-PATH-SLOW",
        title="The direct path is no faster than copies through host memory",
        meaning=(
            "Large messages from GPU to GPU took as long directly as by copies through the memory "
            "of both hosts. GPUDirect RDMA works, but brings nothing: the peer path is slow."
        ),
        evidence=(
            "Rates of both ways by size, the addresses that the NIC was given, the distance of GPU "
            "and NIC, and the causes that the facts support."
        ),
        causes=(
            "Access control services (ACS) on PCIe bridges send peer traffic through the root "
            "complex.",
            "GPU and NIC are on different sockets: every packet crosses the link between them.",
            "A PCIe link of the GPU or of the NIC came up narrower or slower than it can.",
            "The chipset forwards traffic between its root ports slowly.",
            "Relaxed ordering is off, or not passed on.",
        ),
        repair=(
            "See what lies between GPU and NIC, and how far apart they are: `gdrcheck topo`.",
            "Read ACS on each bridge between, as root: `lspci -vvv -s BRIDGE | grep ACSCtl`; turn "
            "the redirects off in the BIOS.",
            "Give each GPU the NIC on its own switch: rails.nics in the profile.",
            "Read the links under load, as root: `lspci -vvv -s SLOT | grep LnkSta`.",
            "See whether the NIC may relax the order: PCI-RELAXED-ORDERING, with "
            "expect.relaxed_ordering in the profile.",
        ),
        source="NVIDIA GPUDirect RDMA documentation, PCI Express Base Specification (ACS)",
    ),
    Entry(
        code="PAIR-INSTRUMENT-DIFFERS",
        title="Our bandwidth and perftest's differ",
        meaning=(
            "On the same pair, with the same kind of memory and settings, the two measurements are "
            "more than a tenth apart. It says nothing against the pair, but one of the two "
            "instruments does not fill the path, so its figure must not be quoted."
        ),
        evidence="Both rates, size, number of queue pairs and the settings of each.",
        causes=(
            "The two ran at different moments, and other traffic came or went.",
            "The workers ran on different cores, or on too few.",
            "Relaxed ordering was used by one of them only.",
            "A machine on which a core fills the path barely, as in a virtual one.",
        ),
        repair=(
            "Repeat the run on this pair: `ansible-playbook validate.yml --limit NODE1,NODE2`.",
            "See which cores ours ran on (cores of the source, in pingpong's properties), and what "
            "else ran there.",
            "Quote the larger one only if it comes again.",
        ),
        severity=Severity.WARN,
        source="perftest README",
    ),
)
