"""Runs a command in this process, and builds the nodes that its tests look at."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.cli import main
from gdrcheck.facts import Facts
from tests import facts as build

ROCE_GID = {"index": 3, "gid": "::ffff:10.0.0.1", "type": "RoCE v2", "netdev": "ens1"}


@dataclass(frozen=True)
class Done:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def run(*argv: str | Path) -> Done:
    """The command with ``argv``."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in argv])
    return Done(code, out.getvalue(), err.getvalue())


def saved(facts: Facts, folder: Path) -> Path:
    """The file in ``folder`` that holds ``facts``."""
    path = folder / "facts.json"
    path.write_text(facts.model_dump_json())
    return path


def two_sockets() -> Facts:
    """Two switches, each below a socket of its own, with a GPU and a NIC of 400 Gb/s each.

    A third NIC of 100 Gb/s sits beside them, as for storage, and the names run against the slots.
    """
    functions = []
    for number, bus in enumerate(("16", "96")):
        root = f"pci0000:{bus}"
        place = {"root_bus": root, "numa_node": number}
        functions += [
            build.bridge(f"0000:{bus}:01.0", None, "root port", **place),
            build.bridge(f"0000:{bus}:02.0", f"0000:{bus}:01.0", "upstream port", **place),
            build.bridge(f"0000:{bus}:03.0", f"0000:{bus}:02.0", "downstream port", **place),
            build.bridge(f"0000:{bus}:04.0", f"0000:{bus}:02.0", "downstream port", **place),
            build.gpu_function(f"0000:{bus}:05.0", parent=f"0000:{bus}:03.0", **place),
            build.pci_function(f"0000:{bus}:06.0", parent=f"0000:{bus}:04.0", **place),
        ]
    functions += [
        build.bridge("0000:c0:01.0", None, "root port", root_bus="pci0000:c0", numa_node=1),
        build.pci_function(
            "0000:c1:00.0", parent="0000:c0:01.0", root_bus="pci0000:c0", numa_node=1
        ),
    ]
    devices = (
        build.rdma_device("mlx5_0", slot="0000:96:06.0"),
        build.rdma_device("mlx5_1", slot="0000:16:06.0"),
        build.rdma_device(
            "mlx5_2",
            slot="0000:c1:00.0",
            ports=(build.port(rate_gbps=100, link_layer="ethernet", gids=(ROCE_GID,)),),
        ),
    )
    gpus = (build.gpu("0000:16:05.0"), build.gpu("0000:96:05.0"))
    return build.facts(
        rdma_devices=devices,
        pci=build.pci_tree(functions=tuple(functions)),
        nvml=build.nvml(gpus=gpus),
    )
