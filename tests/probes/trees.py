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
        "pkeys/0": "0xffff\n",
        "pkeys/1": "0x0000\n",
        "counters/link_downed": "0\n",
        "hw_counters/out_of_sequence": "7\n",
        "hw_counters/lifespan": "10\n",
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


def netdev_files(base: str, **changes: str) -> dict[str, str]:
    """The files of an interface that is up; ``changes`` replace by file name."""
    files = {"mtu": "4200\n", "operstate": "up\n", "flags": "0x1003\n"} | changes
    return {f"{base}/{name}": text for name, text in files.items()}


def pci_nic(root: Path, name: str, slot: str, netdev: str, **changes: str) -> None:
    """An RDMA device on the PCI function ``slot``, with uverbs device and netdev."""
    function = root / "sys/devices/pci0000:00" / slot
    device = function / "infiniband" / name
    write(root, port_files(str(device.relative_to(root) / "ports/1"), **changes))
    write(root, netdev_files(str(function.relative_to(root) / "net" / netdev)))
    write(root, {str(device.relative_to(root) / "fw_ver"): "28.43.2026\n"})
    write(root, {str(device.relative_to(root) / "board_id"): "MT_0000000838\n"})
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
    # rxe says no firmware, but the kernel gives every device the file.
    write(root, {f"sys/class/infiniband/{name}/fw_ver": "\n"})
    write(root, {f"sys/class/infiniband/{name}/parent": netdev + "\n"})
    function = root / "sys/devices/pci0000:00" / slot / "virtio1"
    function.mkdir(parents=True)
    write(root, netdev_files(f"sys/class/net/{netdev}"))
    (root / "sys/class/net" / netdev / "device").symlink_to(function)
    write(root, {"sys/class/infiniband_verbs/uverbs0/ibdev": name + "\n"})


ROUTES_TITLE = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"


def routes(*lines: str) -> dict[str, str]:
    """The routing table with ``lines`` of interface, destination, gateway, flags and mask."""
    rows = [ROUTES_TITLE]
    for line in lines:
        netdev, destination, gateway, flags, mask = line.split()
        rows.append(f"{netdev}\t{destination}\t{gateway}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0")
    return {"proc/self/net/route": "\n".join(rows) + "\n"}
