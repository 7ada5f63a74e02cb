"""The whole playbook over virtual nodes: what a person types, and what they must be told."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lab import api
from tests.lab import attacker
from tests.lab.plays import Playbook, Played
from tests.lab.warm import PORT

pytestmark = pytest.mark.lab
TASKS_ON_A_NODE = 8
# What the lab's profile promises must have been measured; of what it leaves open nothing fails.
PROMISED = (
    "device_present[node1/rxe0]",
    "device_opens[node1/rxe0]",
    "gid_usable[node1/rxe0]",
    "host_memory_registers[node1/rxe0, host]",
    "module_loaded[node1, ib_uverbs]",
    "mtu_agrees[rail0]",
    "pci_errors[node1/rxe0]",
    "port_active[node1/rxe0]",
    "port_counters[node1/rxe0]",
    "port_counters[node2/rxe0]",
    "port_rate[node1/rxe0]",
    "clocks_agree[node2]",
)


def is_clean(played: Played) -> bool:
    """Whether nothing failed or stayed unmeasured, and all that was promised passed."""
    outcomes = played.merged.outcomes
    passed = all(outcomes[name] == "passed" for name in PROMISED)
    return passed and set(outcomes.values()) == {"passed", "skipped"}


@pytest.fixture(scope="module")
def playbook(the_lab: api.Lab, results: Path) -> Playbook:
    """The playbook over the lab."""
    return Playbook(the_lab, results / "playbook")


@pytest.fixture(scope="module")
def two_nodes(playbook: Playbook) -> Played:
    """A run of two healthy nodes with the default number of forks."""
    return playbook.run("--limit", "node1,node2")


@pytest.fixture(scope="module")
def four_nodes_one_fork(playbook: Playbook) -> Played:
    """A run of four healthy nodes, one at a time: a start that waits for others would hang."""
    return playbook.run("--forks", "1")


def containers(node: api.Node, options: str = "-a") -> str:
    """The names of gdrcheck's containers on a node."""
    listed = node.ssh(f"sudo podman ps {options} --filter name=gdrcheck- --format {{{{.Names}}}}")
    return listed.stdout.strip()


def test_two_healthy_nodes_pass_and_nothing_stays_behind(
    two_nodes: Played, the_lab: api.Lab
) -> None:
    assert two_nodes.status == 0, two_nodes.merged.problems()
    assert two_nodes.merged.summary["verdict"] == "PASS"
    assert two_nodes.merged.codes == []
    assert is_clean(two_nodes), two_nodes.merged.problems()
    assert "SOFT-ROCE" in two_nodes.output
    assert "limited to node1,node2" in two_nodes.output
    for node in the_lab.nodes[:2]:
        assert containers(node) == ""
        assert node.ssh("sudo ls /var/lib/gdrcheck/runs").stdout.split() == []


def test_a_node_that_has_the_image_runs_few_tasks(two_nodes: Played) -> None:
    # With --limit the controller's own tasks are counted at the first node, so look at the second.
    count = two_nodes.recap["node2"]
    assert 0 < count["ok"] <= TASKS_ON_A_NODE
    assert all(two_nodes.recap[name]["failed"] == 0 for name in ("node1", "node2"))
    assert all(two_nodes.recap[name]["unreachable"] == 0 for name in ("node1", "node2"))


def test_one_fork_with_four_nodes_measures_every_pair(
    four_nodes_one_fork: Played, two_nodes: Played
) -> None:
    played = four_nodes_one_fork
    assert played.status == 0, played.merged.problems()
    assert played.merged.summary["verdict"] == "PASS"
    assert played.merged.codes == []
    assert is_clean(played), played.merged.problems()
    # Six pairs, five operations, two directions.
    assert sum(name.startswith("pingpong") for name in played.merged.outcomes) == 60
    assert all(
        f"every_node_reported[node{number}]" in played.merged.outcomes for number in range(1, 5)
    )
    assert two_nodes.merged.outcomes.items() <= played.merged.outcomes.items()


def test_one_fork_with_two_nodes_under_attack_gives_the_same_result(
    playbook: Playbook, two_nodes: Played, the_lab: api.Lab
) -> None:
    target, attacking = the_lab.nodes[0], the_lab.nodes[2]
    process = playbook.start("--forks", "1", "--limit", "node1,node2")
    said: list[str] = []
    command = f"python3 - {target.control_address} {PORT} 100"

    def attack() -> None:
        said.append(attacking.ssh(command, input_text=attacker.source(), timeout_s=300).stdout)

    thread = threading.Thread(target=attack)
    thread.start()
    played = playbook.end(process)
    thread.join()
    assert played.status == 0, played.merged.problems()
    assert played.merged.outcomes == two_nodes.merged.outcomes
    assert said[0].startswith("dropped"), said
    logs = [path.read_text() for path in played.merged.directory.glob("nodes/node1/*.log")]
    assert any("dropped" in log for log in logs)


def test_a_dead_controller_leaves_a_locked_node_until_the_end_and_can_be_cleaned(
    playbook: Playbook, the_lab: api.Lab
) -> None:
    node = the_lab.nodes[0]
    process = playbook.start("--limit", "node1")
    end = time.monotonic() + 300
    while not containers(node, ""):
        assert time.monotonic() < end, "no container was started"
        time.sleep(1)
    run_id = containers(node, "").removeprefix("gdrcheck-")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    second = playbook.run("--limit", "node1", "--check")
    assert second.status != 0
    assert "RUN-LOCKED" in second.output
    assert "othing was measured" in second.output or "othing measured" in second.output

    cleaned = subprocess.run(
        playbook.command(
            "--limit", "node1", "-e", f"gdrcheck_run_id={run_id}", playbook="playbooks/clean.yml"
        ),
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert cleaned.returncode == 0, cleaned.stdout
    assert containers(node) == ""
    assert node.ssh("sudo ls /var/lib/gdrcheck/runs").stdout.split() == []


def test_preflight_tells_of_each_node_all_that_stands_in_the_way(
    playbook: Playbook, the_lab: api.Lab
) -> None:
    node1, node2, node3, node4 = the_lab.nodes
    fake_smi = "printf '#!/bin/sh\\necho 4242, python\\n' | sudo tee /usr/local/bin/nvidia-smi"
    breaks = {
        node1: ("sudo mv /usr/bin/podman /usr/bin/podman.away",),
        node2: (
            "sudo mv /dev/infiniband/rdma_cm /dev/infiniband/.away",
            "sudo mkdir -p /var/lib/gdrcheck/runs",
            "sudo mount -t tmpfs -o size=1m tmpfs /var/lib/gdrcheck",
        ),
        node3: (fake_smi, "sudo chmod 0755 /usr/local/bin/nvidia-smi"),
        node4: ("sudo mv /dev/infiniband /dev/infiniband.away",),
    }
    repairs = {
        node1: "sudo mv /usr/bin/podman.away /usr/bin/podman",
        node2: "sudo umount /var/lib/gdrcheck; "
        "sudo mv /dev/infiniband/.away /dev/infiniband/rdma_cm",
        node3: "sudo rm /usr/local/bin/nvidia-smi",
        node4: "sudo mv /dev/infiniband.away /dev/infiniband",
    }
    try:
        for node, commands in breaks.items():
            for command in commands:
                node.ssh(command, check=True)
        played = playbook.run("--check")
    finally:
        for node, command in repairs.items():
            node.ssh(command, check=True)
    assert played.status != 0
    found = set(played.merged.codes)
    assert found >= {
        ("RUN-NO-ENGINE", "node1"),
        ("RUN-NO-RDMACM", "node2"),
        ("RUN-DISK-FULL", "node2"),
        ("RUN-GPU-BUSY", "node3"),
        ("RUN-NO-DEVICES", "node4"),
    }
    assert all(played.recap[f"node{number}"]["failed"] for number in range(1, 5))


def test_nodes_that_die_cost_only_themselves(playbook: Playbook, the_lab: api.Lab) -> None:
    node1, _, dying, silent = the_lab.nodes
    silent.kill()
    # Dead partners cost deadlines: shorter ones make the test shorter.
    process = playbook.start("-e", "gdrcheck_time_scale=1.5")
    end = time.monotonic() + 400
    events = "sudo sh -c 'cat /var/lib/gdrcheck/runs/*/out/events.jsonl'"
    # In its second round, of which it has measured something. A case starts by waiting for the
    # partner's first round: only its end says that the first round is over.
    measured = '"event":"end","id":"pingpong[node1/rxe0 -> node3/rxe0'
    while measured not in node1.ssh(events).stdout:
        assert time.monotonic() < end, "the second round was not reached"
        time.sleep(1)
    dying.kill()
    played = playbook.end(process)
    outcomes = played.merged.outcomes
    assert played.status != 0
    assert played.merged.summary["verdict"] == "INCOMPLETE"
    assert outcomes["every_node_reported[node3]"] == "error"
    assert outcomes["every_node_reported[node4]"] == "error"
    assert played.merged.summary["nodes"]["node4"]["state"] == "unreachable"
    between = {
        name: outcome
        for name, outcome in outcomes.items()
        if "node3" not in name and "node4" not in name
    }
    assert set(between.values()) == {"passed", "skipped"}
    assert sum(name.startswith("pingpong") for name in between) == 10
    # Its first round was over, and what was measured in it stays.
    earlier = [out for name, out in outcomes.items() if "pingpong[node2/rxe0 -> node3/" in name]
    assert earlier == ["passed"] * 5
    # All that was measured of the second round stays as well, and what it still owed is an error.
    later = {out for name, out in outcomes.items() if "[node1/rxe0 -> node3/rxe0" in name}
    assert {"passed", "error"} <= later <= {"passed", "skipped", "error", "blocked"}
    for pair in ("node1 -> node4", "node4 -> node2"):
        assert outcomes[f"pair_measured[{pair}]"] == "blocked"
    assert not played.merged.codes or {code for code, _ in played.merged.codes} == {"RUN-NO-RESULT"}
    assert played.recap["node4"]["failed"] or played.recap["node4"]["unreachable"]
    assert played.recap["node1"]["failed"] == 0 or "node1" in played.output
