"""Pods of a Job, as real processes: who exits with what, and what is left when one dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.cli import main
from tests.kubernetes.pods import PROFILE, job

ALONE = PROFILE + "pairs: none\n"


def collected(out: Path, *logs: Path) -> int:
    return main(["collect", "--from-log", *map(str, logs), "--out", str(out)])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_healthy_pods_all_succeed_and_the_log_restores_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with job(tmp_path, 3) as made:
        pods = [made.start(index) for index in (2, 0, 1)]
        assert [pod.exit_code() for pod in pods] == [0, 0, 0], pods[1].text
    leader = pods[1]
    assert leader.summary()["verdict"] == "PASS"
    assert "verdict: PASS" in leader.text
    assert collected(tmp_path / "out", leader.log) == 0
    assert "verdict: PASS" in capsys.readouterr().out
    restored = (tmp_path / "out/latest").resolve()
    assert contents(restored) == contents(leader.run_folder())
    assert {path.name for path in (restored / "nodes").iterdir()} == {"node1", "node2", "node3"}
    assert "this is node1, healthy" in (restored / "nodes/node1/container.log").read_text()


def test_a_healthy_node_with_a_bad_partner_succeeds_and_the_bad_one_fails(tmp_path: Path) -> None:
    with job(tmp_path, 2) as made:
        leader = made.start(0, FAKE_BAD="node2")
        bad = made.start(1, FAKE_BAD="node2", FAKE_NODE="bad")
        assert (leader.exit_code(), bad.exit_code()) == (0, 1), leader.text
    assert leader.summary()["verdict"] == "FAIL"
    assert "PORT-NOT-ACTIVE at node2/rxe0" in bad.text


def test_a_peer_that_never_arrives_is_named_and_the_job_does_not_succeed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with job(tmp_path, 3) as made:
        other = made.start(1)
        other.says("reporting to index 0")
        leader = made.start(0, arrival_s=5)
        assert (leader.exit_code(), other.exit_code()) == (2, 0), leader.text
    summary = leader.summary()
    assert summary["verdict"] == "INCOMPLETE"
    nodes = summary["nodes"]
    assert isinstance(nodes, dict)
    assert nodes["gdrcheck-2"]["state"] == "never arrived"
    assert "RUN-PEER-NEVER-ARRIVED" in leader.text
    assert "index 0 speaks for the run" in leader.text
    assert collected(tmp_path / "out", leader.log) == 2
    assert "gdrcheck-2" in capsys.readouterr().out


def test_a_pod_with_another_secret_is_told_so_and_so_is_index_0(tmp_path: Path) -> None:
    with job(tmp_path, 2, impatient=True) as made:
        stranger = made.start(1, secret="77" * 32)
        stranger.says("reporting to index 0")
        leader = made.start(0, arrival_s=15)
        assert (leader.exit_code(), stranger.exit_code()) == (2, 2), stranger.text
    assert "does not prove the run's secret" in stranger.text
    assert "connections proved nothing" in leader.text
    assert "other secret" in leader.text
    assert leader.summary()["verdict"] == "INCOMPLETE"


def test_a_pod_killed_in_the_middle_is_noticed_and_its_partner_is_not_to_blame(
    tmp_path: Path,
) -> None:
    with job(tmp_path, 2, impatient=True) as made:
        leader = made.start(0)
        victim = made.start(1, FAKE_NODE="hangs")
        victim.says("this is node2")
        victim.kill()
        assert leader.exit_code() == 0, leader.text
    assert "pod gdrcheck-1 was lost" in leader.text
    summary = leader.summary()
    assert summary["verdict"] == "INCOMPLETE"
    nodes = summary["nodes"]
    assert isinstance(nodes, dict)
    assert nodes["node2"]["state"] == "no result"


def test_when_index_0_is_killed_the_others_end_and_their_results_are_in_their_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with job(tmp_path, 3, impatient=True) as made:
        leader = made.start(0, FAKE_NODE="hangs")
        others = [made.start(1), made.start(2, FAKE_NODE="bad")]
        for pod in others:
            pod.says("waiting for the verdict")
        leader.kill()
        assert [pod.exit_code() for pod in others] == [2, 1], others[0].text
    assert "no verdict of the run: gdrcheck-0" in others[0].text
    assert collected(tmp_path / "out", *(pod.log for pod in others)) == 1
    assert "the log of index 0 is not among these" in capsys.readouterr().err
    restored = (tmp_path / "out/latest").resolve()
    assert {path.name for path in (restored / "nodes").iterdir()} == {"node2", "node3"}
    assert 'name="port_active[node2/rxe0]"' in (restored / "junit.xml").read_text()


def test_when_index_0_never_comes_a_node_is_measured_alone(tmp_path: Path) -> None:
    with job(tmp_path, 2) as made:
        lonely = made.start(1, arrival_s=2)
        assert lonely.exit_code() == 2
    assert "never arrived" in lonely.text
    assert "this node is measured alone" in lonely.text
    assert collected(tmp_path / "out", lonely.log) == 2
    assert (tmp_path / "out/latest/nodes/node2/facts.json").is_file()


def test_a_pod_that_is_told_to_end_leaves_its_results_in_its_log(tmp_path: Path) -> None:
    with job(tmp_path, 1) as made:
        pod = made.start(0, FAKE_NODE="hangs", profile=ALONE)
        pod.says("this is node1")
        pod.terminate()
        assert pod.exit_code() == 2
    assert "verdict: INCOMPLETE" in pod.text
    assert collected(tmp_path / "out", pod.log) == 2


def test_one_pod_that_is_a_plugin_of_sonobuoy_tells_its_worker(tmp_path: Path) -> None:
    place = tmp_path / "sonobuoy"
    with job(tmp_path, 1) as made:
        pod = made.start(0, profile=ALONE, SONOBUOY_RESULTS_DIR=str(place))
        assert pod.exit_code() == 0, pod.text
    assert (place / "done").read_text() == str(place / "junit.xml")
    assert b"<testsuites" in (place / "junit.xml").read_bytes()


def test_a_node_whose_process_dies_is_not_healthy(tmp_path: Path) -> None:
    with job(tmp_path, 1) as made:
        pod = made.start(0, profile=ALONE, FAKE_NODE="dies")
        assert pod.exit_code() == 2
    assert "killed by SIGKILL" in pod.text
    assert pod.summary()["verdict"] == "INCOMPLETE"


def test_a_node_whose_process_dies_at_its_very_end_is_not_healthy_either(tmp_path: Path) -> None:
    with job(tmp_path, 2) as made:
        leader, other = made.start(0), made.start(1, FAKE_NODE="dies late")
        assert (leader.exit_code(), other.exit_code()) == (0, 2), leader.text
    assert leader.summary()["verdict"] == "INCOMPLETE"
    assert collected(tmp_path / "out", leader.log, other.log) == 2


def test_the_nodes_of_a_job_run_what_the_playbook_runs_and_meet(tmp_path: Path) -> None:
    """The real checks; what they find on this machine is not asked."""
    with job(tmp_path, 2) as made:
        pods = [made.start(index, REAL_NODE="1") for index in (0, 1)]
        assert all(pod.exit_code() in (0, 1, 2) for pod in pods)
    leader = pods[0]
    for pod in pods:
        assert "node phase" in pod.text
        assert "node1: ready" in pod.text
        assert "node2: ready" in pod.text
        assert "pair phase" in pod.text
    summary = leader.summary()
    nodes = summary["nodes"]
    assert isinstance(nodes, dict)
    assert [node["state"] for node in nodes.values()] == ["ok", "ok"]
    assert [node["complete"] for node in nodes.values()] == [True, True], leader.text
    names = {path.name for path in (leader.run_folder() / "nodes/node2").iterdir()}
    assert {"facts.json", "events.jsonl", "junit.xml", "done.json", "container.log"} <= names
