"""What identifies a machine is replaced: same by same, different by different, in its own form."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.anonymise import SPECIAL_V4, Anonymiser

UUID = "8f3c0a1e-1b2c-4d5e-8f90-0123456789ab"
GID = "fe80:0000:0000:0000:b83f:d203:00aa:0001"
addresses = st.integers(1 << 24, (224 << 24) - 1).map(IPv4Address)


def anonymiser(*hosts: str) -> Anonymiser:
    return Anonymiser(b"a key", hosts)


@pytest.mark.parametrize(
    ("original", "form"),
    [
        (f"GPU-{UUID}", r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        (f"MIG-GPU-{UUID}/1/0", r"MIG-GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/1/0"),
        (GID, r"fe80(:0000){3}(:[0-9a-f]{4}){4}"),
        ("0000:0000:0000:0000:0000:ffff:0a01:0203", r"(0000:){5}ffff:0a[0-9a-f]{2}:[0-9a-f]{4}"),
        ("2001:db8::17", r"2001:[0-9a-f:]+"),
        ("b8:3f:d2:00:aa:01", r"02(:[0-9a-f]{2}){5}"),
        ("b8-3f-d2-00-aa-01", r"02(-[0-9a-f]{2}){5}"),
        (":".join(["a0"] * 20), r"[0-9a-f]{2}(:[0-9a-f]{2}){19}"),
        ("b83f:d203:00aa:0001", r"[0-9a-f]{4}(:[0-9a-f]{4}){3}"),
        ("0xb83fd20300aa0001", r"0x[0-9a-f]{16}"),
        ("enxb83fd200aa01", r"enx[0-9a-f]{12}"),
        ("enxB83FD200AA01", r"enx[0-9a-f]{12}"),
        ("mac:b8:3f:d2:00:aa:01", r"mac:02(:[0-9a-f]{2}){5}"),
        ("guid:b83f:d203:00aa:0001", r"guid:[0-9a-f]{4}(:[0-9a-f]{4}){3}"),
        ("addr:2001:db8::17", r"addr:2001:[0-9a-f:]+"),
        ("2001:db8::17.", r"2001:[0-9a-f:]+\."),
        ("10.1.2.3", r"10\.\d+\.\d+\.\d+"),
        ("192.168.7.9", r"192\.168\.\d+\.\d+"),
        ("GPU Board Serial Number: 1650921000123", r"GPU Board Serial Number: [0-9A-F]{13}"),
    ],
)
def test_each_kind_is_replaced_in_its_own_form(original: str, form: str) -> None:
    replaced = anonymiser().text(original)
    assert replaced != original
    assert re.fullmatch(form, replaced)
    assert anonymiser().text(f"x {original}, {original}") == f"x {replaced}, {replaced}"
    assert Anonymiser(b"another key").text(original) != replaced


@pytest.mark.parametrize(
    "text",
    [
        "0000:1b:00.0",
        "NVRM: Xid (PCI:0000:1b:00): 79",
        "MLNX_OFED_LINUX-24.10-0.7.0.0",
        "96.00.68.00.02",
        "28.43.2026 580.159.04 6.8.0-60-generic 5.14.0-427.13.1.el9_4",
        "5F2A1B3C4D5E6F708192A3B",
        "12:34:56",
        "127.0.0.1 0.0.0.0 169.254.3.4 255.255.255.0 ::1",
        ":".join(["0000"] * 8),
        "mlx5_0 ibs1 ens1f0np0",
    ],
)
def test_what_names_no_machine_stays(text: str) -> None:
    assert anonymiser().text(text) == text


@given(st.sets(addresses, min_size=2, max_size=20), st.integers(8, 31))
def test_addresses_of_one_network_stay_in_one_network(found: set[IPv4Address], bits: int) -> None:
    one = anonymiser()
    made = {old: IPv4Address(one.ipv4(str(old))) for old in found}
    assert len(set(made.values())) == len(found)
    special = {old for old in found if any(old in network for network in SPECIAL_V4)}
    assert {old for old, new in made.items() if old == new} == special
    # Those next to the special ones may be moved to where these are, never from one to the other.
    for old, new in made.items():
        network = IPv4Network((old, bits), strict=False)
        if any(network.overlaps(one) for one in SPECIAL_V4) or _kept(old) > bits:
            continue
        assert new in IPv4Network(one.network(str(network)))
        for other, its_new in made.items():
            if other not in special:
                assert (other in network) == (its_new in IPv4Network(one.network(str(network))))


def _kept(address: IPv4Address) -> int:
    return {"172": 12, "192": 16, "100": 10}.get(str(address).partition(".")[0], 8)


@given(st.sets(st.integers(2, (1 << 128) - 1).map(IPv6Address), min_size=2, max_size=10))
def test_gids_stay_apart(found: set[IPv6Address]) -> None:
    one = anonymiser()
    made = {one.gid(gid.exploded) for gid in found}
    assert len(made) == len(found)
    assert all(len(gid) == 39 for gid in made)


def test_a_port_is_the_same_by_its_gid_and_by_its_guid() -> None:
    one = anonymiser()
    assert one.gid(GID).endswith(one.text("b83f:d203:00aa:0001"))
    assert one.text("0xb83fd20300aa0001") == "0x" + one.gid(GID)[20:].replace(":", "")


def test_free_texts_lose_names_of_hosts_processes_and_people() -> None:
    one = anonymiser("gpu-a17.corp.example", "gpu-a17")
    text = (
        "GPU-A17.corp.example gpu-a17: pid=4242, name=train.py (root@gpu-a17.corp.example) gpu-a175"
    )
    assert one.free_text(text) == "host1 host2: pid=1001, name=process1 (user1) gpu-a175"
    assert one.free_text("pid 4242 pid='77'") == "pid 1001 pid='1002'"
    assert one.text("gpu-a17") == "gpu-a17"
    assert one.replaced["4242"] == "process id"


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    assert anonymiser().free_text(text) == anonymiser().free_text(text)
