"""Codes about what the ports are cabled to."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

COMPARE = "Compare the switch ports that the finding names with the plan of the cables."
READ = (
    "Read it again on the node. Ethernet: `lldpcli show neighbors ports IFACE`. "
    "InfiniBand: `iblinkinfo -C DEVICE -P PORT -D 0,PORT`."
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="FABRIC-RAIL-LEAF",
        title="A rail is cabled to another leaf switch than those that it must share one with",
        meaning=(
            "The profile promises that these rails end at one leaf switch, and this one does not. "
            "Every check of this node alone passes with it, but its traffic takes the way over the "
            "spine, where others are slowed down by it, and a job that is placed by leaf is wrong."
        ),
        evidence=(
            "What the other end of each cable says of itself: by LLDP on Ethernet, by the list of "
            "the fabric's links that was imported on InfiniBand. Expected is the leaf of more than "
            "half of the ends that must share one; where no leaf has more than half, no end is "
            "named as the wrong one, and the finding says that it is a tie."
        ),
        causes=(
            "The cable is in a port of the wrong switch.",
            "If all rails of a node are elsewhere: its label gdrcheck_leaf is wrong or missing, or "
            "the node stands in another rack than the inventory says.",
            "If many rails are in a tie: the nodes are of several leaf groups and have no labels, "
            "or rails.cabling in the profile is the other of by_rail and by_node.",
            "The list of links was taken before the cable was moved.",
        ),
        repair=(
            COMPARE,
            READ,
            "Put the cable in its place, wait for the link, and run again, with a new list of "
            "links if there is one.",
            "If the cable is right, correct gdrcheck_leaf in the inventory, or rails.cabling in "
            "the profile.",
        ),
        source="IEEE 802.1AB-2016, lldpcli(8), ibnetdiscover(8), iblinkinfo(8), docs/cabling.md",
    ),
    Entry(
        code="FABRIC-CABLES-SWAPPED",
        title="Two cables are each in the other's place",
        meaning=(
            "Of two rails each is at the leaf switch of the other. All links are up and all "
            "transfers work, but the traffic of both crosses the spine to reach its own rail on "
            "other nodes."
        ),
        evidence=(
            "What the other end of each cable says of itself, and the leaf of more than half of "
            "the rails that must share one. Where no leaf has more than half, as with two nodes, "
            "the finding says that it is a tie: then either node may be the one to repair."
        ),
        causes=(
            "Two cables were exchanged at the node, or at the switches.",
            "Two NICs were exchanged, or are named otherwise than on the other nodes, so that what "
            "the profile calls a rail is another card: compare the slots.",
            "If it is every cable of two nodes: their gdrcheck_leaf labels or their names are "
            "exchanged in the inventory, or they stand in each other's place.",
        ),
        repair=(
            COMPARE,
            READ,
            "Compare the slots and names of the NICs with a good node's: `gdrcheck topo`.",
            "Exchange the two cables at one end, wait for both links, and run again, with a new "
            "list of links if there is one.",
        ),
        source="IEEE 802.1AB-2016, lldpcli(8), ibnetdiscover(8), iblinkinfo(8), docs/cabling.md",
    ),
)
