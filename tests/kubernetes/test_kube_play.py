"""What is changed of a rendered pod for podman, and that nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.kube_play import Seat, playable
from tests.kubernetes.rendering import Rendered, rendered

SEAT = Seat(index=1, node="node2", address="10.0.0.2", leader="10.0.0.1")


@pytest.fixture
def job(tmp_path: Path) -> Rendered:
    return rendered(tmp_path, "--component", "host-facts")


@pytest.fixture
def played(job: Rendered) -> dict[str, Any]:
    documents = {one["kind"]: one for one in yaml.safe_load_all(playable(job, SEAT))}
    assert documents["ConfigMap"] == job.documents["ConfigMap"]
    assert documents["Secret"] == job.documents["Secret"]
    pod: dict[str, Any] = documents["Pod"]
    return pod


def test_only_what_podman_lacks_is_replaced(job: Rendered, played: dict[str, Any]) -> None:
    assert played["metadata"]["name"] == "gdrcheck-1"
    pod = played["spec"]
    untouched = job.pod.keys() - {"containers", "initContainers"}
    assert {key: pod[key] for key in untouched} == {key: job.pod[key] for key in untouched}
    for own, original in zip(
        (*pod["initContainers"], *pod["containers"]),
        (*job.init_containers, job.container),
        strict=True,
    ):
        for one in (own, original):
            one.pop("resources")
            one.pop("env", None)
        assert own == original


def test_what_the_cluster_would_say_is_written_out(job: Rendered, played: dict[str, Any]) -> None:
    (container,) = played["spec"]["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment == {
        **job.environment,
        "NODE_NAME": "node2",
        "POD_IP": "10.0.0.2",
        "JOB_COMPLETION_INDEX": "1",
        "GDRCHECK_LEADER": "10.0.0.1",
    }


def test_what_device_plugins_would_give_is_given(played: dict[str, Any]) -> None:
    (container,) = played["spec"]["containers"]
    assert container["resources"] == {
        "limits": {
            "podman.io/device=/dev/infiniband/uverbs0": "1",
            "podman.io/device=/dev/infiniband/rdma_cm": "1",
            "nvidia.com/gpu=all": "1",
        }
    }
    (init,) = played["spec"]["initContainers"]
    assert init["resources"] == {"limits": {}}
