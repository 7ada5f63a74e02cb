"""Twins with a wrong or missing RDMA device or port."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.captured import edits
from tests.captured.edits import Edit, gone, put
from tests.captured.rdma import VERBS_RECORD, ZERO_GID
from tests.captured.twins.model import RDMA, Twin


def _port(device: str, **files: str) -> tuple[Edit, ...]:
    return tuple(put(f"{RDMA}/{device}/ports/1/{name}", content) for name, content in files.items())


def _soft_roce_instead(root: Path) -> None:
    """mlx5_1 has lost its RDMA device, and rdma_rxe has made one on its interface."""
    folder = root / "sys/devices/virtual/infiniband/rxe1"
    device = (root / RDMA / "mlx5_1").resolve()
    shutil.copytree(device, folder, symlinks=True)
    gone(f"{RDMA}/mlx5_1", "sys/class/infiniband_verbs/uverbs1")(root)
    shutil.rmtree(device)
    for name in ("device", "board_id"):
        (folder / name).unlink()
    put("sys/devices/virtual/infiniband/rxe1/parent", "rdma1")(root)
    (root / RDMA / "rxe1").symlink_to(os.path.relpath(folder, root / RDMA))
    put(VERBS_RECORD, (root / VERBS_RECORD).read_text().replace('"mlx5_1"', '"rxe1"'))(root)


PORTS = (
    Twin(
        code="PORT-DEVICE-MISSING",
        machine="lab",
        places=("node1/rxe0",),
        edits=(gone(f"{RDMA}/rxe0", "sys/class/infiniband_verbs/uverbs0"),),
        blocks=("port_active", "port_rate", "port_link_layer"),
    ),
    Twin(
        code="PORT-DEVICE-MISSING",
        machine="dgx",
        name="dead card",
        places=("node1/mlx5_3",),
        edits=(
            edits.unplugged("0000:40:00.0"),
            gone(
                f"{RDMA}/mlx5_3",
                "sys/class/infiniband_verbs/uverbs3",
                "sys/class/net/ibp64s0",
            ),
        ),
        blocks=("port_active", "port_rate", "pci_link_width", "rail_distance", "gid_usable"),
    ),
    Twin(
        code="PORT-DEVICE-MISSING",
        machine="roce",
        name="second of four by pattern",
        edits=(
            edits.unplugged("0000:32:00.0"),
            gone(f"{RDMA}/mlx5_1", "sys/class/infiniband_verbs/uverbs1", "sys/class/net/rdma1"),
        ),
        blocks=("device_present", "port_active", "pci_link_width", "rail_distance", "gid_usable"),
    ),
    Twin(
        code="PORT-DEVICE-MISSING",
        machine="roce",
        name="Soft-RoCE in its place",
        edits=(_soft_roce_instead,),
        blocks=("device_present", "port_active", "providers"),
    ),
    Twin(
        code="PORT-DEVICE-MISSING",
        machine="roce",
        name="Soft-RoCE in its named place",
        promise={"rails": {"nics": [{"netdev": f"rdma{number}"} for number in range(4)]}},
        places=("node1/rail1",),
        edits=(_soft_roce_instead,),
        blocks=("port_active", "port_rate", "rail_distance"),
    ),
    Twin(
        code="PORT-DEVICE-EXTRA",
        machine="vm",
        promise={"rails": {"count": 1, "nics": [{"name": "mlx5_ib*"}]}},
        blocks=("device_present", "port_active", "gid_usable"),
    ),
    Twin(
        code="PORT-DEVICE-EXTRA",
        machine="dgx",
        name="storage ports as well",
        promise={"rails": {"count": 8, "nics": [{"name": "mlx5_*"}]}},
        blocks=("device_present", "port_active", "port_rate", "pci_link_width", "rail_distance"),
    ),
    Twin(
        code="PORT-NOT-ACTIVE",
        machine="dgx",
        places=("node1/mlx5_5",),
        edits=_port("mlx5_5", state="1: DOWN", phys_state="2: Polling", sm_lid="0x0"),
        blocks=("port_rate", "port_lanes", "port_partition"),
    ),
    Twin(
        code="PORT-NO-SUBNET-MANAGER",
        machine="grace",
        places=("node1/mlx5_0",),
        edits=_port("mlx5_0", state="2: INIT", lid="0x0", sm_lid="0x0"),
        blocks=("port_rate", "port_lanes"),
    ),
    Twin(
        code="PORT-RATE-LOW",
        machine="vm",
        places=("node1/mlx5_ib1",),
        edits=_port("mlx5_ib1", rate="200 Gb/sec (4X HDR)"),
    ),
    Twin(
        code="PORT-LANES",
        machine="dgx",
        places=("node1/mlx5_11",),
        edits=_port("mlx5_11", rate="100 Gb/sec (1X NDR)"),
        blocks=("port_rate",),
    ),
    Twin(
        code="PORT-LINK-LAYER",
        machine="vm",
        places=("node1/mlx5_ib0",),
        edits=_port("mlx5_ib0", link_layer="Ethernet"),
    ),
    Twin(
        code="PORT-FIRMWARE",
        machine="dgx",
        places=("node1/mlx5_6",),
        edits=(put(f"{RDMA}/mlx5_6/fw_ver", "28.39.1002"),),
    ),
    Twin(
        code="PORT-PKEY-MISSING",
        machine="dgx",
        places=("node1/mlx5_0",),
        edits=(put(f"{RDMA}/mlx5_0/ports/1/pkeys/0", "0xffff"),),
    ),
    Twin(
        code="PORT-MTU-LOW",
        machine="roce",
        places=("node1/mlx5_0",),
        edits=(edits.opened("mlx5_0", mtu_bytes=1024),),
    ),
    Twin(
        code="PORT-OPEN-FAILED",
        machine="roce",
        places=("node1/mlx5_3",),
        edits=(edits.opened("mlx5_3", error="Permission denied", error_number=13, ports=[]),),
        blocks=("gid_usable", "port_mtu"),
    ),
    Twin(
        code="PORT-GID-NONE",
        machine="pod",
        places=("node1/mlx5_1",),
        edits=(
            gone(
                *(
                    f"{RDMA}/mlx5_1/ports/1/gid_attrs/{kind}/{index}"
                    for index in (4, 5)
                    for kind in ("types", "ndevs")
                )
            ),
            *(put(f"{RDMA}/mlx5_1/ports/1/gids/{index}", ZERO_GID) for index in (4, 5)),
        ),
    ),
    Twin(
        code="PORT-TRAFFIC-CLASS",
        machine="roce",
        places=("node1/mlx5_1",),
        edits=(put(f"{RDMA}/mlx5_1/tc/1/traffic_class", "Global tclass=96"),),
    ),
    Twin(
        code="PORT-ARP-FLUX",
        machine="pod",
        edits=(
            put(
                "proc/self/net/route",
                "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\t"
                "IRTT\nnet1\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                "net2\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
            ),
        ),
    ),
)
