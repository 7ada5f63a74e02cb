"""Twins with a fault on PCI."""

from __future__ import annotations

from tests.captured import edits
from tests.captured.config_space import Express
from tests.captured.edits import Edit, gone, put
from tests.captured.machines.roce import REDIRECTING
from tests.captured.twins.model import PCI, RDMA, Twin


def _unbound(slot: str, device: str, uverbs: str, netdev: str) -> Edit:
    """No driver is bound to the NIC at ``slot``, and so nothing is there that it would make."""
    return gone(
        *(f"{PCI}/{slot}/{name}" for name in ("driver", "infiniband", "infiniband_verbs", "net")),
        f"{RDMA}/{device}",
        f"sys/class/infiniband_verbs/{uverbs}",
        f"sys/class/net/{netdev}",
    )


PCI_FUNCTIONS = (
    Twin(
        code="PCI-LINK-WIDTH",
        machine="dgx",
        places=("node1/mlx5_4",),
        edits=(edits.link("0000:4e:00.0", "0000:4f:00.0", width=8),),
    ),
    Twin(
        code="PCI-LINK-WIDTH",
        machine="roce",
        name="gpu",
        places=("node1/gpu1",),
        edits=(edits.link("0000:30:01.0", "0000:31:00.0", width=4),),
    ),
    Twin(
        code="PCI-LINK-WIDTH",
        machine="dgx",
        name="shared",
        places=("node1/mlx5_4",),
        edits=(edits.link("0000:4c:01.0", "0000:4d:00.0", width=8),),
    ),
    Twin(
        code="PCI-LINK-SPEED",
        machine="grace",
        places=("node1/mlx5_0",),
        edits=(edits.link("0002:00:00.0", "0002:01:00.0", speed="16.0 GT/s PCIe"),),
    ),
    Twin(
        code="PCI-AER-UNCORRECTABLE",
        machine="roce",
        places=("node1/mlx5_2",),
        edits=(put(f"{PCI}/0000:92:00.0/aer_dev_fatal", "DLP 2\nTOTAL_ERR_FATAL 2"),),
    ),
    Twin(
        code="PCI-AER-UNCORRECTABLE",
        machine="dgx",
        name="gpu",
        places=("node1/gpu7",),
        edits=(put(f"{PCI}/0000:df:00.0/aer_dev_nonfatal", "CmpltTO 1\nTOTAL_ERR_NONFATAL 1"),),
    ),
    Twin(
        code="PCI-ACS",
        machine="dgx",
        places=("node1/gpu0/mlx5_0",),
        edits=(
            edits.express("0000:17:01.0", Express(port_type="downstream port", acs=REDIRECTING)),
        ),
    ),
    Twin(
        code="PCI-ACS",
        machine="roce",
        name="off",
        places=("node1/gpu3/mlx5_3",),
        edits=(edits.express("0000:b0:03.0", Express(port_type="root port", acs=())),),
    ),
    Twin(
        code="PCI-RELAXED-ORDERING",
        machine="dgx",
        places=("node1/mlx5_9",),
        edits=(edits.express("0000:c0:00.0", Express(relaxed_ordering=False, read_request=4096)),),
    ),
    Twin(
        code="PCI-PAYLOAD",
        machine="dgx",
        places=("node1/mlx5_10",),
        edits=(edits.express("0000:ce:00.0", Express(payload=128, read_request=4096)),),
    ),
    Twin(
        code="PCI-READ-REQUEST",
        machine="roce",
        places=("node1/mlx5_1",),
        edits=(edits.express("0000:32:00.0", Express(read_request=512)),),
    ),
    Twin(
        code="PCI-RAIL-DISTANCE",
        machine="roce",
        places=tuple(f"node1/gpu{number}/mlx5_{number}" for number in range(4)),
        promise={"expect": {"rail_distance": "PIX"}},
    ),
    Twin(
        code="PCI-RAIL-DISTANCE",
        machine="mig",
        name="one",
        places=("node1/gpu0/mlx5_0", "node1/gpu1/mlx5_1"),
        promise={"expect": {"rail_distance": "PIX"}},
    ),
    Twin(
        code="PCI-DRIVER-UNBOUND",
        machine="roce",
        name="one of four",
        edits=(_unbound("0000:b2:00.0", "mlx5_3", "uverbs3", "rdma3"),),
        blocks=("nic_driver_bound", "device_present", "port_active", "providers"),
    ),
    Twin(
        code="PCI-DRIVER-UNBOUND",
        machine="grace",
        places=("node1/rail0",),
        edits=(_unbound("0002:01:00.0", "mlx5_0", "uverbs0", "ibP2p1s0"),),
        blocks=("device_present", "port_active", "port_rate", "providers", "rail_distance"),
    ),
)
