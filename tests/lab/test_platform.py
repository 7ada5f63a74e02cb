"""Faults of platform and drivers in a real guest: each gives its finding, and no other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab import api
from tests.lab.warm import Warm, spec

pytestmark = pytest.mark.lab
ALONE = {"pairs": "none"}
# Stand-ins for GPUs in the lab's topology, and the ports above its data NIC (lab/machine.py).
SAME_SWITCH, OTHER_ROOT_PORT, OTHER_SOCKET = "0000:24:00.0", "0000:25:00.0", "0000:61:00.0"
ROOT_PORT = "20:00.0"


@contextmanager
def broken(node: api.Node, fault: str, repair: str) -> Iterator[None]:
    """A node on which ``fault`` was done, and afterwards ``repair``."""
    node.ssh(fault, check=True)
    try:
        yield
    finally:
        node.ssh(repair, check=True)


def inside(pair: Warm, *command: str) -> str:
    """The standard output of a gdrcheck command in node1's warm container."""
    remote = f"sudo podman exec {pair.name} /usr/bin/python3 -m gdrcheck {' '.join(command)}"
    done = subprocess.run(
        pair.nodes[0].ssh_command(remote), capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_distances_are_those_of_the_machine(pair: Warm) -> None:
    slots = (SAME_SWITCH, OTHER_ROOT_PORT, OTHER_SOCKET)
    shown = json.loads(inside(pair, "topo", "--json", *(f"--also {slot}" for slot in slots)))
    distances = shown["distances"]
    assert distances[SAME_SWITCH]["rxe0"] == "PIX"
    assert distances[OTHER_ROOT_PORT]["rxe0"] == "PHB"
    assert distances[OTHER_SOCKET]["rxe0"] == "SYS"


def test_redirecting_ports_are_found_when_the_profile_says_otherwise(pair: Warm) -> None:
    node = pair.nodes[0]
    profile: dict[str, Any] = {**ALONE, "expect": {"acs_redirect": "off"}}
    on, off = (f"sudo setpci -s {ROOT_PORT} ECAP_ACS+6.w={value}" for value in ("001d", "0000"))
    with broken(node, on, off):
        pair.collect()
        promised = pair.start(spec([node], profile)).finish()
        # The same reading without a promise is shown and fails nothing.
        unpromised = pair.start(spec([node], ALONE)).finish()
    pair.collect()
    assert promised.codes == [("PCI-ACS", "node1/rxe0")]
    assert unpromised.codes == []


def test_mtus_that_differ_are_found_though_transfers_pass(pair: Warm) -> None:
    nodes = pair.nodes[:2]
    mtu = "sudo ip link set data0 mtu {}"
    with broken(nodes[1], mtu.format(1500), mtu.format(4200)):
        merged = pair.start(spec(nodes)).finish()
    assert {code for code, _ in merged.codes} == {"PORT-MTU-DIFFERS"}
    pairs = {name: out for name, out in merged.outcomes.items() if name.startswith("pingpong")}
    assert len(pairs) == 10
    assert set(pairs.values()) == {"passed"}


def test_a_missing_module_blocks_what_needs_it(pair: Warm) -> None:
    node = pair.nodes[0]
    profile = {**ALONE, "expect": {"modules": ["rdma_rxe"]}}
    back = "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev data0"
    with broken(node, "sudo rdma link delete rxe0 && sudo modprobe -r rdma_rxe", back):
        merged = pair.start(spec([node], profile)).finish()
    assert merged.codes == [("DRV-MODULE-MISSING", "node1")]
    assert merged.outcomes["module_loaded[node1, rdma_rxe]"] == "failed"
    assert merged.outcomes["device_present[node1/rxe0]"] == "blocked"
