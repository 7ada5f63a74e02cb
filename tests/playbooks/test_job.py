"""The module that waits for a Job: what it makes of what kubectl says. kubectl is FAKE."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FAKE = Path(__file__).parents[1] / "kubernetes/fake_bin/kubectl"
# Phase, node, and what a container waits for.
Pods = dict[str, tuple[str, ...]]


class Cluster:
    """What the fake kubectl shows, look by look."""

    def __init__(self, folder: Path, module: ModuleType) -> None:
        self.folder = folder
        self.module = module
        self.options: dict[str, Any] = {
            "kubectl": str(FAKE),
            "namespace": "gdrcheck",
            "job": "gdrcheck",
            "logs": str(folder / "saved"),
            "deadline_s": 600,
            "interval_s": 0,
            "settle_s": 0,
            "hopeless_s": 0,
        }
        (folder / "saved").mkdir()
        (folder / "logs").mkdir()
        (folder / "job").write_text("")
        self.job = module.Job(self.options)

    def shows(self, *looks: tuple[Pods, str]) -> None:
        text = json.dumps([{"pods": pods, "ended": ended} for pods, ended in looks])
        (self.folder / "looks.json").write_text(text)

    def prints(self, pod: str, text: str = "all\n") -> None:
        (self.folder / "logs" / pod).write_text(text)

    def wait(self) -> str:
        ended = self.module.wait(self.job, self.options)
        assert isinstance(ended, str)
        return ended

    @property
    def looks(self) -> int:
        """How often the pods were looked at."""
        return int((self.folder / "counter").read_text())


@pytest.fixture
def cluster(
    tmp_path: Path, module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    monkeypatch.setenv("FAKE_CLUSTER", str(tmp_path))
    return Cluster(tmp_path, module("gdrcheck_job"))


def test_a_log_is_saved_when_its_pod_ends_and_not_later(cluster: Cluster) -> None:
    cluster.prints("a")
    cluster.shows(
        ({"a": ("Failed", "n1"), "b": ("Running", "n2")}, ""),
        ({"b": ("Running", "n2")}, ""),
        ({"b": ("Succeeded", "n2")}, "FailureTarget Failed"),
    )
    cluster.prints("b", "other\n")
    assert cluster.wait() == "Failed"
    saved = {file.name: file.read_text() for file in (cluster.folder / "saved").iterdir()}
    assert saved == {"a.log": "all\n", "b.log": "other\n"}
    assert cluster.job.problems() == []


def test_a_log_that_cannot_be_had_at_once_is_asked_for_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.options["settle_s"] = 600
    kubectl, failed = cluster.job.kubectl, []

    def fail_once(*words: str) -> Any:
        if words[:2] == ("logs", "b") and not failed:
            failed.append(words)
            return cluster.module.Answer(1, "", "unexpected EOF")
        return kubectl(*words)

    monkeypatch.setattr(cluster.job, "kubectl", fail_once)
    cluster.prints("a")
    cluster.prints("b")
    cluster.shows(({"a": ("Succeeded", "n1"), "b": ("Succeeded", "n2")}, "Complete"))
    assert cluster.wait() == "Complete"
    assert {file.name for file in (cluster.folder / "saved").iterdir()} == {"a.log", "b.log"}


def test_it_waits_for_a_pod_that_has_a_node(cluster: Cluster) -> None:
    cluster.prints("a")
    pulling = {"a": ("Failed", "n1"), "b": ("Pending", "n2")}
    cluster.shows((pulling, ""), (pulling, ""), (pulling, ""), (pulling, "Failed"))
    assert cluster.wait() == "Failed"
    assert cluster.looks >= 3
    (problem,) = cluster.job.problems()
    assert problem == "b: no log of this pod (Pending on n2)"


def test_it_does_not_wait_for_a_node_that_is_not_there(cluster: Cluster) -> None:
    cluster.prints("a")
    cluster.shows(({"a": ("Succeeded", "n1"), "b": ("Pending", "<none>")}, ""))
    assert cluster.wait() == ""
    (problem,) = cluster.job.problems()
    assert problem.startswith("b: found no node: 0/2 nodes are available")


def test_nothing_that_has_ended_yet_is_not_the_end(cluster: Cluster) -> None:
    waiting = {"a": ("Pending", "<none>"), "b": ("Pending", "<none>")}
    cluster.shows((waiting, ""), (waiting, ""), (waiting, "Failed"))
    assert cluster.wait() == "Failed"


def test_an_image_that_cannot_be_pulled_is_told_and_not_waited_for(cluster: Cluster) -> None:
    waiting = {"a": ("Pending", "n1", "ErrImagePull"), "b": ("Pending", "n2", "ImagePullBackOff")}
    cluster.shows((waiting, ""))
    assert cluster.wait() == ""
    first, second = cluster.job.problems()
    assert first.startswith("a: could not be started on n1: ErrImagePull: Back-off pulling image")
    assert second.startswith("b: could not be started on n2: ImagePullBackOff: ")


def test_one_pod_that_cannot_be_started_does_not_hold_the_others_up(cluster: Cluster) -> None:
    cluster.prints("a")
    stuck = ("Pending", "n2", "CreateContainerConfigError")
    cluster.shows(
        ({"a": ("Running", "n1"), "b": stuck}, ""), ({"a": ("Failed", "n1"), "b": stuck}, "")
    )
    assert cluster.wait() == ""
    assert cluster.looks >= 2
    (problem,) = cluster.job.problems()
    assert problem.startswith("b: could not be started on n2: CreateContainerConfigError")


def test_a_pod_whose_image_is_being_pulled_is_waited_for(cluster: Cluster) -> None:
    creating = {"a": ("Pending", "n1", "ContainerCreating")}
    cluster.shows((creating, ""), (creating, ""), (creating, ""), (creating, "Failed"))
    assert cluster.wait() == "Failed"


def test_pods_that_the_cluster_refuses_are_told_and_not_waited_for(cluster: Cluster) -> None:
    cluster.shows(({}, ""))
    assert cluster.wait() == ""
    assert cluster.job.problems() == [
        'gdrcheck: no pod was made: pods "gdrcheck-0-x" is forbidden: violates PodSecurity'
    ]


def test_a_suspended_job_is_waited_for(cluster: Cluster) -> None:
    """A queue such as Kueue's makes no pods before there is room."""
    cluster.shows(({}, "Suspended"), ({}, "Suspended"), ({}, "Suspended"), ({}, "Failed"))
    assert cluster.wait() == "Failed"


def test_the_deadline_ends_the_wait(cluster: Cluster) -> None:
    cluster.options["deadline_s"] = -cluster.module.MARGIN_S
    cluster.shows(({"a": ("Running", "n1")}, ""))
    assert cluster.wait() == ""


def test_a_cluster_that_does_not_answer_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = cluster.folder / "down"
    down.touch()
    monkeypatch.setattr(cluster.module.time, "sleep", lambda _: down.unlink(missing_ok=True))
    cluster.prints("a")
    cluster.shows(({"a": ("Succeeded", "n1")}, "Complete"))
    assert cluster.wait() == "Complete"


def test_a_cluster_that_stays_silent_ends_the_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.folder / "down").touch()
    monkeypatch.setattr(cluster.module, "DEAF_S", 0)
    with pytest.raises(cluster.module.Unanswered, match="was refused"):
        cluster.wait()
