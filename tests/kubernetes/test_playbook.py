"""playbooks/kubernetes.yml from a rendered folder to a verdict, with a FAKE kubectl: what the
cluster does is decided here. Pods that are processes are in test_pods.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubernetes.rendering import REPOSITORY, command
from tests.kubernetes.test_collect import Run

FAKE_BIN = Path(__file__).parent / "fake_bin"
DEADLINE_S = 240
RUNNING = {"gdrcheck-0-ab1": ("Running", "gpu-a"), "gdrcheck-1-cd2": ("Running", "gpu-b")}
ENDED = {name: ("Succeeded", node) for name, (_, node) in RUNNING.items()}


@dataclass
class Cluster:
    """What the fake kubectl looks at, and a rendered folder for it."""

    folder: Path
    rendered: Path
    results: Path

    def shows(self, *looks: dict[str, object]) -> None:
        (self.folder / "looks.json").write_text(json.dumps(looks))

    def printed(self, pod: str, log: Path) -> None:
        (self.folder / "logs" / pod).write_text(log.read_text())

    @property
    def asked(self) -> list[str]:
        """The words of every call, without the namespace."""
        file = self.folder / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.removeprefix("--namespace=gdrcheck ") for line in lines]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "FAKE_CLUSTER": str(self.folder),
            "PATH": f"{FAKE_BIN}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "200",
        }

    def play(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                Path(sys.executable).parent / "ansible-playbook",
                *("playbooks/kubernetes.yml", "-e", f"gdrcheck_results_dir={self.results}"),
                *("-e", "gdrcheck_interval_s=0.2", "-e", "gdrcheck_settle_s=0", *options),
            ],
            cwd=REPOSITORY,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        return self.play("-e", f"gdrcheck_rendered={self.rendered}")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster on which two pods run and end, with the logs of a run that passed."""
    assert command(tmp_path).code == 0
    made = Cluster(tmp_path / "cluster", tmp_path / "job", tmp_path / "results")
    (made.folder / "logs").mkdir(parents=True)
    run = Run(tmp_path / "run")
    for pod, node in zip(RUNNING, ("node1", "node2"), strict=True):
        made.printed(pod, run.node_log(node))
    made.shows({"pods": RUNNING}, {"pods": ENDED, "ended": "SuccessCriteriaMet Complete"})
    return made


def test_from_the_rendered_folder_to_a_verdict(cluster: Cluster) -> None:
    done = cluster.run()
    assert done.returncode == 0, done.stdout
    (latest,) = [one for one in cluster.results.iterdir() if one.is_symlink()]
    files = {file.name for file in latest.iterdir()}
    assert {"run.json", "junit.xml", "summary.json", "report.html", "nodes"} <= files
    assert json.loads((latest / "summary.json").read_text())["verdict"] == "PASS"
    assert "PASS" in done.stdout
    assert f"apply -k {cluster.rendered}" in cluster.asked
    # All but the namespace, in which a volume with results may be.
    (deleted,) = [words for words in cluster.asked if words.startswith("delete")]
    assert deleted.startswith(
        "delete job,service,configmap,secret --selector=app.kubernetes.io/name=gdrcheck "
    )
    assert len(list(cluster.rendered.glob("logs/*/*.log"))) == 2


def test_a_pod_that_finds_no_node_does_not_hold_the_others_up(cluster: Cluster) -> None:
    pods = {**ENDED, "gdrcheck-1-cd2": ("Pending", "<none>")}
    cluster.shows({"pods": pods, "failed": ""})
    (cluster.folder / "logs/gdrcheck-1-cd2").unlink()
    done = cluster.run()
    assert done.returncode != 0
    assert "gdrcheck-1-cd2: found no node: 0/2 nodes are available" in done.stdout
    assert "The verdict is INCOMPLETE" in done.stdout
    assert any(words.startswith("delete") for words in cluster.asked)


def test_a_job_that_failed_is_no_pass_whatever_the_logs_say(cluster: Cluster) -> None:
    pods = {**ENDED, "gdrcheck-1-cd2": ("Failed", "gpu-b")}
    cluster.shows({"pods": pods, "ended": "FailureTarget Failed", "failed": "1"})
    done = cluster.run()
    assert done.returncode != 0
    (latest,) = [one for one in cluster.results.iterdir() if one.is_symlink()]
    assert json.loads((latest / "summary.json").read_text())["verdict"] == "PASS"
    said = " ".join(done.stdout.split())
    assert "PASS, but the Job failed, at the indexes 1: a pod ended otherwise" in said


def test_what_is_no_rendered_folder_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    for options in ((), ("-e", f"gdrcheck_rendered={tmp_path}")):
        done = cluster.play(*options)
        assert done.returncode != 0
        assert "The cluster was not touched" in done.stdout
        assert "expected -e gdrcheck_rendered=DIR" in done.stdout
    assert cluster.asked == []


def test_a_run_that_is_there_is_not_disturbed(cluster: Cluster) -> None:
    (cluster.folder / "job").write_text("of somebody else")
    done = cluster.run()
    assert done.returncode != 0
    assert "a run is there already" in done.stdout
    assert (cluster.folder / "job").read_text() == "of somebody else"


def test_what_was_half_started_is_removed(cluster: Cluster) -> None:
    (cluster.folder / "refuse").write_text('pods "gdrcheck-0" is forbidden: violates PodSecurity')
    done = cluster.run()
    assert done.returncode != 0
    assert "violates PodSecurity" in done.stdout
    assert cluster.asked[-1].startswith("delete")


def test_logs_without_results_are_no_verdict(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("Killed\n")
    for pod in RUNNING:
        cluster.printed(pod, tmp_path / "empty")
    done = cluster.run()
    assert done.returncode != 0
    assert "no results of gdrcheck in there" in done.stdout
    assert not cluster.results.exists() or not list(cluster.results.iterdir())
