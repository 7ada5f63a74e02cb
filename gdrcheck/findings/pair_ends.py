"""Codes about ends of a pair that do not fit each other, or the plan."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="PAIR-GID-MISMATCH",
        title="The GIDs of the two ends cannot reach each other",
        meaning=(
            "The ends could not connect, or got no answer, and the GIDs that they use explain it: "
            "they differ in type (RoCE version), in address family, one is link-local and the "
            "other is not, or they are of different InfiniBand subnets. The fabric is not at fault."
        ),
        evidence="Index, GID, type and MTU of both ends, and the error that was seen.",
        causes=(
            "An end was told to use a fixed GID index, and its table is in another order.",
            "One interface has no routable address, so that only its link-local GID is left.",
            "The profile allows any family or type, and the nodes have different ones.",
            "The interface's address came, or went, after the tables were compared.",
        ),
        repair=(
            "Compare the tables of both ends, on the hosts: `ibv_devinfo -v -d DEVICE | grep GID`.",
            "Give both interfaces an address of one family and scope: `ip addr show dev IFACE`.",
            "Say which one is meant: gid.family and gid.type in the profile.",
            "By hand: give both ends an index of the same type and family (`-x`).",
            "InfiniBand: ports of different subnets do not reach each other without a router; "
            "compare the first half of both GIDs.",
        ),
        source="RoCEv2 annex A17, RFC 4291, Linux Documentation/ABI/stable/sysfs-class-infiniband "
        "(gid_attrs)",
    ),
    Entry(
        code="PAIR-END-DEVIATES",
        title="An end does not keep to the plan",
        meaning=(
            "What this end told or sent is not what was agreed: its memory regions are missing or "
            "too short for the planned messages, or every message of every operation that came "
            "from it was wrong from end to end, which no fault of a wire or of memory does."
        ),
        evidence=(
            "What was announced and what was needed; or size, iteration, offset and bytes of the "
            "first wrong message, and that all operations were alike."
        ),
        causes=(
            "The node runs another version of the software than it says.",
            "Its endpoint process is broken: a wrong library, or memory that is not its own.",
            "Somebody stands in for the node.",
        ),
        repair=(
            "Compare the images: `podman images --digests` (or docker) on both nodes.",
            "Deploy the image anew on that node and repeat the run.",
            "Read the node's log of the rail: nodes/NODE/rail-N.log in the results.",
        ),
        source="docs/channel.md",
    ),
)
