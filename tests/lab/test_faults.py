"""Faults inside a run, in warm containers: each is read back as its own finding, and no other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.worker_pair import worker_pair
from gdrcheck.transfer import RegionKey, Variant
from gdrcheck.verbs import protocol
from lab import api
from tests.lab.conftest import IMAGE
from tests.lab.warm import Merged, Warm, spec, warm

pytestmark = pytest.mark.lab
ALONE = {"pairs": "none"}
TWO_RAILS = {
    "rails": {
        "count": 2,
        "nics": [{"name": "rxe0"}, {"name": "rxe1"}],
        "port_rate_gbps": 2.5,
        "link_layer": "ethernet",
    }
}


def _named(merged: Merged, *outcomes: str) -> set[str]:
    """The names of the cases with one of these outcomes."""
    return {name for name, outcome in merged.outcomes.items() if outcome in outcomes}


def test_two_devices_promised_and_one_there_is_one_finding(pair: Warm) -> None:
    merged = pair.start(spec(pair.nodes[:1], {**ALONE, **TWO_RAILS})).finish()
    assert merged.codes == [("PORT-DEVICE-MISSING", "node1/rxe1")]
    blocked = _named(merged, "blocked")
    assert blocked >= {
        "port_active[node1/rxe1]",
        "port_rate[node1/rxe1]",
        "port_link_layer[node1/rxe1]",
        "device_opens[node1/rxe1]",
        "gid_usable[node1/rxe1]",
        "memlock_effective[node1/rxe1]",
        "host_memory_registers[node1/rxe1, host]",
    }
    assert not [name for name in blocked if "[node1/rxe1" not in name]
    assert _named(merged, "failed", "error") == {"device_present[node1/rxe1]"}
    assert merged.outcomes["host_memory_registers[node1/rxe0, host]"] == "passed"
    assert merged.summary["verdict"] == "FAIL"


def test_a_deleted_link_names_its_node_and_blames_no_other(pair: Warm) -> None:
    node1, node2 = pair.nodes[:2]
    node1.ssh("sudo rdma link delete rxe0", check=True)
    try:
        merged = pair.start(spec([node1, node2])).finish()
    finally:
        node1.ssh("sudo rdma link add rxe0 type rxe netdev data0", check=True)
    assert merged.codes == [("PORT-DEVICE-MISSING", "node1/rxe0")]
    pairs = {name: out for name, out in merged.outcomes.items() if name.startswith("pingpong")}
    assert len(pairs) == 10
    assert set(pairs.values()) == {"blocked"}
    wrong = _named(merged, "failed", "error", "blocked")
    assert not [name for name in wrong if "[node2" in name and " -> " not in name]
    # Two nodes are one pair, and that one could not be measured.
    assert _named(merged, "failed", "error") == {
        "device_present[node1/rxe0]",
        "pairs_measured[fleet]",
    }
    assert _named(merged, "passed") >= {
        "port_active[node2/rxe0]",
        "host_memory_registers[node2/rxe0, host]",
        "port_counters[node2/rxe0]",
    }


def test_a_data_link_that_goes_down_is_found_at_its_own_node(pair: Warm) -> None:
    node1, node2 = pair.nodes[:2]
    run = pair.start(spec([node1, node2]))
    try:
        run.wait_for(node1, "SEND 1 B as source", file="rail-0.log")
        node2.data_link(False)
        merged = run.finish()
    finally:
        node2.data_link(True)
    # The transfer that met it says so, and whoever looks at the port afterwards; nobody else does.
    assert set(merged.codes) == {("PORT-NOT-ACTIVE", "node2/rxe0")}
    elsewhere = [name for name in _named(merged, "failed", "error") if "pingpong" not in name]
    assert set(elsewhere) <= {"port_counters[node2/rxe0]"}
    pairs = [out for name, out in merged.outcomes.items() if name.startswith("pingpong")]
    # Those before the link went down passed; the one that met it failed; the rest is blocked.
    assert pairs.count("failed") == 1
    assert pairs[pairs.index("failed") + 1 :] == ["blocked"] * pairs.count("blocked")
    assert pairs.count("blocked") >= 1


@pytest.mark.parametrize(
    ("rights", "codes"),
    [
        (("--ulimit", "memlock=8388608:8388608"), [("HOST-CAP-IPCLOCK", "node1/rxe0")]),
        (("--user", "1000", "--ulimit", "memlock=-1:-1"), []),
    ],
    ids=["root without the capability", "another user with an unlimited limit"],
)
def test_the_memlock_limit_is_judged_by_its_effect(
    pair: Warm, results: Path, rights: tuple[str, ...], codes: list[tuple[str, str]]
) -> None:
    with warm(pair.nodes[:1], IMAGE, results, rights=rights, name="limited") as containers:
        merged = containers.start(spec(pair.nodes[:1], ALONE)).finish()
    assert merged.codes == codes
    expected = "failed" if codes else "passed"
    assert merged.outcomes["memlock_effective[node1/rxe0]"] == expected
    registers = merged.outcomes["host_memory_registers[node1/rxe0, host]"]
    assert registers == ("blocked" if codes else "passed")


def test_a_flipped_byte_is_caught_on_the_wire(pair: Warm) -> None:
    node1, node2 = pair.nodes[:2]
    host = RegionKey(memory="host", method="host")
    arm = {
        "operation": "WRITE_WITH_IMM",
        "variants": (Variant(source=host, sink=host),),
        "sizes_bytes": (4097,),
        "iterations": 2,
        "run_tag": 7,
        "direction": 0,
        "flip": {"size_bytes": 4097, "iteration": 1, "offset": 4096},
    }
    with worker_pair(node1, node2, protocol.Open(device="rxe0"), IMAGE) as (ends, _):
        ends.both(
            protocol.Arm.model_validate({**arm, "role": "source"}),
            protocol.Arm.model_validate({**arm, "role": "sink"}),
            protocol.Nothing,
        )
        _, sink = ends.both(protocol.Go(), protocol.Go(), protocol.ExchangeResult)
    assert sink.mismatch is not None
    assert (sink.mismatch.first_bad_offset, sink.mismatch.bad_bytes) == (4096, 1)
    assert sink.mismatch_iteration == 1
    assert not sink.completed


def test_a_container_that_dies_leaves_what_it_had_and_names_what_it_did(
    the_lab: api.Lab, results: Path
) -> None:
    nodes = the_lab.nodes[:2]
    with warm(nodes, IMAGE, results, name="mortal") as containers:
        run = containers.start(spec(nodes, time_scale=1.5))
        run.wait_for(nodes[0], "SEND 1 B as source", file="rail-0.log")
        subprocess.run(nodes[1].ssh_command("sudo podman kill mortal"), check=True, timeout=60)
        merged = run.finish(states={"node2": {"state": "no result", "reason": "container died"}})
    assert merged.outcomes["host_memory_registers[node2/rxe0, host]"] == "passed"
    assert merged.outcomes["every_node_reported[node2]"] == "error"
    assert merged.outcomes["every_node_reported[node1]"] == "passed"
    pairs = [out for name, out in merged.outcomes.items() if name.startswith("pingpong")]
    assert len(pairs) == 10
    # What had passed stays.
    rest = pairs[pairs.count("passed") :]
    assert "passed" not in rest
    # The one that met it; after a second one the others are not waited for.
    assert rest[0] == "error"
    assert set(rest) <= {"error", "blocked"}
    assert merged.summary["verdict"] == "INCOMPLETE"
