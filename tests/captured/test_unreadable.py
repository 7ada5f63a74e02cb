"""A list that cannot be read as a whole is the error of one check, and blocks what stands on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gdrcheck.outcome import Outcome
from tests.captured.edits import Edit, put
from tests.captured.machines import MACHINES
from tests.captured.running import run_checks


def no_pci(root: Path) -> None:
    """Where the PCI functions are listed there is a file."""
    shutil.rmtree(root / "sys/bus/pci/devices")
    put("sys/bus/pci/devices", "no folder")(root)


# An RDMA device whose name the kernel would not take.
odd_name = put("sys/class/infiniband/mlx5 0", "")


@pytest.mark.parametrize("machine", ["roce", "dgx", "lab", "grace"])
@pytest.mark.parametrize(
    ("edit", "owner", "blocked"),
    [
        (no_pci, "pci_listed[node1]", "pci_link_width"),
        (odd_name, "no_extra_device[node1]", "port_active"),
    ],
)
def test_one_unreadable_list_is_one_error(
    machine: str, edit: Edit, owner: str, blocked: str, tmp_path: Path
) -> None:
    made = MACHINES[machine]()
    root = made.write(tmp_path / "root")
    edit(root)
    ran = run_checks(root, made.profile, tmp_path / "out")
    assert ran.findings == {}
    assert set(ran.of(Outcome.ERROR)) == {owner}
    stopped = ran.of(Outcome.BLOCKED)
    assert set(stopped.values()) == {f"blocked by error in {owner}"}
    assert blocked in {id_.partition("[")[0] for id_ in stopped}
