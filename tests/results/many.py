"""A made-up fleet: any number of nodes with eight GPUs and eight NICs each, some of them odd.

On each node eight switches, with a GPU and a NIC below each, as tests/facts.py draws one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from gdrcheck import __version__
from gdrcheck.facts import Facts, Nvml, PciFunction, PciTree, VerbsDevice, VerbsPort
from gdrcheck.run import NodeSpec, RunSpec
from tests import facts as builders
from tests.gpu_facts import gpu_health

RAILS = 8
PROFILE = builders.profile(
    gpus={"count": RAILS, "model": "NVIDIA H200"},
    rails={
        "count": RAILS,
        "nics": [{"name": "mlx5_*"}],
        "port_rate_gbps": 400,
        "link_layer": "infiniband",
    },
)
Odd = Callable[[Facts], Facts]


def names(count: int) -> list[str]:
    """``node0001`` and so on."""
    return [f"node{number:04d}" for number in range(1, count + 1)]


def node() -> Facts:
    """The facts of a healthy node of the fleet."""
    verbs = [
        VerbsDevice(
            name=f"mlx5_{rail}",
            error=None,
            error_number=None,
            ports=(VerbsPort(number=1, active_mtu_bytes=4096, max_mtu_bytes=4096),),
        )
        for rail in range(RAILS)
    ]
    return builders.facts(
        pci=builders.pci_tree(
            functions=tuple(one for rail in range(RAILS) for one in _switch(rail))
        ),
        rdma_devices=tuple(
            builders.rdma_device(
                f"mlx5_{rail}",
                slot=_slot(rail, 0xA),
                netdevs=(builders.netdev(f"ibs{rail}", subnets=(f"10.0.{rail}.0/24",)),),
                uverbs=f"uverbs{rail}",
                verbs=verbs[rail],
            )
            for rail in range(RAILS)
        ),
        nvml=builders.nvml(
            gpus=tuple(
                builders.gpu(
                    _slot(rail, 0xB),
                    uuid=f"GPU-00000000-0000-0000-0000-{rail:012d}",
                    health=gpu_health(),
                )
                for rail in range(RAILS)
            )
        ),
    )


def _slot(rail: int, bus: int) -> str:
    return f"0000:{rail + 1:x}{bus:x}:00.0"


def _switch(rail: int) -> tuple[PciFunction, ...]:
    root, up = f"0000:{rail + 1:x}6:01.0", _slot(rail, 7)
    to_nic, to_gpu = f"0000:{rail + 1:x}8:00.0", f"0000:{rail + 1:x}8:01.0"
    below = {"root_bus": f"pci0000:{rail + 1:x}6"}
    return (
        builders.bridge(root, None, "root port", **below),
        builders.bridge(up, root, "upstream port", **below),
        builders.bridge(to_nic, up, "downstream port", **below),
        builders.bridge(to_gpu, up, "downstream port", **below),
        builders.pci_function(_slot(rail, 0xA), parent=to_nic, **below),
        builders.gpu_function(_slot(rail, 0xB), parent=to_gpu, **below),
    )


def fleet(count: int, odd: Mapping[str, Odd]) -> dict[str, Facts]:
    """The facts of ``count`` nodes, by name; ``odd``: what is changed on which."""
    usual = node()
    changed = {name: change(usual) for name, change in odd.items()}
    return {
        name: changed.get(name, usual).model_copy(update={"node": name}) for name in names(count)
    }


def run_of(nodes: Sequence[str]) -> RunSpec:
    """A run of these nodes, all of one profile."""
    return RunSpec(
        run_id="20260102T030405Z-0a1b2c",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        gdrcheck_version=__version__,
        nodes=tuple(NodeSpec(name=name, address="192.0.2.1", profile="bought") for name in nodes),
        profiles={"bought": PROFILE},
    )


def other_kernel(facts: Facts) -> Facts:
    """Another kernel runs."""
    return facts.model_copy(
        update={"host": facts.host.model_copy(update={"kernel": "6.8.0-59-generic"})}
    )


def other_firmware(facts: Facts) -> Facts:
    """One NIC runs other firmware."""
    return _with_device(facts, 3, firmware="28.39.1002")


def other_mtu(facts: Facts) -> Facts:
    """The active MTU of one port is smaller."""
    ports = (VerbsPort(number=1, active_mtu_bytes=1024, max_mtu_bytes=4096),)
    verbs = VerbsDevice(name="mlx5_2", error=None, error_number=None, ports=ports)
    return _with_device(facts, 2, verbs=verbs)


def other_vbios(facts: Facts) -> Facts:
    """One GPU has another VBIOS."""
    assert isinstance(facts.nvml, Nvml)
    health = gpu_health(vbios="96.00.68.00.02")
    gpus = tuple(
        gpu.model_copy(update={"health": health}) if number == 5 else gpu
        for number, gpu in enumerate(facts.nvml.gpus)
    )
    return facts.model_copy(update={"nvml": builders.nvml(gpus=gpus)})


def other_read_request(facts: Facts) -> Facts:
    """The largest read request of one NIC is smaller."""
    assert isinstance(facts.pci, PciTree)
    settings = builders.settings(max_read_request_bytes=512)
    functions = tuple(
        one.model_copy(update={"settings": settings}) if one.slot == _slot(7, 0xA) else one
        for one in facts.pci.functions
    )
    return facts.model_copy(update={"pci": builders.pci_tree(functions=functions)})


def _with_device(facts: Facts, number: int, **changes: object) -> Facts:
    assert isinstance(facts.rdma_devices, tuple)
    devices = tuple(
        one.model_copy(update=changes) if one.name == f"mlx5_{number}" else one
        for one in facts.rdma_devices
    )
    return facts.model_copy(update={"rdma_devices": devices})


# Five nodes of a thousand, each odd in its own way, and the place at which each is found.
FIVE: dict[str, tuple[Odd, str]] = {
    "node0001": (other_kernel, "node0001"),
    "node0123": (other_firmware, "node0123/mlx5_3"),
    "node0500": (other_vbios, "node0500/gpu5"),
    "node0777": (other_read_request, "node0777"),
    "node1000": (other_mtu, "node1000/mlx5_2"),
}
