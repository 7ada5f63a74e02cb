"""The rendered Job's pods on real nodes: real containers, real RDMA. The cluster is podman."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import api
from tests.lab.kube import PlayedJob, played, render
from tests.lab.warm import Warm, spec

pytestmark = pytest.mark.lab


@pytest.fixture
def job(the_lab: api.Lab, tmp_path: Path) -> Iterator[PlayedJob]:
    with played(tmp_path, the_lab.nodes[:2]) as made:
        yield made


def test_two_healthy_nodes_pass_and_their_logs_hold_the_run(
    job: PlayedJob, pair: Warm, tmp_path: Path
) -> None:
    rendered = render(tmp_path, 2, "--component", "host-facts")
    pods = [job.start(rendered, index) for index in (0, 1)]
    assert [pod.exit_code() for pod in pods] == [0, 0], pods[0].words()
    done, merged = job.collect(pods[0])
    assert (done.code, merged.summary["verdict"]) == (0, "PASS"), done.out
    # The same names as in a run over ssh of the same nodes.
    over_ssh = pair.start(spec(job.nodes)).finish()
    assert merged.outcomes.keys() == over_ssh.outcomes.keys()


def test_a_healthy_node_with_a_bad_partner_succeeds(job: PlayedJob, tmp_path: Path) -> None:
    rendered = render(tmp_path, 2)
    job.nodes[1].data_link(up=False)
    try:
        pods = [job.start(rendered, index) for index in (0, 1)]
        assert [pod.exit_code() for pod in pods] == [0, 1], pods[0].words()
    finally:
        job.nodes[1].data_link(up=True)
    done, merged = job.collect()
    assert (done.code, merged.summary["verdict"]) == (1, "FAIL")


def test_a_pod_that_is_killed_is_no_pass(job: PlayedJob, tmp_path: Path) -> None:
    rendered = render(tmp_path, 2, "--time-scale", "1")
    pods = [job.start(rendered, index) for index in (0, 1)]
    pods[1].says("pair phase")
    pods[1].kill()
    pods[0].exit_code()
    assert pods[1].exit_code() == 137
    done, merged = job.collect(pods[0])
    assert (done.code, merged.summary["verdict"]) == (2, "INCOMPLETE")
    assert merged.summary["nodes"][job.nodes[1].name]["state"] != "ok"


def test_without_index_0_each_keeps_its_own_results(job: PlayedJob, tmp_path: Path) -> None:
    rendered = render(tmp_path, 2, "--time-scale", "1")
    pods = [job.start(rendered, index) for index in (0, 1)]
    pods[1].says("pair phase")
    pods[0].kill()
    assert pods[1].exit_code() == 2
    done, merged = job.collect(pods[1])
    assert (done.code, merged.summary["verdict"]) == (2, "INCOMPLETE")
    assert merged.summary["nodes"][job.nodes[1].name]["state"] == "ok"
    assert any(outcome == "passed" for outcome in merged.outcomes.values())


def test_a_peer_that_never_arrives_is_named(job: PlayedJob, tmp_path: Path) -> None:
    rendered = render(tmp_path, 3, "--arrival-s", "45")
    pods = [job.start(rendered, index) for index in (0, 1)]
    codes = [pod.exit_code() for pod in pods]
    assert codes == [2, 0], pods[0].words()
    done, merged = job.collect(pods[0])
    assert (done.code, merged.summary["verdict"]) == (2, "INCOMPLETE")
    assert ("RUN-PEER-NEVER-ARRIVED", "gdrcheck-2") in merged.codes


def test_another_secret_lets_nobody_in(job: PlayedJob, tmp_path: Path) -> None:
    first = render(tmp_path / "first", 2, "--arrival-s", "45")
    other = render(tmp_path / "other", 2, "--arrival-s", "45")
    pods = [job.start(first, 0), job.start(other, 1)]
    assert [pod.exit_code() for pod in pods] == [2, 2], pods[0].words()
    assert "secret" in pods[1].words()
