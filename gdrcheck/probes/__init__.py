"""Probes read facts below a root directory and judge nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.probes import collected, driver, gpu, host, neighbours, pci, rdma, survey, versions

LIVE_ROOT = Path("/")
WITHIN_S = 60.0
# The shares of that time after which a driver that hangs is given up. They are asked at the same
# time; what is left is for the files of the kernel's own.
NVML_SHARE, SURVEY_SHARE, DEVICES_SHARE = 0.5, 0.8, 0.25


def collect(
    node: str, root: Path = LIVE_ROOT, also: Sequence[str] = (), *, within_s: float = WITHIN_S
) -> Facts:
    """All facts of this machine, read below ``root``, under the inventory name ``node``.

    What cannot be read is ``Unreadable`` inside the facts; nothing here raises for a bad machine,
    and drivers that hang take no longer than ``within_s`` all together. ``also``: slots of further
    PCI functions that the tree is to hold.
    """
    left = collected.read(root)
    software = versions.read_versions(root)
    with ThreadPoolExecutor(max_workers=3) as pool:
        asked_nvml = pool.submit(gpu.ask_nvml, root, within_s * NVML_SHARE)
        asked_verbs = pool.submit(survey.read_survey, root, within_s * SURVEY_SHARE)
        asked_devices = pool.submit(rdma.read_devices, root, within_s * DEVICES_SHARE)
        driver_says, opened = asked_nvml.result(), asked_verbs.result()
        nvml = driver_says.nvml
        devices = rdma.answered(asked_devices.result(), opened)
    devices = neighbours.with_neighbours(devices, left)
    nics = () if isinstance(devices, Unreadable) else devices
    slots = {device.slot for device in nics if device.slot is not None}
    netdevs = {name for device in nics for name in device.netdev_names}
    return Facts(
        node=node,
        collector=left.collector,
        host=host.read_host(root, left, netdevs),
        limits=host.read_limits(root),
        nvidia=driver.read_nvidia(root, nvml),
        nvml=nvml,
        rdma_stack=driver.read_rdma_stack(root, left, software),
        rdma_devices=devices,
        pci=pci.read_tree(root, left, sorted(slots | set(also))),
        emulated=driver_says.emulated,
        versions=software,
    )
