"""Codes about moving data between two nodes."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="PAIR-DATA-CORRUPT",
        title="Data arrived wrong",
        meaning=(
            "The transfer completed without an error, but bytes at the sink differ from what the "
            "source sent. Nothing else would have noticed."
        ),
        evidence=(
            "Operation, size, iteration, first wrong offset, number of wrong bytes, expected and "
            "received bytes, and what they look like: poison (never written), the previous "
            "iteration (stale), zeros, shifted, other. The place is the end whose memory, in the "
            "role that is named, is all that differs from exchanges that were right."
        ),
        causes=(
            "Poison or stale data: a write became visible only after its completion (ordering "
            "between NIC and memory), or went elsewhere.",
            "Zeros: an IOMMU or a PCIe bridge answered reads or dropped writes.",
            "Shifted: an offset was lost when memory was registered or addressed.",
            "Other: defective memory, PCIe path or NIC.",
        ),
        repair=(
            "Do not use this pair. Repeat it alone to see whether it is always the same end.",
            "Look for IOMMU faults and PCIe errors: "
            "`dmesg | grep -i -E 'IO_PAGE_FAULT|DMAR|smmu|AER'`.",
            "Check that the NIC's firmware does not force relaxed ordering (force_relax): "
            "`mlxconfig -d SLOT query PCI_WR_ORDERING`.",
            "Compare firmware, BIOS settings and driver with a good node; swap the NIC.",
        ),
        source="ibv_post_send(3), ibv_reg_mr(3), PCI Express Base Specification (ordering rules)",
    ),
    Entry(
        code="PAIR-GUARD-BROKEN",
        title="Bytes outside the message were overwritten",
        meaning=(
            "Guard bytes before or behind the destination changed during a transfer: the NIC "
            "wrote where it was not told to. Neighbouring data is silently destroyed."
        ),
        evidence="The guard zone, the offset of its first changed byte, operation and size.",
        causes=(
            "An offset or a length was lost when memory was registered or addressed.",
            "A fault in the NIC's firmware or in the provider.",
            "Defective memory, or another process or device writing there.",
        ),
        repair=(
            "Do not use this NIC for anything until it is explained.",
            "Repeat alone; compare driver, rdma-core and firmware with a good node.",
            "Run a memory test on the node if the offsets differ each time.",
        ),
        source="ibv_post_send(3), ibv_reg_mr(3)",
    ),
    Entry(
        code="PAIR-COMPLETION",
        title="A transfer ended with an error completion",
        meaning=(
            "A work request completed with a status other than success and other than exhausted "
            "retries, or nothing completed within the deadline. A status about remote memory "
            "(REM_...) complains of the other end, every other one of the end that got it."
        ),
        evidence="Completion status, vendor error, operation, size, iteration; both ends' view.",
        causes=(
            "LOC_PROT_ERR: the NIC could not reach local memory; access control on PCIe switches "
            "or an IOMMU in the way, or the wrong address.",
            "LOC_LEN_ERR or REM_INV_REQ_ERR: message larger than the buffer, path MTU that differs "
            "between the ends, or no room for READ requests.",
            "REM_ACCESS_ERR: wrong key or address, or memory registered without that right.",
            "RNR_RETRY_EXC_ERR: the receiver had posted no receive in time.",
            "WR_FLUSH_ERR: a consequence; look for the first error on either end.",
            "DEADLINE: packets lost without an end, or the other end stopped.",
        ),
        repair=(
            "Look at the first status that is not WR_FLUSH_ERR, on both ends.",
            "Read the NIC driver's messages on that end: `dmesg -T | grep -i -E 'mlx5|cqe|rxe'`.",
            "LOC_PROT_ERR: check access control services on the bridges, as root "
            "(`lspci -vvv -s BRIDGE | grep ACSCtl`), and the IOMMU mode; look for faults: "
            "`dmesg -T | grep -i -E 'IO_PAGE_FAULT|DMAR|smmu'`.",
            "Length errors: compare the MTU of both interfaces and of the switches.",
            "RNR_RETRY_EXC_ERR, or DEADLINE: see on the other end whether its process ran, or the "
            "node was busy; then follow PAIR-RETRY-EXCEEDED.",
        ),
        source="ibv_poll_cq(3), InfiniBand Architecture Specification vol. 1, ch. 9 and 11",
    ),
    Entry(
        code="PAIR-RETRY-EXCEEDED",
        title="The other end did not acknowledge: retries exceeded",
        meaning=(
            "The sender repeated a packet as often as allowed and got no acknowledgement "
            "(RETRY_EXC_ERR). Packets do not reach the other NIC, or its answers do not come back."
        ),
        evidence="Status and vendor error, GID index, GID, type and interface of both ends, MTU.",
        causes=(
            "The data link between the two nodes is down, or a switch drops the packets.",
            "The ends use GIDs that do not reach each other: different RoCE versions, subnets or "
            "VLANs.",
            "Several interfaces in one subnet, and another one answers ARP for the address.",
            "The path MTU is larger than what the network carries: small messages pass.",
            "A firewall on the way blocks UDP port 4791 (RoCE v2). That of the node itself does so "
            "for RoCE in software (rxe) only: packets of a NIC do not pass it.",
            "InfiniBand: the partition key does not match, or the subnet has no route.",
            "The other end's queue pair was gone already: its process died.",
        ),
        repair=(
            "RoCE, from both ends to the address behind the other GID: `ping -I IFACE ADDRESS`.",
            "Read the counters on both ends before and after (local_ack_timeout_err, "
            "packet_seq_err, out_of_sequence): `rdma statistic show link DEVICE/PORT`.",
            "Compare `ip neigh show dev IFACE` with the other NIC's MAC address; if they differ, "
            "follow PORT-ARP-FLUX.",
            "Ping with large packets that must not be fragmented: "
            "`ping -M do -s 4164 -I IFACE ADDRESS` (with its headers 4192 bytes, as much as RoCE "
            "needs for 4096).",
            "Check the firewall: `nft list ruleset`, or `iptables -S`. Where the policy is drop, "
            "UDP port 4791 must be accepted.",
            "InfiniBand: see whether there is a route: `ibtracert -C DEVICE -P PORT LID LID`, from "
            "the LID of one end to that of the other.",
        ),
        source="ibv_poll_cq(3), ibv_modify_qp(3), RoCEv2 annex A17, Linux Documentation/networking/"
        "ip-sysctl.rst",
    ),
    Entry(
        code="PAIR-CONNECT-FAILED",
        title="A queue pair could not be connected",
        meaning=(
            "ibv_modify_qp failed on one end while it moved a queue pair to ready-to-receive or "
            "ready-to-send (or to init, before that), so no data was sent."
        ),
        evidence="The end, the states, the errno, and the GIDs of both ends.",
        causes=(
            "EINVAL: the chosen GID index is not in the table any more, or an attribute is "
            "outside of what the port can do.",
            "ENODEV: the GID's interface is in another network namespace.",
            "ETIMEDOUT, EHOSTUNREACH, ENETUNREACH: no route, or the other end's address did not "
            "resolve to a MAC address.",
            "The port went down.",
        ),
        repair=(
            "Check the route and the neighbour: `ip route get ADDRESS`; `ip neigh show`.",
            "Compare the GID tables of both ends: `ibv_devinfo -v -d DEVICE | grep GID`.",
            "Check that both ports are active: `rdma link show`.",
            "See whether interface and container are in one network namespace: "
            "`ip link show IFACE` inside the container.",
        ),
        source="ibv_modify_qp(3), ibv_devinfo(1), Linux drivers/infiniband/core/addr.c and verbs.c",
    ),
    Entry(
        code="PAIR-MTU",
        title="A port cannot do the path MTU that the profile promises",
        meaning=(
            "The port's active MTU is smaller than path_mtu of the profile. Nothing was measured "
            "over it: a smaller path MTU in silence would hide that larger packets do not fit."
        ),
        evidence="The promised path MTU, the active MTU of the port, and the end that said so.",
        causes=(
            "RoCE: the MTU of the network interface was left at 1500, which gives an active MTU "
            "of 1024.",
            "RoCE: the interface's MTU leaves no room for the headers.",
            "InfiniBand: the switch port at the other end of the cable is set to, or can do, a "
            "smaller MTU.",
            "The profiles of the two nodes promise different path MTUs.",
        ),
        repair=(
            "Read both: `ip link show IFACE`; `ibv_devinfo -d DEVICE | grep active_mtu`.",
            "Set the same MTU (for RoCE with 4096 bytes at least 4200) on both interfaces "
            "(`ip link set IFACE mtu 9000`) and on every switch between them, and make it "
            "permanent.",
            "Prove the path: `ping -M do -s 4164 -I IFACE ADDRESS` (with its headers 4192 bytes, "
            "as much as RoCE needs for 4096).",
            "Or lower path_mtu in the profile to what the network carries.",
        ),
        source="ibv_query_port(3), ibv_modify_qp(3), Linux include/rdma/ib_addr.h (iboe_get_mtu)",
    ),
    Entry(
        code="PAIR-UNSTABLE",
        title="Repeats of the same transfer disagree",
        meaning=(
            "A transfer failed and the same transfer, repeated alone, did not; or it was right, "
            "and was not when it was repeated since others had failed. Both results are kept, and "
            "no end is named. Wrong data is never called unstable: it stays wrong data."
        ),
        evidence="The results of both attempts.",
        causes=(
            "A marginal link: bit errors, a flapping port, a failing transceiver.",
            "Loss under load: flow control for RoCE is missing or set on the wrong priority.",
            "A node that was busy or restarting something during one attempt.",
        ),
        repair=(
            "Read twice, both ends: `grep . /sys/class/infiniband/DEVICE/ports/PORT/counters/*`.",
            "See which of symbol_error, link_downed and port_rcv_errors grew meanwhile, and look "
            "at the same counters of the switch ports between the nodes.",
            "RoCE: compare trust mode, priority flow control and traffic class "
            "(`mlnx_qos -i IFACE`) with the switches.",
            "Repeat the run on this pair: `ansible-playbook validate.yml --limit NODE1,NODE2`.",
        ),
        source="perfquery(8), ethtool(8), IEEE 802.1Qbb",
    ),
)
