"""The QEMU command lines: nodes with a real PCIe topology, and the hubs that join them. Pure.

Sockets are in the lab's run directory, whose path is short: a unix socket's address holds 107
bytes. They are given as absolute paths, because QEMU binds and connects them in threads, maybe
after it has left its directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NETWORKS = ("control", "data")
INTERFACES = {"mgmt0": 0, "ctl0": 1, "data0": 2}
DATA_MTU = 4200
DATA_NIC_ID = "nic-data"
DMABUF_LIMIT_MIB = 4096
_KERNEL_OPTIONS = (
    "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off audit=0 apparmor=0 nowatchdog nokaslr "
    "systemd.show_status=auto "
    # Room for exports of the emulated GPUs' memory, of which the kernel allows 64 MiB otherwise.
    f"udmabuf.size_limit_mb={DMABUF_LIMIT_MIB} udmabuf.list_limit=4096"
)

# What the node's clock is set by.
_HOSTS_TIME = "guestfwd=tcp:10.0.2.100:37-cmd:date +%s.%N"


@dataclass(frozen=True)
class Guest:
    """All that decides a node's QEMU command line."""

    number: int
    accelerator: str
    memory_mib: int
    cpus: int
    ssh_port: int
    kernel: Path
    initramfs: Path
    run_directory: Path
    store_disk: Path | None

    @property
    def name(self) -> str:
        """Its name in the lab and as a host."""
        return f"node{self.number}"


def mac_address(interface: str, number: int) -> str:
    """The address of a node's NIC: locally administered, one byte for the network, one for the
    node.
    """
    return f"52:54:00:67:{INTERFACES[interface]:02x}:{number:02x}"


def control_address(number: int) -> str:
    """The node's IPv4 address on the control network."""
    return f"10.77.1.{number}"


def data_address(number: int) -> str:
    """The node's IPv4 address on the data network, which its Soft-RoCE device uses."""
    return f"10.77.2.{number}"


def hub_socket(run_directory: Path, network: str, number: int) -> Path:
    """The unix socket at which a hub waits for a node."""
    return run_directory / f"{network}-{number}.sock"


def qmp_socket(run_directory: Path, number: int) -> Path:
    """The unix socket of a node's machine protocol."""
    return run_directory / f"qmp-{number}.sock"


def accelerator_arguments(accelerator: str) -> list[str]:
    """How a machine runs its processors."""
    if accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    # `max` announces string moves and wide vectors as fast that are slow when emulated: measured,
    # the same RDMA transfer costs twice the host's processor time, Python a fifth more.
    return ["-accel", "tcg,thread=multi", "-cpu", "Westmere"]


def hub_command(program: str, run_directory: Path, network: str, nodes: int) -> list[str]:
    """A QEMU without a machine: repeats each frame to all nodes, which may come and go."""
    command = [program, "-M", "none", "-nodefaults", "-no-user-config", "-display", "none"]
    for number in range(1, nodes + 1):
        place = _unix_address(hub_socket(run_directory, network, number))
        command += ["-netdev", f"stream,id=node{number},server=on,{place}"]
        command += ["-netdev", f"hubport,id=port{number},hubid=0,netdev=node{number}"]
    return [*command, "-daemonize", "-pidfile", f"hub-{network}.pid"]


def node_command(program: str, guest: Guest) -> list[str]:
    """One node, started in the lab's state directory, where it has a directory of its name."""
    home = guest.name
    options = _KERNEL_OPTIONS + (" gdrcheck_lab.store" if guest.store_disk else "")
    return [
        program,
        *("-name", f"gdrcheck-lab-{guest.name}"),
        *("-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *accelerator_arguments(guest.accelerator),
        *_processors_and_memory(guest),
        *("-kernel", str(guest.kernel), "-initrd", str(guest.initramfs), "-append", options),
        *("-chardev", f"file,id=console,path={home}/serial.log", "-serial", "chardev:console"),
        *("-qmp", f"unix:{qmp_socket(guest.run_directory, guest.number)},server=on,wait=off"),
        *_disks(guest),
        *_plain_networks(guest),
        *_host_bridge_with_switch(guest),
        *_far_host_bridge(),
        *("-daemonize", "-pidfile", f"{home}/qemu.pid"),
    ]


def _processors_and_memory(guest: Guest) -> list[str]:
    arguments = ["-smp", str(guest.cpus), "-m", f"{guest.memory_mib}M"]
    for node in range(2):
        size = f"size={guest.memory_mib // 2}M"
        arguments += ["-object", f"memory-backend-ram,id=memory{node},{size},prealloc=off"]
        processors = f",cpus={node}" if node < guest.cpus else ""
        arguments += ["-numa", f"node,nodeid={node},memdev=memory{node}{processors}"]
    return arguments


def _disks(guest: Guest) -> list[str]:
    disk = "if=none,cache=unsafe"
    arguments = ["-drive", f"id=root,file={guest.name}/root.qcow2,format=qcow2,{disk}"]
    arguments += ["-device", "virtio-blk-pci,bus=pcie.0,drive=root,serial=root"]
    if guest.store_disk is not None:
        arguments += [
            "-drive",
            f"id=store,file={_escaped(guest.store_disk)},format=raw,readonly=on,{disk}",
        ]
        arguments += ["-device", "virtio-blk-pci,bus=pcie.0,drive=store,serial=store"]
    return arguments


def _plain_networks(guest: Guest) -> list[str]:
    forward = f"hostfwd=tcp:127.0.0.1:{guest.ssh_port}-:22"
    return [
        *("-netdev", f"user,id=management,restrict=on,ipv6=off,{forward},{_HOSTS_TIME}"),
        *("-device", f"{_nic('management', 'mgmt0', guest.number)},bus=pcie.0"),
        *("-netdev", _hub_client(guest, "control")),
        *("-device", f"{_nic('control', 'ctl0', guest.number)},bus=pcie.0"),
    ]


def _host_bridge_with_switch(guest: Guest) -> list[str]:
    """NUMA node 0: the data NIC and an accelerator below one switch, an accelerator below another
    root port.
    """
    nic = _nic("data", "data0", guest.number)
    return [
        *("-device", "pxb-pcie,id=near,bus=pcie.0,bus_nr=32,numa_node=0"),
        *("-device", "pcie-root-port,id=near-port0,bus=near,chassis=1,slot=1"),
        *("-device", "x3130-upstream,id=switch,bus=near-port0"),
        *("-device", "xio3130-downstream,id=switch-port0,bus=switch,chassis=2,slot=2"),
        *("-device", "xio3130-downstream,id=switch-port1,bus=switch,chassis=3,slot=3"),
        *("-device", "pcie-root-port,id=near-port1,bus=near,chassis=4,slot=4"),
        *("-netdev", _hub_client(guest, "data")),
        *("-device", f"{nic},id={DATA_NIC_ID},bus=switch-port0,host_mtu={DATA_MTU}"),
        *("-device", "edu,bus=switch-port1"),
        *("-device", "edu,bus=near-port1"),
    ]


def _far_host_bridge() -> list[str]:
    return [
        *("-device", "pxb-pcie,id=far,bus=pcie.0,bus_nr=96,numa_node=1"),
        *("-device", "pcie-root-port,id=far-port0,bus=far,chassis=5,slot=5"),
        *("-device", "edu,bus=far-port0"),
    ]


def _nic(netdev: str, interface: str, number: int) -> str:
    # Without its boot ROM the firmware has nothing to try before the kernel.
    return f"virtio-net-pci,netdev={netdev},mac={mac_address(interface, number)},romfile="


def _hub_client(guest: Guest, network: str) -> str:
    place = _unix_address(hub_socket(guest.run_directory, network, guest.number))
    return f"stream,id={network},server=off,{place}"


def _unix_address(path: Path) -> str:
    return f"addr.type=unix,addr.path={_escaped(path)}"


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")
