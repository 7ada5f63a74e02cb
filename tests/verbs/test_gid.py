"""The choice of a GID over tables as machines have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import GidEntry
from gdrcheck.profile import Gid
from gdrcheck.verbs.gid import NoUsableGid, choose, exploded, normal

ANY = Gid()


def table(*rows: tuple[int, str, str, str]) -> list[GidEntry]:
    return [GidEntry(index=i, gid=g, type=t, netdev=n) for i, g, t, n in rows]


LINK_LOCAL = "fe80::5054:ff:fe67:201"
# A ConnectX port as a bare host shows it: each address twice, once for each RoCE version.
PLAIN = table(
    (0, LINK_LOCAL, "IB/RoCE v1", "eth2"),
    (1, LINK_LOCAL, "RoCE v2", "eth2"),
    (2, "::ffff:10.1.2.3", "IB/RoCE v1", "eth2"),
    (3, "::ffff:10.1.2.3", "RoCE v2", "eth2"),
)
# Holes where addresses were removed, as in a pod.
SPARSE = table(
    (0, LINK_LOCAL, "IB/RoCE v1", "eth2"),
    (6, "::ffff:10.1.2.3", "IB/RoCE v1", "net1"),
    (11, "::ffff:10.1.2.3", "RoCE v2", "net1"),
)
# The address is the bond's; entries of its member come first.
BONDED = table(
    (0, LINK_LOCAL, "RoCE v2", "eth2"),
    (1, LINK_LOCAL, "RoCE v2", "bond0"),
    (4, "::ffff:192.0.2.20", "IB/RoCE v1", "bond0"),
    (5, "::ffff:192.0.2.20", "RoCE v2", "bond0"),
)
# Another pod's VF on the same device.
OTHER_NAMESPACE = table(
    (1, "::ffff:10.9.9.9", "RoCE v2", "ifindex 27"),
    (3, "::ffff:10.1.2.3", "RoCE v2", "net1"),
)
# Soft-RoCE.
RXE = table((0, LINK_LOCAL, "RoCE v2", "eth2"), (1, "::ffff:10.77.2.1", "RoCE v2", "eth2"))
IPV6_ONLY = table(
    (0, LINK_LOCAL, "RoCE v2", "eth2"),
    (2, "2001:db8::7", "IB/RoCE v1", "eth2"),
    (3, "2001:db8::7", "RoCE v2", "eth2"),
)
BOTH_FAMILIES = table(
    (1, "2001:db8::7", "RoCE v2", "eth2"),
    (2, "::ffff:10.1.2.3", "RoCE v2", "eth2"),
)
TWO_ADDRESSES = table(
    (9, "::ffff:10.1.2.4", "RoCE v2", "eth2"),
    (5, "::ffff:10.1.2.3", "RoCE v2", "eth2"),
)
# Routed fabric: a point-to-point address, its peer is on no common subnet.
ROUTED = table((1, "::ffff:10.254.0.1", "RoCE v2", "eth2"))

NETDEVS = {"lo", "eth2", "net1", "bond0"}


@pytest.mark.parametrize(
    ("entries", "wanted", "index"),
    [
        (PLAIN, ANY, 3),
        (PLAIN, Gid(type="RoCE v1"), 2),
        (SPARSE, ANY, 11),
        (BONDED, ANY, 5),
        (OTHER_NAMESPACE, ANY, 3),
        (RXE, ANY, 1),
        (IPV6_ONLY, ANY, 3),
        (BOTH_FAMILIES, ANY, 2),
        (BOTH_FAMILIES, Gid(family="ipv6"), 1),
        (TWO_ADDRESSES, ANY, 5),
        (ROUTED, ANY, 1),
    ],
)
def test_the_right_entry_is_chosen(entries: list[GidEntry], wanted: Gid, index: int) -> None:
    choice = choose(entries, link_layer="ethernet", wanted=wanted, local_netdevs=NETDEVS)
    assert choice.index == index
    assert choice.type == ("RoCE v2" if wanted.type == "auto" else wanted.type)


@pytest.mark.parametrize(
    ("entries", "wanted", "reason"),
    [
        ([], ANY, "the table is empty"),
        (RXE[:1], ANY, "index 0 .*link-local"),
        (table((0, "::ffff:169.254.3.4", "RoCE v2", "eth2")), ANY, "link-local"),
        (table((0, "::", "RoCE v2", "eth2")), ANY, "empty"),
        (PLAIN[:3], ANY, "index 2 .*type RoCE v1"),
        (OTHER_NAMESPACE[:1], ANY, "ifindex 27 is not in this network namespace"),
        (table((0, "::ffff:10.1.2.3", "RoCE v2", "")), ANY, "no network device"),
        (IPV6_ONLY, Gid(family="ipv4"), "index 3 .*IPv6"),
        (RXE, Gid(family="ipv6"), "index 1 .*IPv4"),
        (PLAIN, Gid(type="IB"), "type RoCE v2"),
    ],
)
def test_without_a_usable_entry_every_reason_is_told(
    entries: list[GidEntry], wanted: Gid, reason: str
) -> None:
    with pytest.raises(NoUsableGid, match=reason) as told:
        choose(entries, link_layer="ethernet", wanted=wanted, local_netdevs=NETDEVS)
    assert len(told.value.dropped) == len(entries)


INFINIBAND = table(
    (0, "fe80::ec0d:9a03:78:1234", "IB/RoCE v1", ""),
    (1, "fe80::1", "IB/RoCE v1", ""),
)


def test_infiniband_uses_index_0_although_it_is_link_local() -> None:
    choice = choose(INFINIBAND, link_layer="infiniband", wanted=ANY, local_netdevs=set())
    assert (choice.index, choice.type) == (0, "IB")


@pytest.mark.parametrize(("entries", "wanted"), [([], ANY), (INFINIBAND, Gid(type="RoCE v2"))])
def test_infiniband_without_its_entry_is_refused(entries: list[GidEntry], wanted: Gid) -> None:
    with pytest.raises(NoUsableGid):
        choose(entries, link_layer="infiniband", wanted=wanted, local_netdevs=NETDEVS)


@given(st.permutations(PLAIN + BOTH_FAMILIES[:0]))
def test_the_order_of_the_table_does_not_matter(entries: list[GidEntry]) -> None:
    assert choose(entries, link_layer="ethernet", wanted=ANY, local_netdevs=NETDEVS).index == 3


@given(st.ip_addresses(v=6))
def test_spellings_name_the_same_address(address: object) -> None:
    text = str(address)
    assert normal(exploded(text)) == normal(text)
    assert len(exploded(text)) == 39


def test_a_mapped_address_is_spelled_as_ipv4() -> None:
    assert normal("0000:0000:0000:0000:0000:ffff:0a4d:0201") == "::ffff:10.77.2.1"
