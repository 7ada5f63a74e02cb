"""Builds small sysfs trees for tests of the probes."""

from __future__ import annotations

from pathlib import Path

ZERO = ":".join(["0000"] * 8)


def write(root: Path, files: dict[str, str]) -> None:
    """Writes each file below ``root``, with its parents."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def port_files(base: str, **changes: str) -> dict[str, str]:
    """The files of an active 400 Gb/s RoCE port with two GIDs; ``changes`` replace by file name."""
    files = {
        "state": "4: ACTIVE\n",
        "phys_state": "5: LinkUp\n",
        "rate": "400 Gb/sec (4X NDR)\n",
        "link_layer": "Ethernet\n",
        "lid": "0x0\n",
        "sm_lid": "0x0\n",
        "gids/0": "fe80:0000:0000:0000:5054:00ff:fe00:0001\n",
        "gids/1": "0000:0000:0000:0000:0000:ffff:0a4d:0201\n",
        "gids/2": ZERO + "\n",
        "gid_attrs/types/0": "RoCE v2\n",
        "gid_attrs/types/1": "RoCE v2\n",
        "gid_attrs/ndevs/0": "eth1\n",
        "gid_attrs/ndevs/1": "eth1\n",
    }
    files.update(changes)
    return {f"{base}/{name}": text for name, text in files.items()}


def pci_nic(root: Path, name: str, slot: str, netdev: str, **changes: str) -> None:
    """An RDMA device on the PCI function ``slot``, with uverbs device and netdev."""
    function = root / "sys/devices/pci0000:00" / slot
    device = function / "infiniband" / name
    write(root, port_files(str(device.relative_to(root) / "ports/1"), **changes))
    (function / "net" / netdev).mkdir(parents=True)
    drivers = root / "sys/bus/pci/drivers/mlx5_core"
    drivers.mkdir(parents=True, exist_ok=True)
    (function / "driver").symlink_to(drivers)
    (device / "device").symlink_to(function)
    classes = root / "sys/class/infiniband"
    classes.mkdir(parents=True, exist_ok=True)
    (classes / name).symlink_to(device)
    write(root, {f"sys/class/infiniband_verbs/uverbs{name[-1]}/ibdev": name + "\n"})


def software_nic(root: Path, name: str, netdev: str, slot: str) -> None:
    """A Soft-RoCE device: no ``device`` link, its file ``parent`` names the netdev."""
    write(root, port_files(f"sys/class/infiniband/{name}/ports/1", rate="2.5 Gb/sec (1X SDR)\n"))
    write(root, {f"sys/class/infiniband/{name}/parent": netdev + "\n"})
    function = root / "sys/devices/pci0000:00" / slot / "virtio1"
    function.mkdir(parents=True)
    (root / "sys/class/net" / netdev).mkdir(parents=True)
    (root / "sys/class/net" / netdev / "device").symlink_to(function)
    write(root, {"sys/class/infiniband_verbs/uverbs0/ibdev": name + "\n"})
