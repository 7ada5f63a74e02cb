"""Probes read facts below a root directory and judge nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.probes import collected, driver, gpu, host, pci, rdma, survey, versions

LIVE_ROOT = Path("/")


def collect(node: str, root: Path = LIVE_ROOT, also: Sequence[str] = ()) -> Facts:
    """All facts of this machine, read below ``root``, under the inventory name ``node``.

    What cannot be read is ``Unreadable`` inside the facts; nothing here raises for a bad machine.
    ``also``: slots of further PCI functions that the tree is to hold.
    """
    left = collected.read(root)
    software = versions.read_versions(root)
    # Both ask a driver in a process of their own, which may answer at its deadline only.
    with ThreadPoolExecutor(max_workers=2) as pool:
        asked_nvml = pool.submit(gpu.read_nvml, root)
        asked_verbs = pool.submit(survey.read_survey, root)
        nvml, opened = asked_nvml.result(), asked_verbs.result()
    devices = rdma.read_devices(root, opened)
    nics = () if isinstance(devices, Unreadable) else devices
    slots = {device.slot for device in nics if device.slot is not None}
    return Facts(
        node=node,
        collector=left.collector,
        host=host.read_host(root, left),
        limits=host.read_limits(root),
        nvidia=driver.read_nvidia(root, nvml),
        nvml=nvml,
        rdma_stack=driver.read_rdma_stack(root, left, software),
        rdma_devices=devices,
        pci=pci.read_tree(root, left, sorted(slots | set(also))),
        emulated=False,
        versions=software,
    )
