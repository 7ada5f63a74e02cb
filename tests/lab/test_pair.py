"""Faults between two ends, over real Soft-RoCE in real guests: each is read back as what it is.

The program of a pair and its responder run as in a node's run, without the checks around them.
Faults of the whole run, and those that checks of nodes find, are in the other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.findings.model import Where
from gdrcheck.rules.counters import Counted, port_errors
from gdrcheck.transfer import ATOMICS, OPERATIONS
from lab import api
from lab.emulated_gpu.config import Corrupt, Faults
from lab.emulated_gpu.control import configuration, configured
from tests.lab.conftest import IMAGE
from tests.lab.driver.scenario import DEVICE, ITERATIONS, SIZES_BYTES, Place
from tests.lab.drivers import Drivers, drivers, local_gpu
from tests.lab.warm import warm

pytestmark = pytest.mark.lab
LAST_SIZE = SIZES_BYTES[-1]
# Without relaxed ordering and with it.
MESSAGES_OF_A_SIZE = 2 * ITERATIONS
# Two-sided, one-sided, and the one in which the sink's NIC asks.
KINDS = ("SEND", "WRITE", "READ")
NEAR_GPU, FAR_GPU = "node1/gpu0/rxe0 (with node2)", "node2/gpu0/rxe0 (with node1)"
FAR_PORT = "node2/rxe0 (with node1)"
# The first of a port's GIDs is its link-local one, which no routed address of the lab reaches.
LINK_LOCAL = 0


@pytest.fixture(scope="module")
def ends(the_lab: api.Lab, results: Path) -> Iterator[Drivers]:
    """Drivers in warm containers with GPUs on node1 and node2."""
    with (
        warm(the_lab.nodes[:2], IMAGE, results, name="pairs", gpus=True) as containers,
        drivers(containers) as made,
    ):
        yield made


@contextmanager
def gpu_faults(node: api.Node, faults: Faults) -> Iterator[None]:
    """The GPU of the node's rail with these faults."""
    with configured(node, replace(configuration(node), gpu_faults={0: faults})):
        yield


@contextmanager
def loss(node: api.Node, percent: int) -> Iterator[None]:
    """A node that loses so much of what it sends on the data network."""
    node.ssh(f"sudo tc qdisc add dev data0 root netem loss {percent}%", check=True)
    try:
        yield
    finally:
        node.ssh("sudo tc qdisc del dev data0 root", check=True)


def wait_for_port(node: api.Node, state: str) -> None:
    """Returns when the port of the node is in this state."""
    file = f"/sys/class/infiniband/{DEVICE}/ports/1/state"
    command = f"timeout 30 sh -c 'until grep -q {state} {file}; do sleep 0.2; done'"
    node.ssh(command, check=True)


def counters(node: api.Node) -> dict[str, int]:
    """The counters of the node's port."""
    folder = f"/sys/class/infiniband/{DEVICE}/ports/1/hw_counters"
    said = node.ssh(f"cd {folder} && grep . *", check=True)
    pairs = (line.partition(":") for line in said.stdout.splitlines())
    return {name: int(value) for name, _, value in pairs}


def test_every_cell_of_healthy_ends_passes(ends: Drivers) -> None:
    near, far = ({"gpu": local_gpu(node, "dmabuf", "peermem")} for node in ends.nodes)
    results = ends.run(ends.scenario(near=near, far=far, operations=(*OPERATIONS, *ATOMICS)))
    assert len(results.cells) == 4 * 7 * 2
    assert results.passed("host-host", "host-gpu", "gpu-host", "gpu-gpu"), results.text()
    assert results.ended_by == ""


# --- data -----------------------------------------------------------------------------------------


def test_one_wrong_byte_at_the_end_of_the_last_message_is_found_in_the_sinks_gpu(
    ends: Drivers,
) -> None:
    # Of the last message of one exchange; when that is repeated all is right.
    once = Corrupt(LAST_SIZE, after=MESSAGES_OF_A_SIZE - 1, times=1)
    scenario = ends.scenario(
        modes=("host-host", "host-gpu"), operations=("WRITE",), directions=("out",)
    )
    with gpu_faults(ends.nodes[1], Faults(corrupt_sink=once)):
        results = ends.run(scenario)
    assert set(results.found) == {("PAIR-DATA-CORRUPT", FAR_GPU)}, results.text()
    finding = results.found["PAIR-DATA-CORRUPT", FAR_GPU].finding
    assert finding is not None
    assert str(LAST_SIZE - 1) in finding.observed
    assert "sink" in finding.evidence["role"]
    assert results.passed("host-host")


def test_wrong_bytes_from_a_gpu_are_its_end_in_the_role_of_the_source(ends: Drivers) -> None:
    scenario = ends.scenario(operations=KINDS, directions=("in",))
    with gpu_faults(ends.nodes[1], Faults(corrupt_source=Corrupt(LAST_SIZE))):
        results = ends.run(scenario)
    ((code, place),) = results.found
    assert place == FAR_GPU, results.text()
    assert code in ("PAIR-DATA-CORRUPT", "PAIR-SOURCE-CHANGED")
    finding = results.found[code, place].finding
    assert finding is not None
    assert "source" in finding.evidence["role"]
    assert results.passed("host-host", "host-gpu"), results.text()
    assert results.blockers == {f"{code} at {place}"}


# --- access ---------------------------------------------------------------------------------------


def test_a_gpu_that_no_nic_reads_and_one_that_only_refuses_to_be_read_by_others(
    ends: Drivers,
) -> None:
    # node1's GPU is the source of what goes out, node2's of what comes in.
    with (
        gpu_faults(ends.nodes[0], Faults(refuse=["read"])),
        gpu_faults(ends.nodes[1], Faults(refuse=["source"])),
    ):
        results = ends.run(ends.scenario(operations=KINDS, fresh=True))
    assert set(results.found) == {
        ("PAIR-READ-REFUSED", NEAR_GPU),
        ("PAIR-GPU-READ", FAR_GPU),
    }, results.text()
    assert results.passed("host-host", "host-gpu"), results.text()
    assert results.blockers == {
        f"PAIR-READ-REFUSED at {NEAR_GPU}",
        f"PAIR-GPU-READ at {FAR_GPU}",
    }


def test_a_gpu_that_no_nic_writes(ends: Drivers) -> None:
    with gpu_faults(ends.nodes[1], Faults(refuse=["sink"])):
        results = ends.run(ends.scenario(operations=KINDS, fresh=True, directions=("out",)))
    assert set(results.found) == {("PAIR-GPU-WRITE", FAR_GPU)}, results.text()
    assert results.passed("host-host", "gpu-host"), results.text()


# --- the other end --------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", ["rkey", "length", "pattern"])
def test_a_responder_that_lies_is_named(ends: Drivers, lie: str) -> None:
    worker = ("-m", "tests.lab.driver.bad_worker", lie)
    results = ends.run(
        ends.scenario(gpus=False, modes=("host-host",), operations=KINDS, far={"worker": worker})
    )
    places = {place for _, place in results.found}
    assert places == {FAR_PORT}, results.text()
    assert results.errors == []


@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("before_connect", "connect"),
        ("between_rtr_and_rts", "connect"),
        ("in_a_transfer", "go"),
    ],
)
def test_a_responder_that_dies_is_an_error_with_its_side_and_step(
    ends: Drivers, when: str, step: str
) -> None:
    worker = ("-m", "tests.lab.driver.bad_worker", when)
    results = ends.run(
        ends.scenario(gpus=False, modes=("host-host",), operations=KINDS, far={"worker": worker})
    )
    assert results.ended_by == "the responder died"
    assert results.found == {}
    assert len(results.errors) + len(results.blockers) >= 1, results.text()
    assert not any(cell.passed for cell in results.cells)
    assert "node2" in results.errors[0]
    assert step in results.errors[0]


# --- the way between ------------------------------------------------------------------------------


def test_a_wrong_gid_is_the_gid_and_not_the_fabric(ends: Drivers) -> None:
    scenario = ends.scenario(
        gpus=False, modes=("host-host",), operations=KINDS, far={"gid_index": LINK_LOCAL}
    )
    results = ends.run(scenario)
    assert {code for code, _ in results.found} == {"PAIR-GID-MISMATCH"}, results.text()
    assert not any(cell.passed for cell in results.cells)


def test_every_hundredth_packet_lost_leaves_the_data_right_and_is_found_at_the_port(
    ends: Drivers,
) -> None:
    node = ends.nodes[0]
    # Some 25,000 packets: a few losses in a short run are not judged.
    scenario = ends.scenario(
        gpus=False,
        modes=("host-host",),
        operations=("SEND", "WRITE"),
        directions=("out",),
        sizes_bytes=(1 << 20,),
        iterations=24,
    )
    before = counters(node)
    with loss(node, 1):
        results = ends.run(scenario)
    assert results.passed("host-host"), results.text()
    after = counters(node)
    where = Where(node=node.name, nic=DEVICE)
    finding = port_errors(Counted(where, before, after, unreadable={}))
    assert finding is not None, (before, after)
    assert finding.code == "PORT-ERROR-RATE"


def test_half_of_the_packets_lost_is_retries_exceeded_within_the_deadline(ends: Drivers) -> None:
    scenario = ends.scenario(
        gpus=False,
        modes=("host-host",),
        operations=KINDS,
        directions=("out",),
        # Many packets each, all of which must arrive.
        sizes_bytes=(1 << 18,),
    )
    with loss(ends.nodes[0], 50), loss(ends.nodes[1], 50):
        results = ends.run(scenario)
    assert {code for code, _ in results.found} == {"PAIR-RETRY-EXCEEDED"}, results.text()
    assert results.seconds < scenario.deadlines.rail_s


def test_a_link_that_goes_down_and_comes_back_is_one_case_and_its_port(ends: Drivers) -> None:
    node = ends.nodes[1]
    met = Place(mode="host-host", operation="SEND_WITH_IMM", direction="out")

    def unplug(place: Place) -> None:
        if place == Place(mode="host-host", operation="SEND", direction="in"):
            node.data_link(False)
            wait_for_port(node, "DOWN")
        if place == met:
            node.data_link(True)
            wait_for_port(node, "ACTIVE")

    try:
        results = ends.run(ends.scenario(gpus=False, modes=("host-host",), paced=True), unplug)
    finally:
        node.data_link(True)
    assert set(results.found) == {("PORT-NOT-ACTIVE", "node2/rxe0")}, results.text()
    assert [cell.place for cell in results.cells if not cell.passed] == [met], results.text()
