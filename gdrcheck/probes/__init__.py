"""Probes read facts below a root directory and judge nothing."""

from __future__ import annotations

from pathlib import Path

from gdrcheck.facts import Facts
from gdrcheck.probes import host, pci, rdma, versions


def collect(node: str, root: Path = Path("/")) -> Facts:
    """All facts of this machine, read below ``root``, under the inventory name ``node``.

    What cannot be read is ``Unreadable`` inside the facts; nothing here raises for a bad machine.
    """
    return Facts(
        node=node,
        host=host.read_host(root),
        limits=host.read_limits(root),
        rdma_devices=rdma.read_devices(root),
        nvidia_gpu_slots=pci.read_nvidia_gpu_slots(root),
        emulated=False,
        versions=versions.read_versions(root),
    )
