"""What differs between the nodes of a profile: who is named, and what cannot be compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Acs, Facts, Iommu, Unreadable, VerbsDevice, VerbsPort
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import NotJudged, NotPromised
from gdrcheck.rules import differences
from gdrcheck.rules.alike import MAX_LISTED, Group, Readings
from tests import facts
from tests.gpu_facts import gpu_health

LOST = Unreadable(unreadable="EIO")


def group(*nodes: Facts | None, **profile: object) -> Group:
    """A profile's nodes, node1 and so on; None has sent no facts."""
    names = [f"node{number}" for number in range(1, len(nodes) + 1)]
    sent = {
        name: one.model_copy(update={"node": name})
        for name, one in zip(names, nodes, strict=True)
        if one is not None
    }
    return Group.of(facts.profile(**profile), names, sent)


def nic(mtu_bytes: int | None = 4096, *, netdev_mtu: int = 4200, **changes: object) -> Facts:
    """A node whose NIC has this active MTU; None: libibverbs does not tell."""
    ports = (
        ()
        if mtu_bytes is None
        else (VerbsPort(number=1, active_mtu_bytes=mtu_bytes, max_mtu_bytes=4096),)
    )
    verbs = VerbsDevice(name="mlx5_0", error=None, error_number=None, ports=ports)
    values = {"verbs": verbs, "netdevs": (facts.netdev(mtu_bytes=netdev_mtu),)} | changes
    return facts.facts(rdma_devices=(facts.rdma_device(**values),))


def mtu(*nodes: Facts | None) -> tuple[Finding, ...]:
    return differences.rail_mtu(group(*nodes), 0)


def test_one_mtu_at_all_ends_is_no_finding() -> None:
    assert mtu(nic(), nic(), nic()) == ()


def test_of_two_nodes_both_ends_are_named() -> None:
    (finding,) = mtu(nic(4096), nic(1024))
    assert (finding.code, finding.severity) == ("PORT-MTU-DIFFERS", Severity.FAIL)
    assert finding.where == Where(node="node1", nic="mlx5_0", peer="node2")
    assert finding.observed == "4096 at node1/mlx5_0; 1024 at node2/mlx5_0"


def test_of_many_nodes_those_that_differ_are_named() -> None:
    found = mtu(nic(), nic(1024), nic(), nic(2048), nic())
    assert [(one.where.text(), one.observed, one.expected, one.unit) for one in found] == [
        ("node2/mlx5_0 (with node1)", "1024", "4096", "bytes"),
        ("node4/mlx5_0 (with node1)", "2048", "4096", "bytes"),
    ]


def test_half_and_half_names_no_end_alone() -> None:
    (finding,) = mtu(nic(), nic(), nic(1024), nic(1024))
    assert finding.where == Where(node="node1", nic="mlx5_0", peer="node3")
    assert "1024 at node3/mlx5_0, node4/mlx5_0" in finding.observed
    assert finding.evidence["majority"] == "a tie: 2 each with 4096, 1024"


def test_interfaces_are_compared_when_libibverbs_is_silent_somewhere() -> None:
    assert mtu(nic(4096, netdev_mtu=9000), nic(None, netdev_mtu=9000)) == ()
    (finding,) = mtu(nic(4096, netdev_mtu=9000), nic(None, netdev_mtu=1500))
    assert finding.observed == "9000 at node1/mlx5_0; 1500 at node2/mlx5_0"


def test_an_mtu_that_cannot_be_read_is_not_judged() -> None:
    with pytest.raises(NotJudged, match="node2/mlx5_0: active MTU of port 1: no answer"):
        mtu(nic(), nic(None, netdevs=()))
    with pytest.raises(NotJudged, match="node2/mlx5_0: EIO"):
        mtu(nic(), nic(verbs=LOST, netdevs=()))


def test_a_difference_is_found_beside_an_mtu_that_cannot_be_read() -> None:
    (finding,) = mtu(nic(), nic(None, netdevs=()), nic(1024))
    assert finding.where.text() == "node1/mlx5_0 (with node3)"


def test_ports_that_have_a_finding_of_their_own_are_left_out() -> None:
    down = nic(256, ports=(facts.port(state="DOWN"),))
    missing = facts.facts(rdma_devices=())
    assert mtu(nic(), down, nic(), missing) == ()
    with pytest.raises(NotJudged, match="fewer than two"):
        mtu(nic(), down)


def test_one_node_has_nothing_to_compare() -> None:
    with pytest.raises(NotPromised, match="node1 is the only node of its profile"):
        mtu(nic())
    with pytest.raises(NotJudged, match="missing: node2"):
        mtu(nic(), None)
    with pytest.raises(NotPromised, match="no rail 1"):
        differences.rail_mtu(group(nic(), nic()), 1)


def test_firmware_is_compared_within_a_board() -> None:
    old, new = nic(firmware="28.39"), nic(firmware="28.43")
    other = nic(firmware="20.1", board="MT_0000000223")
    nodes = group(new, old, new, other)
    assert differences.boards(nodes) == ("MT_0000000223", "MT_0000000838")
    (finding,) = differences.firmware(nodes, "MT_0000000838")
    assert (finding.code, finding.severity) == ("PORT-FIRMWARE-DIFFERS", Severity.WARN)
    assert finding.where == Where(node="node2", nic="mlx5_0")
    assert finding.observed == "28.43 at node1/mlx5_0, node3/mlx5_0; 28.39 at node2/mlx5_0"
    with pytest.raises(NotPromised, match="only one NIC"):
        differences.firmware(nodes, "MT_0000000223")
    assert differences.firmware(group(new, new), "MT_0000000838") == ()
    with pytest.raises(NotJudged, match="node2/mlx5_0: EIO"):
        differences.firmware(group(new, nic(firmware=LOST)), "MT_0000000838")
    assert differences.boards(group(nic(board=None), nic(board=LOST))) == ()


def software(subject: str, *nodes: Facts) -> tuple[Finding, ...]:
    return differences.software(group(*nodes), subject)


def host(**changes: object) -> Facts:
    return facts.facts(host=facts.host(**changes))


def nvml(**changes: object) -> Facts:
    return facts.facts(nvml=facts.nvml(**changes))


def gpu_health_of(**changes: object) -> Facts:
    return nvml(gpus=(facts.gpu(health=gpu_health(**changes)),))


def pci(slot: str, **settings: object) -> Facts:
    """A node whose function at ``slot`` has these settings."""
    tree = facts.pci_tree()
    functions = tuple(
        one.model_copy(update={"settings": facts.settings(**settings)}) if one.slot == slot else one
        for one in tree.functions
    )
    return facts.facts(pci=facts.pci_tree(functions=functions))


def traffic_class(value: int | None) -> Facts:
    return nic(ports=(facts.port(traffic_class=value),))


DRIVER = facts.facts(nvidia=facts.nvidia_driver(version="570.1", open_module=False))
REDIRECTING = {"port_type": "downstream port", "acs": Acs(enabled=("ReqRedir",))}
ODD = {
    "os": host(os="Ubuntu 22.04.5 LTS"),
    "kernel": host(kernel="5.15.0"),
    "command-line": host(command_line="root=/dev/sda2 ro intel_iommu=on"),
    "nvidia-driver": DRIVER,
    "nvidia-module": DRIVER,
    "ofed": facts.facts(rdma_stack=facts.rdma_stack(ofed="DOCA-OFED-3.1")),
    "rdma-core": facts.facts(rdma_stack=facts.rdma_stack(rdma_core="50.0")),
    "iommu": host(iommu=Iommu(units=("dmar0",), default_domain="DMA")),
    "acs": pci(facts.NIC_PORT, **REDIRECTING),
    "read-request": pci(facts.NIC_SLOT, max_read_request_bytes=512),
    "payload": pci(facts.NIC_SLOT, max_payload_bytes=128),
    "relaxed-ordering": pci(facts.NIC_SLOT, relaxed_ordering=False),
    "traffic-class": traffic_class(106),
    "mig": nvml(gpus=(facts.gpu(mig="enabled"),)),
    "compute-mode": nvml(gpus=(facts.gpu(compute_mode="prohibited"),)),
    "ecc": gpu_health_of(ecc={"mode": "disabled"}),
    "persistence": gpu_health_of(persistence="off"),
    "power-limit": gpu_health_of(power={"limit_w": 500.0}),
    "confidential-computing": nvml(confidential_computing="on"),
}
# What the usual node does not have, others must.
USUAL = {
    "traffic-class": traffic_class(96),
    "confidential-computing": nvml(confidential_computing="off"),
}


@pytest.mark.parametrize(("subject", "odd"), ODD.items(), ids=ODD)
def test_what_differs_is_a_warning_that_names_who(subject: str, odd: Facts) -> None:
    same = USUAL.get(subject, facts.facts())
    assert software(subject, same, same, same) == ()
    (finding,) = software(subject, same, same, odd)
    assert (finding.code, finding.severity) == ("HOST-DRIFT", Severity.WARN)
    assert finding.where == Where(node="node3")
    assert finding.evidence["differ"] == "node3"
    (finding,) = software(subject, same, odd)
    assert finding.where == Where(node="node1", peer="node2")
    assert "a tie: 1 each with " in finding.expected


def test_every_subject_is_tried_above() -> None:
    assert set(differences.SUBJECTS) == set(ODD)


def test_without_the_host_collector_settings_of_pci_are_not_compared() -> None:
    blind = facts.facts(
        pci=facts.pci_tree(
            functions=tuple(
                one.model_copy(update={"settings": LOST}) for one in facts.pci_tree().functions
            )
        )
    )
    for subject in ("acs", "read-request", "payload", "relaxed-ordering"):
        with pytest.raises(NotJudged, match="EIO"):
            software(subject, blind, blind)


def test_gpus_that_differ_alike_on_all_nodes_are_no_drift() -> None:
    def node(*limits_w: float) -> Facts:
        gpus = [
            facts.gpu(f"0000:{number + 1:02x}:00.0", health=gpu_health(power={"limit_w": limit_w}))
            for number, limit_w in enumerate(limits_w)
        ]
        functions = tuple(facts.gpu_function(gpu.slot, parent=None) for gpu in gpus)
        return nvml(gpus=tuple(gpus)).model_copy(
            update={"pci": facts.pci_tree(functions=functions)}
        )

    mixed = node(700, 700, 500)
    assert software("power-limit", mixed, mixed) == ()
    (finding,) = software("power-limit", mixed, mixed, node(700, 500, 700))
    assert finding.where == Where(node="node3")
    assert "700 W (500 W at gpu1) at node3" in finding.observed


def test_vbios_is_compared_within_a_board() -> None:
    old, new = gpu_health_of(vbios="96.00.01"), gpu_health_of(vbios="96.00.02")
    other = gpu_health_of(vbios="1", board_part="900-OTHER")
    nodes = group(new, old, new, other)
    other_board, board = sorted(differences.gpu_boards(nodes), key=lambda one: one != "900-OTHER")
    (finding,) = differences.vbios(nodes, board)
    assert (finding.code, finding.severity) == ("GPU-VBIOS-DIFFERS", Severity.WARN)
    assert finding.where == Where(node="node2", gpu="gpu0")
    assert finding.observed == "96.00.02 at node1/gpu0, node3/gpu0; 96.00.01 at node2/gpu0"
    assert finding.evidence["differ"] == "node2/gpu0"
    with pytest.raises(NotPromised, match="only one GPU"):
        differences.vbios(nodes, other_board)
    assert differences.vbios(group(new, new), board) == ()
    with pytest.raises(NotJudged, match="node2/gpu0: EIO"):
        differences.vbios(group(new, gpu_health_of(vbios=LOST)), board)
    nameless = gpu_health_of(board_part=None)
    assert differences.gpu_boards(group(nameless, nameless)) == ("NVIDIA H200",)


def test_words_that_differ_on_healthy_nodes_are_no_drift() -> None:
    one = host(command_line="BOOT_IMAGE=/a root=UUID=1 iommu=pt console=ttyS0 pci=realloc")
    two = host(command_line="pci=realloc root=UUID=2 iommu=pt quiet")
    assert software("command-line", one, two) == ()


def test_software_that_could_not_be_read_is_not_judged() -> None:
    with pytest.raises(NotJudged, match="node2: EIO"):
        software("os", facts.facts(), host(os=LOST))
    (finding,) = software("os", facts.facts(), host(os=LOST), host(os="Debian"), facts.facts())
    assert finding.where == Where(node="node3")
    assert finding.evidence["unreadable"] == "node2: EIO"


def test_software_that_no_node_has_is_not_compared() -> None:
    without = facts.facts(nvidia=None)
    with pytest.raises(NotPromised, match="no node has nvidia-driver"):
        software("nvidia-driver", without, without)
    # That it is missing on one is a finding of that node, if it is promised.
    assert software("nvidia-driver", facts.facts(), without, facts.facts()) == ()


@pytest.mark.parametrize(
    ("offset_s", "error_s", "finding", "judged"),
    [
        (0.0, 0.001, False, True),
        (0.9, 0.2, False, True),
        (-1.1, 0.2, False, True),
        (1.3, 0.2, True, True),
        (-3.2, 0.01, True, True),
        (0.5, 2.0, False, False),
        (86400.0, 5.0, True, True),
    ],
)
def test_a_clock_is_judged_by_what_is_certain(
    offset_s: float, error_s: float, finding: bool, judged: bool
) -> None:
    if not judged:
        with pytest.raises(NotJudged, match="too uncertain to tell"):
            differences.clock("node2", "node1", offset_s, error_s)
        return
    found = differences.clock("node2", "node1", offset_s, error_s)
    assert (found is not None) == finding
    if found is not None:
        assert (found.code, found.severity) == ("HOST-CLOCK-OFFSET", Severity.WARN)
        assert found.where == Where(node="node2", peer="node1")
        way = "behind" if offset_s > 0 else "ahead of"
        assert f"s {way} node1, give or take" in found.observed


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
def test_odd_are_those_without_the_value_of_most(values: list[str]) -> None:
    readings = Readings()
    for number, value in enumerate(values):
        readings.add(Where(node=f"n{number}"), value)
    usual = readings.usual
    if usual is None:
        assert all(2 * values.count(value) <= len(values) for value in "abc")
        assert len(readings.odd) == len(values)
    else:
        assert 2 * values.count(usual) > len(values)
        assert len(readings.odd) == len(values) - values.count(usual)
    assert readings.alike == (len(set(values)) == 1)


def test_that_most_have_none_is_told_from_a_tie() -> None:
    three = nic(512), nic(512), nic(1024), nic(2048), nic(4096)
    (finding,) = mtu(*three)
    assert finding.evidence["majority"] == "no value is on more than half: 512 on 2 of 5"


def test_a_long_list_is_cut_and_counted() -> None:
    readings = Readings()
    for number in range(100):
        readings.add(Where(node=f"n{number}"), str(number % 50))
    text = readings.told()
    assert text.endswith("and 42 more values")
    readings = Readings()
    for number in range(100):
        readings.add(Where(node=f"n{number}"), "x")
    assert readings.told().endswith(f", n{MAX_LISTED - 1} and {100 - MAX_LISTED} more")
