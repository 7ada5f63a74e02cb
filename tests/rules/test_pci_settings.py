"""ACS, relaxed ordering, payload and read request: against the promise, else shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdrcheck.facts import Acs, Facts, PciTree, Unreadable
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import pci_settings
from tests import facts as build

Rule = Callable[[Rail, Profile, Facts], Finding | None]
NO_COLLECTOR = Unreadable(unreadable="the host collector did not run", privilege=True)
BROKEN = Unreadable(unreadable="config: cut off")
REDIRECTS = Acs(enabled=("SrcValid", "ReqRedir", "CmpltRedir"))


def judge(rule: Rule, facts: Facts, **expect: object) -> Finding | None:
    profile = build.profile(expect=expect)
    return rule(resolve(profile, facts)[0], profile, facts)


def finding(found: Finding | None) -> Finding:
    assert found is not None
    return found


def node(slots: dict[str, object]) -> Facts:
    """The healthy node with these settings at these slots."""
    functions = tuple(
        one.model_copy(update={"settings": slots[one.slot]}) if one.slot in slots else one
        for one in build.pci_tree().functions
    )
    return build.facts(pci=PciTree(functions=functions, misplaced={}))


def acs_at(*slots: str, acs: Acs | Unreadable | None = REDIRECTS) -> Facts:
    return node({slot: build.settings(port_type="downstream port", acs=acs) for slot in slots})


# ACS.


def test_acs_that_nobody_promised_is_shown() -> None:
    with pytest.raises(NotJudged, match=f"redirect on at {build.NIC_PORT}; redirect off at"):
        judge(pci_settings.acs, acs_at(build.NIC_PORT))


def test_acs_off_as_promised_passes() -> None:
    assert judge(pci_settings.acs, build.facts(), acs_redirect="off") is None


@pytest.mark.parametrize("slot", [build.NIC_PORT, build.GPU_PORT, build.UPSTREAM_PORT])
def test_a_bridge_between_that_redirects_against_the_promise_is_found(slot: str) -> None:
    found = finding(judge(pci_settings.acs, acs_at(slot), acs_redirect="off"))
    assert (found.code, found.where.text()) == ("PCI-ACS", "node1/gpu0/mlx5_0")
    assert f"redirect on at {slot}" in found.observed
    assert found.evidence[slot] == "redirect on"


def test_a_bridge_that_is_not_between_is_not_judged() -> None:
    assert judge(pci_settings.acs, acs_at(build.ROOT_PORT), acs_redirect="off") is None


def test_without_a_gpu_the_bridges_above_the_nic_are_judged() -> None:
    facts = acs_at(build.ROOT_PORT)
    profile = build.profile(gpus={"count": 0}, expect={"acs_redirect": "off"})
    found = finding(pci_settings.acs(resolve(profile, facts)[0], profile, facts))
    assert found.where.text() == "node1/mlx5_0"


def test_controls_that_do_not_redirect_are_no_redirection() -> None:
    facts = acs_at(build.NIC_PORT, acs=Acs(enabled=("SrcValid", "UpstreamFwd")))
    assert judge(pci_settings.acs, facts, acs_redirect="off") is None


def test_redirection_that_was_promised_must_be_on_wherever_it_can_be() -> None:
    between = (build.NIC_PORT, build.GPU_PORT)
    facts = acs_at(*between)
    assert judge(pci_settings.acs, facts, acs_redirect="on") is not None
    upstream = build.settings(port_type="upstream port", acs=None)
    slots = {slot: build.settings(port_type="downstream port", acs=REDIRECTS) for slot in between}
    whole = node({**slots, build.UPSTREAM_PORT: upstream})
    assert judge(pci_settings.acs, whole, acs_redirect="on") is None


def test_redirection_is_not_on_where_no_bridge_can_do_it() -> None:
    facts = acs_at(build.NIC_PORT, build.GPU_PORT, build.UPSTREAM_PORT, acs=None)
    assert judge(pci_settings.acs, facts, acs_redirect="off") is None
    assert finding(judge(pci_settings.acs, facts, acs_redirect="on")).code == "PCI-ACS"


def test_acs_that_only_the_collector_reads_is_an_error_when_promised_only() -> None:
    facts = node({build.GPU_PORT: NO_COLLECTOR})
    with pytest.raises(NotJudged, match="did not run"):
        judge(pci_settings.acs, facts)
    with pytest.raises(ProbeError, match="did not run"):
        judge(pci_settings.acs, facts, acs_redirect="off")


def test_acs_beyond_the_reach_of_the_kernel_is_no_acs_off() -> None:
    with pytest.raises(ProbeError, match="cut off"):
        judge(pci_settings.acs, acs_at(build.GPU_PORT, acs=BROKEN), acs_redirect="off")


def test_with_no_bridge_in_sight_a_promise_is_an_error() -> None:
    functions = (
        build.pci_function(parent=None, link=None),
        build.gpu_function(parent=None, link=None),
    )
    facts = build.facts(pci=PciTree(functions=functions, misplaced={}))
    with pytest.raises(NotJudged, match="no bridge"):
        judge(pci_settings.acs, facts)
    with pytest.raises(ProbeError, match="no bridge"):
        judge(pci_settings.acs, facts, acs_redirect="off")


# Settings of the NIC.

RULES = (
    (pci_settings.relaxed_ordering, "relaxed_ordering", True),
    (pci_settings.payload, "max_payload_bytes", 256),
    (pci_settings.read_request, "max_read_request_bytes", 4096),
)
rules = pytest.mark.parametrize(("rule", "key", "healthy"), RULES)


@rules
def test_a_setting_as_promised_passes(rule: Rule, key: str, healthy: object) -> None:
    assert judge(rule, build.facts(), **{key: healthy}) is None


@rules
def test_a_setting_that_nobody_promised_is_shown(rule: Rule, key: str, healthy: object) -> None:
    del key
    with pytest.raises(NotJudged, match=f"is {healthy}; the profile promises none"):
        judge(rule, build.facts())


@rules
def test_a_setting_that_cannot_be_read_is_an_error_when_promised(
    rule: Rule, key: str, healthy: object
) -> None:
    facts = node({build.NIC_SLOT: NO_COLLECTOR})
    with pytest.raises(NotJudged, match="did not run"):
        judge(rule, facts)
    with pytest.raises(ProbeError, match="did not run"):
        judge(rule, facts, **{key: healthy})


@rules
@pytest.mark.parametrize("virtual", [True, False])
def test_a_function_that_does_not_tell_gives_no_finding(
    rule: Rule, key: str, healthy: object, virtual: bool
) -> None:
    """A virtual function in a virtual machine has no link, and zeros where the settings are."""
    zeros = build.settings(
        relaxed_ordering=False, max_payload_bytes=128, max_read_request_bytes=128
    )
    nic = build.pci_function(parent=None, link=None, settings=zeros if virtual else None)
    facts = build.facts(pci=PciTree(functions=(nic, build.gpu_function(parent=None)), misplaced={}))
    with pytest.raises(NotJudged, match="not to be seen"):
        judge(rule, facts)
    with pytest.raises(ProbeError, match="not to be seen"):
        judge(rule, facts, **{key: healthy})


@pytest.mark.parametrize("promised", [True, False])
def test_relaxed_ordering_against_the_promise_is_found(promised: bool) -> None:
    facts = node({build.NIC_SLOT: build.settings(relaxed_ordering=not promised)})
    found = finding(judge(pci_settings.relaxed_ordering, facts, relaxed_ordering=promised))
    assert found.code == "PCI-RELAXED-ORDERING"
    assert found.expected == ("enabled" if promised else "disabled")
    assert found.observed == ("disabled" if promised else "enabled")


def test_a_payload_that_is_too_small_is_found() -> None:
    facts = node({build.NIC_SLOT: build.settings(max_payload_bytes=128)})
    found = finding(judge(pci_settings.payload, facts, max_payload_bytes=256))
    assert found.text().startswith("PCI-PAYLOAD at node1/mlx5_0: observed 128 bytes")


def test_a_read_request_that_is_too_small_is_found() -> None:
    facts = node({build.NIC_SLOT: build.settings(max_read_request_bytes=512)})
    found = finding(judge(pci_settings.read_request, facts, max_read_request_bytes=4096))
    assert found.text().startswith("PCI-READ-REQUEST at node1/mlx5_0: observed 512 bytes")


def test_more_than_promised_passes() -> None:
    assert judge(pci_settings.payload, build.facts(), max_payload_bytes=128) is None
    assert judge(pci_settings.read_request, build.facts(), max_read_request_bytes=512) is None


PROMISES: list[tuple[Rule, str, dict[str, object]]] = [
    (pci_settings.acs, "acs_redirect off", {"acs_redirect": "off"}),
    (pci_settings.relaxed_ordering, "relaxed ordering: False", {"relaxed_ordering": False}),
    (pci_settings.payload, "maximum payload: 512", {"max_payload_bytes": 512}),
    (pci_settings.read_request, "maximum read request: 4096", {"max_read_request_bytes": 4096}),
]


@pytest.mark.parametrize(("rule", "words", "expect"), PROMISES)
def test_a_promise_about_a_device_without_a_pci_function_is_an_error(
    rule: Rule, words: str, expect: dict[str, object]
) -> None:
    facts = build.facts(rdma_devices=(build.rdma_device(slot=None),))
    with pytest.raises(ProbeError, match=f"no PCI function .* the profile promises {words}"):
        judge(rule, facts, **expect)
    with pytest.raises(NotJudged, match="no PCI function"):
        judge(rule, facts)
