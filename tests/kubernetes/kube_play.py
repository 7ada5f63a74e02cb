"""A pod of the rendered Job as ``podman kube play`` takes it.

podman has no scheduler, no Job's controller, no cluster DNS and no device plugins. What they would
do is done here, and nothing else of the rendered pod is changed:

- the Job of N indexes becomes one Pod, called as its host name would be;
- the downward API's ``NODE_NAME`` and ``POD_IP`` and the controller's ``JOB_COMPLETION_INDEX`` are
  written out, and ``GDRCHECK_LEADER`` says where index 0 is, which a name would;
- resources of device plugins become devices: ``nvidia.com/gpu`` all GPUs by CDI, any other the
  files of the NIC (``podman.io/device``, as podman 5.4 reads them);
- CPUs and memory, sized for real nodes, are left out: the lab's guests have less.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import yaml

from tests.kubernetes.rendering import Rendered

GPU_RESOURCE = "nvidia.com/gpu"
NIC_FILES = ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")
ORDINARY = ("cpu", "memory")


@dataclass(frozen=True)
class Seat:
    """Where a pod runs: its index, and its node's name and address. ``leader``: of index 0."""

    index: int
    node: str
    address: str
    leader: str

    @property
    def pod(self) -> str:
        """The pod's name."""
        return f"gdrcheck-{self.index}"


def playable(job: Rendered, seat: Seat) -> str:
    """The pod of ``seat`` with its ConfigMap and Secret, for ``podman kube play -``."""
    template = copy.deepcopy(job.job["template"])
    for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
        _written_out(container, seat)
        container["resources"] = _devices(container["resources"]["limits"])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": seat.pod},
        "spec": template["spec"],
    }
    return yaml.safe_dump_all([job.documents["ConfigMap"], job.documents["Secret"], pod])


def _written_out(container: dict[str, Any], seat: Seat) -> None:
    known = {"NODE_NAME": seat.node, "POD_IP": seat.address}
    for variable in container.get("env", ()):
        if variable.pop("valueFrom", None) is not None:
            variable["value"] = known[variable["name"]]
    if "env" in container:
        added = {"JOB_COMPLETION_INDEX": str(seat.index), "GDRCHECK_LEADER": seat.leader}
        container["env"] += [{"name": name, "value": value} for name, value in added.items()]


def _devices(limits: dict[str, str]) -> dict[str, Any]:
    names = [name for name in limits if name not in ORDINARY]
    devices = (
        [f"podman.io/device={path}" for path in NIC_FILES] if set(names) - {GPU_RESOURCE} else []
    )
    if GPU_RESOURCE in names:
        devices.append(f"{GPU_RESOURCE}=all")
    return {"limits": dict.fromkeys(devices, "1")}
