"""The tree in lines: every function once, below what it hangs on, also when the tree is broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Unreadable
from gdrcheck.show import pci
from gdrcheck.show.words import Gaps
from tests import facts as build

SLOTS = [f"0000:{bus:02x}:00.0" for bus in range(8)]


def test_functions_are_indented_below_what_they_hang_on() -> None:
    lines = pci.tree(build.facts(), Gaps())
    assert [(len(line) - len(line.lstrip()), line.split()[0]) for line in lines] == [
        (0, build.ROOT_BUS),
        (2, build.ROOT_PORT),
        (4, build.UPSTREAM_PORT),
        (6, build.NIC_PORT),
        (8, build.NIC_SLOT),
        (6, build.GPU_PORT),
        (8, build.GPU_SLOT),
    ]


@given(st.lists(st.sampled_from([None, "0000:ff:00.0", *SLOTS]), min_size=1, max_size=8))
def test_every_function_is_shown_once_whatever_the_parents_are(parents: list[str | None]) -> None:
    functions = tuple(
        build.bridge(slot, parent, "root port")
        for slot, parent in zip(SLOTS, parents, strict=False)
    )
    lines = pci.tree(build.facts(pci=build.pci_tree(functions=functions)), Gaps())
    shown = [line.split()[0] for line in lines if line.startswith(" ")]
    assert sorted(shown) == SLOTS[: len(functions)]


def test_a_chain_without_end_does_not_fill_the_screen() -> None:
    slots = [f"{number:04x}:00:00.0" for number in range(3000)]
    functions = tuple(
        build.bridge(slot, parent, "root port")
        for slot, parent in zip(slots, [None, *slots], strict=False)
    )
    lines = pci.tree(build.facts(pci=build.pci_tree(functions=functions)), Gaps())
    assert len(lines) == 3001
    assert max(map(len, lines)) < 200


def test_what_is_wrong_on_the_way_is_shown_beside_the_function() -> None:
    acs = build.settings(acs={"enabled": ("ReqRedir",)}, port_type="root port")
    functions = (
        build.bridge(build.ROOT_PORT, None, "root port", settings=acs, aer_nonfatal=2),
        build.pci_function(parent=build.ROOT_PORT, driver=None, aer_fatal=1, numa_node=None),
    )
    lines = pci.tree(build.facts(pci=build.pci_tree(functions=functions)), Gaps())
    assert lines[1].endswith("ACS redirects (ReqRedir)  AER non-fatal errors 2")
    assert lines[2].endswith("mlx5_0  32 GT/s x16  no driver  AER fatal errors 1")


def test_what_was_not_read_is_noted_once_with_its_number() -> None:
    why = Unreadable(unreadable="least privilege", privilege=True)
    functions = tuple(
        one.model_copy(update={"settings": why}) for one in build.pci_tree().functions
    )
    gaps = Gaps()
    lines = pci.tree(build.facts(pci=build.pci_tree(functions=functions)), gaps)
    assert lines[2].split()[1] == "bridge"
    assert gaps.lines() == [
        "not read:",
        "  least privilege: ACS, payload and ordering (6 times)",
    ]


def test_no_capability_is_told_from_one_that_is_off() -> None:
    functions = (
        build.bridge(build.ROOT_PORT, None, "root port", settings=build.settings(acs=None)),
        build.bridge(build.UPSTREAM_PORT, build.ROOT_PORT, "upstream port"),
    )
    lines = pci.tree(build.facts(pci=build.pci_tree(functions=functions)), Gaps())
    assert [line.partition("NUMA node 0  ")[2] for line in lines[1:]] == [
        "no ACS capability",
        "ACS off",
    ]


def test_settings_of_a_function_are_told_each() -> None:
    (first, second) = pci.settings(build.pci_function(), Gaps())
    assert f"{first} {second.strip()}" == (
        "    PCIe: payload 256 of 512 bytes, read request 4096 bytes, relaxed ordering on, "
        "ATS off, no ACS capability"
    )
    other = build.settings(ats_enabled=None, acs={"enabled": ()}, relaxed_ordering=False)
    text = " ".join(" ".join(pci.settings(build.pci_function(settings=other), Gaps())).split())
    for word in ("relaxed ordering off", "no ATS", "ACS off"):
        assert word in text


def test_settings_that_were_not_read_are_no_settings() -> None:
    gaps = Gaps()
    why = Unreadable(unreadable="least privilege", privilege=True)
    assert pci.settings(build.pci_function(settings=why), gaps) == ["    PCIe: ?"]
    short = build.settings(acs=why, ats_enabled=why)
    assert "ATS ?, ACS ?" in " ".join(
        line.strip() for line in pci.settings(build.pci_function(settings=short), gaps)
    )
    assert gaps.lines() == ["not read:", "  least privilege: ACS, payload and ordering, ATS, ACS"]
    assert pci.settings(build.pci_function(settings=None), gaps) == [
        "    PCIe: no PCI Express capability"
    ]
    assert pci.settings(None, gaps) == []
