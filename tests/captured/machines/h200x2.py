"""A virtual machine with two H200s that reach each other over 18 NVLinks, and no RDMA device.

No model of a machine, but one as it was: the tree is what ``gdrcheck facts --capture`` wrote there
(driver 580.159.04, open module; the host collector ran). It has no systemd and no modules.dep, so
units and the files of modules are unreadable.
"""

from __future__ import annotations

import json
from pathlib import Path

from gdrcheck.probes.modules import OF_INTEREST
from gdrcheck.profile import Profile
from tests.captured.machine import Machine
from tests.captured.tree import Tree

CAPTURED = Path(__file__).with_suffix(".json")
GPU_SLOTS = ("0000:00:06.0", "0000:00:07.0")

PROFILE = {
    "gpus": {"count": 2, "model": "NVIDIA H200"},
    "pairs": "none",
    "expect": {
        "os": "Ubuntu 24.04*",
        "kernel": "6.18.*",
        "iommu": "off",
        "driver": "580.*",
        "cuda": "13.0",
        "open_module": True,
        "mig": "disabled",
        "bar1_bytes": 256 << 30,
        "ecc": "enabled",
        "compute_mode": "default",
        "persistence": "on",
        "power_limit_w": 700,
        "nvlinks": 18,
        "peer_access": "all",
    },
}
NOT_JUDGED = (
    "command_line ofed dmabuf_possible peermem_fits peermem_registered gpu_link_width "
    "gpu_link_speed gpu_pci_errors gpu_vbios confidential_computing nvswitch_errors "
    "rails_keep_addresses_apart"
)
# Without modules.dep, without systemd, and not read in an image.
OF_FILES = ("path", "disk_source_version", "version_magic", "license")
UNREADABLE = (
    *(f"host.modules[{name}].{part}" for name in OF_INTEREST for part in OF_FILES),
    "host.units",
    "rdma_stack.rdma_core",
)


def tree() -> Tree:
    """The captured tree. Of a file of bytes the data leave out the zeros at its end."""
    captured = json.loads(CAPTURED.read_text())
    files = {path: text.encode() for path, text in captured["texts"].items()}
    for path, data in captured["bytes"].items():
        files[path] = bytes.fromhex(data["hex"]).ljust(data["length"], b"\0")
    return Tree(files=files, links=captured["links"], folders=set(captured["folders"]))


def machine() -> Machine:
    """The machine as it was."""
    return Machine(
        name="h200x2",
        tree=tree(),
        profile=Profile.model_validate(PROFILE),
        not_judged=NOT_JUDGED,
        rails=(),
        gpus=GPU_SLOTS,
        distances={GPU_SLOTS: "PHB"},
        unreadable=UNREADABLE,
    )
