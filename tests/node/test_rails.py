"""What a node tells the others of its rails."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdrcheck.facts import Facts, MigDevice, PciTree
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.node.local_gpus import local_gpus
from gdrcheck.node.rails import NEEDED, NEEDED_BY_GPUS, NEEDED_BY_METHODS, ready_rails
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.frames import MAX_TEXT_BYTES
from gdrcheck.pairing.items import rail_has_gpu
from gdrcheck.pairing.messages import Ready
from gdrcheck.profile import Profile, Waiver
from gdrcheck.results import waivers
from gdrcheck.results.cases import CaseResult
from tests import facts as builders
from tests.node.support import facts, profile, run_spec

CHECKS = Path(__file__).resolve().parents[2] / "checks/node"
RXE0 = Where(node="node1", nic="rxe0")


def machine() -> Facts:
    """A node with rxe0, whose port is active."""
    port = builders.port(rate_gbps=10, link_layer="ethernet")
    device = builders.rdma_device(
        "rxe0", driver="software", slot=None, software=True, ports=(port,)
    )
    return facts().model_copy(update={"rdma_devices": (device,)})


def case(outcome: Outcome, *, where: Where = RXE0, **changes: object) -> CaseResult:
    """A case about rxe0."""
    values: dict[str, Any] = {
        "suite": "node1",
        "id": "port_active[node1/rxe0]",
        "classname": "node1.ports",
        "where": where,
        "outcome": outcome,
    }
    return CaseResult(**(values | changes))


def finding(severity: Severity = Severity.FAIL) -> Finding:
    """A port that is down."""
    return Finding(
        code="PORT-NOT-ACTIVE", where=RXE0, observed="DOWN", expected="ACTIVE", severity=severity
    )


@pytest.mark.parametrize(
    ("cases", "blocked_by"),
    [
        ([], None),
        ([case(Outcome.PASSED), case(Outcome.SKIPPED), case(Outcome.NOT_JUDGED)], None),
        ([case(Outcome.FAILED, findings=[finding()])], "PORT-NOT-ACTIVE at node1/rxe0"),
        ([case(Outcome.FAILED, findings=[finding(Severity.WARN)])], None),
        ([case(Outcome.ERROR)], "error in port_active[node1/rxe0]"),
        ([case(Outcome.BLOCKED, blocked_by="MR-HOST-FAILED at x")], "MR-HOST-FAILED at x"),
        (
            [
                case(Outcome.BLOCKED, blocked_by="that"),
                case(Outcome.FAILED, findings=[finding()]),
            ],
            "PORT-NOT-ACTIVE at node1/rxe0",
        ),
        ([case(Outcome.ERROR, where=Where(node="node1", nic="rxe1"))], None),
        ([case(Outcome.ERROR, where=Where(node="node1"))], None),
        ([case(Outcome.FAILED, id="port_rate[node1/rxe0]", findings=[finding()])], None),
        ([case(Outcome.ERROR, id="pci_link_width[node1/rxe0]")], None),
    ],
)
def test_what_blocks_a_rail(cases: list[CaseResult], blocked_by: str | None) -> None:
    (rail,) = ready_rails(profile(), machine(), cases)
    assert (rail.id, rail.nic, rail.blocked_by) == (0, "rxe0", blocked_by)


def test_a_waived_failure_does_not_block() -> None:
    waiver = Waiver(code="PORT-NOT-ACTIVE", where="node1/*", reason="spare", until=date(2026, 1, 2))
    failed = case(Outcome.FAILED, findings=[finding()])
    spec = run_spec(profiles={"soft": profile(waivers=(waiver,))})
    waived = waivers.apply(spec, [failed])
    assert waived[0].waived
    (rail,) = ready_rails(profile(), machine(), waived)
    assert rail.blocked_by is None


def test_what_a_waived_failure_blocks_still_blocks_the_rail() -> None:
    waiver = Waiver(code="PORT-NOT-ACTIVE", where="node1/*", reason="spare", until=date(2026, 1, 2))
    failed = case(Outcome.FAILED, findings=[finding()])
    blocked = case(
        Outcome.BLOCKED, id="device_opens[node1/rxe0]", blocked_by="PORT-NOT-ACTIVE at node1/rxe0"
    )
    spec = run_spec(profiles={"soft": profile(waivers=(waiver,))})
    waived = waivers.apply(spec, [failed, blocked])
    assert [one.unmeasured for one in waived] == [False, False]
    (rail,) = ready_rails(profile(), machine(), waived)
    assert rail.blocked_by == "PORT-NOT-ACTIVE at node1/rxe0"


def test_no_rail_is_ready_when_nothing_tells_which_device_is_whose() -> None:
    """rxe0 is there; whether it is rail 0 or rail 1, nobody can say."""
    two = {"count": 2, "nics": [{"name": "rxe*"}], "port_rate_gbps": 10, "link_layer": "ethernet"}
    promised = profile(rails=two)
    told = ready_rails(promised, machine(), [])
    assert [(rail.nic, rail.blocked_by) for rail in told] == [
        (
            f"rail{number}",
            f"no RDMA device for rail {number}: 1 devices match, and 2 rails are promised",
        )
        for number in range(2)
    ]
    blocker = "PORT-DEVICE-MISSING at node1"
    cases = [
        case(
            Outcome.BLOCKED,
            id=f"device_present[node1/rail{number}]",
            where=Where(node="node1", nic=f"rail{number}"),
            blocked_by=blocker,
        )
        for number in range(2)
    ]
    told = ready_rails(promised, machine(), cases)
    assert {rail.blocked_by for rail in told} == {blocker}


def test_without_facts_every_promised_rail_is_blocked() -> None:
    (rail,) = ready_rails(profile(), None, [])
    assert rail.blocked_by == "facts were not read"


def test_the_checks_that_a_transfer_stands_on_exist() -> None:
    source = "".join(path.read_text() for path in CHECKS.glob("check_*.py"))
    needed = (*NEEDED, *NEEDED_BY_GPUS, *NEEDED_BY_METHODS)
    assert [name for name in needed if f"def check_{name}(" not in source] == []


# --- memory of GPUs -------------------------------------------------------------------------------

GPU0 = Where(node="node1", gpu="gpu0")
PAIR = Where(node="node1", gpu="gpu0", nic="mlx5_0")


def gpu_profile(**changes: object) -> Profile:
    """The healthy node's, with one GPU on its one rail."""
    return builders.profile(**changes)


def gpu_case(name: str, outcome: Outcome = Outcome.PASSED, **changes: object) -> CaseResult:
    """A case of the healthy node: of the GPU alone, or with a method of the GPU and its NIC."""
    check, _, method = name.partition(" ")
    where = PAIR if method else GPU0
    place = f"{where.text()}, {method}" if method else where.text()
    return case(outcome, **({"where": where, "id": f"{check}[{place}]"} | changes))


def works(method: str) -> list[CaseResult]:
    """The cases of a method that works."""
    return [gpu_case(f"{check} {method}") for check in NEEDED_BY_METHODS]


def told_of(cases: list[CaseResult], **promises: object) -> tuple[tuple[str, ...], str | None]:
    """The methods of the healthy node's rail, and what blocks its GPU."""
    (rail,) = ready_rails(gpu_profile(**promises), builders.facts(), cases)
    assert (rail.gpu, rail.blocked_by) == ("gpu0", None)
    return rail.methods, rail.gpu_blocked_by


DMABUF_FAILS = [
    gpu_case(
        "gpu_memory_registers dmabuf",
        Outcome.FAILED,
        findings=[
            Finding(code="MR-GPU-FAILED", where=PAIR, observed="errno 22", expected="registered")
        ],
    ),
    gpu_case("gpu_memory_moves dmabuf", Outcome.BLOCKED, blocked_by="MR-GPU-FAILED at there"),
]


@pytest.mark.parametrize(
    ("registration", "cases", "methods"),
    [
        ("any", works("dmabuf") + works("peermem"), ("dmabuf",)),
        ("any", works("peermem"), ("peermem",)),
        ("any", DMABUF_FAILS + works("peermem"), ("peermem",)),
        ("both", works("dmabuf") + works("peermem"), ("dmabuf", "peermem")),
        ("both", DMABUF_FAILS + works("peermem"), ("peermem",)),
        ("peermem", works("dmabuf") + works("peermem"), ("peermem",)),
        ("dmabuf", works("dmabuf"), ("dmabuf",)),
    ],
)
def test_gpu_memory_is_moved_by_what_was_shown_to_work(
    registration: str, cases: list[CaseResult], methods: tuple[str, ...]
) -> None:
    assert told_of(cases, registration=registration) == (methods, None)


@pytest.mark.parametrize(
    ("cases", "registration", "blocked_by"),
    [
        (DMABUF_FAILS, "dmabuf", "MR-GPU-FAILED at node1/gpu0/mlx5_0"),
        (works("peermem"), "dmabuf", "no method was shown to work: dmabuf"),
        ([], "any", "no method was shown to work: dmabuf, peermem"),
        (
            [gpu_case("gpu_memory_registers dmabuf")],
            "dmabuf",
            "no method was shown to work: dmabuf",
        ),
        (
            [gpu_case("gpu_opens", Outcome.ERROR), *works("dmabuf")],
            "any",
            "error in gpu_opens[node1/gpu0]",
        ),
        (
            [
                case(Outcome.ERROR, where=Where(node="node1"), id="cuda_starts[node1]"),
                *works("dmabuf"),
            ],
            "any",
            "error in cuda_starts[node1]",
        ),
        (
            [gpu_case("gpu_pattern", Outcome.BLOCKED, blocked_by="that"), *works("dmabuf")],
            "any",
            "that",
        ),
    ],
)
def test_what_blocks_the_memory_of_a_gpu(
    cases: list[CaseResult], registration: str, blocked_by: str
) -> None:
    assert told_of(cases, registration=registration) == ((), blocked_by)


def test_another_gpu_or_nic_blocks_nothing() -> None:
    others = [
        gpu_case("gpu_opens", Outcome.ERROR, where=Where(node="node1", gpu="gpu1")),
        gpu_case(
            "gpu_memory_registers dmabuf",
            Outcome.ERROR,
            where=Where(node="node1", gpu="gpu0", nic="mlx5_1"),
        ),
        gpu_case("gpu_model", Outcome.FAILED, findings=[finding()]),
    ]
    assert told_of([*others, *works("dmabuf")]) == (("dmabuf",), None)


def test_a_method_that_is_shown_for_another_nic_is_not_shown_for_this_one() -> None:
    other = Where(node="node1", gpu="gpu0", nic="mlx5_1")
    cases = [replace(one, where=other) for one in works("dmabuf")]
    assert told_of(cases)[0] == ()


def test_gpus_that_are_missing_block_every_rail_of_gpus() -> None:
    """Which of them are left is unknown, so no rail has one, and each owes one all the same."""
    tree = builders.pci_tree()
    left = tuple(one for one in tree.functions if one.slot != builders.GPU_SLOT)
    found = builders.facts(pci=PciTree(functions=left, misplaced={}))
    cases = [
        gpu_case("gpu_present", Outcome.FAILED, findings=[gone()], where=GPU0),
        case(
            Outcome.BLOCKED,
            where=Where(node="node1", nic="mlx5_0"),
            id="gpu_memory_moves[node1/mlx5_0, dmabuf]",
            blocked_by="GPU-MISSING at node1/gpu0",
        ),
    ]
    (rail,) = ready_rails(gpu_profile(), found, cases)
    assert (rail.gpu, rail.methods) == (None, ())
    assert rail.gpu_blocked_by == "GPU-MISSING at node1/gpu0"
    assert rail_has_gpu(gpu_profile(), rail)


def gone() -> Finding:
    """A GPU that is not there."""
    return Finding(code="GPU-MISSING", where=GPU0, observed="none on PCI", expected="1")


def test_a_rail_for_which_no_gpu_is_promised_owes_none() -> None:
    nics = [{"name": "mlx5_*"}]
    promised = gpu_profile(rails={"count": 2, "nics": nics})
    devices = tuple(builders.rdma_device(name) for name in ("mlx5_0", "mlx5_1"))
    told = ready_rails(promised, builders.facts(rdma_devices=devices), works("dmabuf"))
    assert [(rail.gpu, rail.gpu_blocked_by) for rail in told] == [("gpu0", None), (None, None)]
    assert [rail_has_gpu(promised, rail) for rail in told] == [True, False]
    (rail,) = ready_rails(profile(), machine(), [])
    assert (rail.methods, rail.gpu_blocked_by) == ((), None)


def test_without_facts_gpus_that_are_promised_are_blocked() -> None:
    (rail,) = ready_rails(gpu_profile(), None, [])
    assert rail.gpu_blocked_by == "facts were not read"


def test_a_blocked_gpu_is_not_opened_and_a_usable_one_is_found_by_its_uuid() -> None:
    slices = (MigDevice(uuid="MIG-1", name="1g"),)
    found = builders.facts(
        nvml=builders.nvml(gpus=(builders.gpu(mig="enabled", mig_devices=slices),))
    )
    told = ready_rails(gpu_profile(), found, works("dmabuf"))
    (gpu,) = local_gpus(gpu_profile(), found, told).values()
    assert (gpu.slot, gpu.methods) == (builders.GPU_SLOT, ("dmabuf",))
    assert gpu.uuids == ("MIG-1", builders.gpu().uuid)
    assert (gpu.bar1_bytes, gpu.far, gpu.emulated) == (256 << 30, True, False)
    assert local_gpus(gpu_profile(), found, ready_rails(gpu_profile(), found, [])) == {}
    assert not gpu.exclusive
    alone = builders.nvml(gpus=(builders.gpu(compute_mode="exclusive_process"),))
    assert local_gpus(gpu_profile(), builders.facts(nvml=alone), told)[0].exclusive
    near = gpu_profile(transfers={"beyond_2gib": False})
    assert not local_gpus(near, found, told)[0].far


# --- addresses ------------------------------------------------------------------------------------

LINK_LOCAL = "fe80:0000:0000:0000:0000:0000:0000:0001"
GLOBAL = "2001:0db8:0000:0000:0000:0000:0000:0001"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
MAPPED_LINK_LOCAL = "0000:0000:0000:0000:0000:ffff:a9fe:0001"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


@pytest.mark.parametrize(
    ("gids", "family", "address"),
    [
        ([LINK_LOCAL, GLOBAL, MAPPED], "any", "10.0.0.1"),
        ([LINK_LOCAL, GLOBAL, MAPPED], "ipv6", "2001:db8::1"),
        ([LINK_LOCAL, GLOBAL], "any", "2001:db8::1"),
        ([LINK_LOCAL, GLOBAL], "ipv4", None),
        ([LINK_LOCAL, MAPPED_LINK_LOCAL, EMPTY], "any", None),
    ],
)
def test_the_address_of_a_port_is_that_of_its_gid(
    gids: list[str], family: str, address: str | None
) -> None:
    entries = [
        {"index": index, "gid": gid, "type": "RoCE v2", "netdev": "eth1"}
        for index, gid in enumerate(gids)
    ]
    port = builders.port(link_layer="ethernet", gids=entries)
    device = builders.rdma_device("rxe0", slot=None, software=True, ports=(port,))
    found = facts().model_copy(update={"rdma_devices": (device,)})
    (rail,) = ready_rails(profile(gid={"family": family}), found, [])
    assert rail.data_address == address


def test_a_port_of_infiniband_has_the_address_of_its_interface() -> None:
    """Its GIDs are none. Of a device with two interfaces nobody knows which is the port's."""
    addresses = {"lo": "127.0.0.1", "ibs1": "10.1.0.1"}
    for devices, known, address in (
        ((builders.rdma_device(),), {}, None),
        ((builders.rdma_device(),), addresses, "10.1.0.1"),
        (
            (builders.rdma_device(netdevs=(builders.netdev(), builders.netdev("ibs2"))),),
            {**addresses, "ibs2": "10.2.0.1"},
            None,
        ),
    ):
        found = builders.facts(rdma_devices=devices)
        (rail,) = ready_rails(gpu_profile(), found, [], known)
        assert rail.data_address == address


def test_what_a_node_tells_of_many_rails_fits_a_frame() -> None:
    """However long the reasons are: 64 rails, each blocked twice, and none to be judged."""
    nics = [{"name": "mlx5_*"}]
    promised = gpu_profile(
        gpus={"count": 64, "model": "x"}, rails={"count": 64, "nics": nics}, registration="both"
    )
    devices = tuple(builders.rdma_device(f"mlx5_{number:058}") for number in range(64))
    found = builders.facts(rdma_devices=devices, emulated=True)
    long = "x" * 500
    cases = [
        case(
            Outcome.BLOCKED,
            where=Where(node="node1", nic=device.name),
            id=f"{check}[node1/{device.name}]",
            blocked_by=long,
        )
        for device in devices
        for check in ("device_opens", "gpu_memory_moves")
    ]
    told = ready_rails(promised, found, cases)
    assert len(told) == 64
    assert all(rail.blocked_by and rail.gpu_blocked_by for rail in told)
    assert len(Ready(rails=told).model_dump_json()) < MAX_TEXT_BYTES
