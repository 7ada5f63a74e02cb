"""Devices whose driver hangs: the others are read, in time, and the sick one is named."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdrcheck.facts import RdmaDevice, Unreadable
from gdrcheck.probes import rdma, reading
from gdrcheck.probes.side_by_side import side_by_side
from tests.probes import trees


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes reads of files whose path holds a text wait until the end of the test."""
    over, slow, read = threading.Event(), set[str](), reading.read_bytes

    def waiting(path: Path, most_bytes: int = reading.MAX_BYTES) -> bytes | Unreadable:
        if any(part in str(path) for part in slow):
            over.wait()
        return read(path, most_bytes)

    monkeypatch.setattr(reading, "read_bytes", waiting)
    yield slow.add
    over.set()


@pytest.mark.parametrize("file", ["counters/link_downed", "fw_ver", "gids/1"])
def test_a_device_that_hangs_costs_its_own_values_only(
    tmp_path: Path, hang: Callable[[str], None], file: str
) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    trees.pci_nic(tmp_path, "mlx5_1", "0000:1a:00.0", "eth2")
    healthy = rdma.read_devices(tmp_path)
    hang(f"mlx5_1/{file}" if file == "fw_ver" else f"mlx5_1/ports/1/{file}")
    devices = rdma.read_devices(tmp_path, 0.5)
    assert not isinstance(devices, Unreadable)
    assert not isinstance(healthy, Unreadable)
    assert devices[0] == healthy[0]
    sick, well = devices[1], healthy[1]
    assert (sick.name, sick.slot, sick.driver, sick.netdev_names) == (
        well.name,
        well.slot,
        well.driver,
        ("eth2",),
    )
    why = Unreadable(unreadable="mlx5_1: its driver gave no answer within 0.5 s")
    assert (sick.firmware, sick.ports[0].state, sick.ports[0].counters) == (why, why, why)
    assert RdmaDevice.model_validate_json(sick.model_dump_json()) == sick


def test_a_driver_that_hangs_does_not_keep_the_process() -> None:
    script = (
        "import threading; from gdrcheck.probes.side_by_side import side_by_side; "
        "print(side_by_side({'mlx5_0': threading.Event().wait}, 0.1)['mlx5_0'].unreadable)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "mlx5_0: its driver gave no answer within 0.1 s\n"


def test_what_a_read_raises_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        side_by_side({"mlx5_0": lambda: 1 // 0}, 60)
