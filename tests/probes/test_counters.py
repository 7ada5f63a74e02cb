"""The counters of ports: what is a counter, what cannot be read, and what is not there."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import CountersAfter, Unreadable
from gdrcheck.probes import counters
from gdrcheck.probes.counters import read_counters, read_counters_after
from tests.probes import trees


def port(root: Path, **files: str) -> Path:
    trees.write(root, {"state": "4: ACTIVE\n", **files})
    return root


def test_both_kinds_are_read_and_the_first_wins(tmp_path: Path) -> None:
    files = {
        "counters/link_downed": "3\n",
        "counters/VL15_dropped": "0\n",
        "hw_counters/link_downed": "9\n",
        "hw_counters/out_of_sequence": f"{2**64 - 1}\n",
        "hw_counters/lifespan": "10\n",
    }
    found = read_counters(port(tmp_path, **files))
    assert found.values == {"link_downed": 3, "VL15_dropped": 0, "out_of_sequence": 2**64 - 1}
    assert found.unreadable == {}


@pytest.mark.parametrize("text", ["", "-1\n", "0x10\n", "1_0\n", "1 2\n", "9" * 30 + "\n", "é"])
def test_a_counter_that_cannot_be_read_is_named_and_keeps_the_others(
    tmp_path: Path, text: str
) -> None:
    files = {"counters/link_downed": text, "counters/symbol_error": "1\n"}
    found = read_counters(port(tmp_path, **files))
    assert found.values == {"symbol_error": 1}
    assert list(found.unreadable) == ["link_downed"]
    assert "link_downed" in found.unreadable["link_downed"]


def test_a_counter_that_the_device_does_not_have_is_not_there(tmp_path: Path) -> None:
    found = read_counters(port(tmp_path, **{"counters/link_downed": "N/A (no PMA)\n"}))
    assert (found.values, found.unreadable) == ({}, {})


def test_a_port_may_have_no_counters_but_a_port_that_is_not_there_has_none_known(
    tmp_path: Path,
) -> None:
    assert read_counters(port(tmp_path)).values == {}
    assert isinstance(read_counters(tmp_path / "nowhere").values, Unreadable)


def test_counters_that_are_no_folder_are_unreadable(tmp_path: Path) -> None:
    found = read_counters(port(tmp_path, counters="0\n"))
    assert isinstance(found.values, Unreadable)


def test_after_the_transfers_all_ports_are_read(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1", **{"counters/link_downed": "2\n"})
    trees.pci_nic(tmp_path, "mlx5_1", "0000:1a:00.0", "eth2", **{"counters/link_downed": "x\n"})
    after = read_counters_after("a", tmp_path)
    assert not isinstance(after.ports, Unreadable)
    first, second = after.ports
    assert (after.node, first.device, first.port) == ("a", "mlx5_0", 1)
    assert first.counters == {"link_downed": 2, "out_of_sequence": 7}
    assert second.counters == {"out_of_sequence": 7}
    assert list(second.unreadable_counters) == ["link_downed"]
    assert CountersAfter.model_validate_json(after.model_dump_json()) == after


def test_a_port_that_hangs_does_not_cost_the_counters_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    trees.pci_nic(tmp_path, "mlx5_1", "0000:1a:00.0", "eth2")
    over, read = threading.Event(), counters.read_text

    def waiting(path: Path) -> str | Unreadable:
        if "mlx5_0" in str(path):
            over.wait()
        return read(path)

    monkeypatch.setattr(counters, "read_text", waiting)
    try:
        after = read_counters_after("a", tmp_path, 0.5)
    finally:
        over.set()
    assert not isinstance(after.ports, Unreadable)
    sick, well = after.ports
    assert sick.counters == Unreadable(
        unreadable="mlx5_0 port 1: its driver gave no answer within 0.5 s"
    )
    assert well.counters == {"link_downed": 0, "out_of_sequence": 7}


def test_a_machine_that_cannot_be_read_has_no_counters_known(tmp_path: Path) -> None:
    assert isinstance(read_counters_after("a", tmp_path).ports, Unreadable)
    (tmp_path / "sys/class").mkdir(parents=True)
    assert read_counters_after("a", tmp_path).ports == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    name=st.binary(min_size=1, max_size=20).filter(
        lambda name: not {b"/"[0], 0} & set(name) and name not in (b".", b"..")
    ),
    data=st.binary(max_size=64),
)
def test_any_name_and_any_bytes_are_survived(tmp_path: Path, name: bytes, data: bytes) -> None:
    folder = port(tmp_path, **{"counters/link_downed": "0\n"}) / "counters"
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    path.write_bytes(data)
    try:
        found = read_counters(tmp_path)
    finally:
        path.unlink()
    if not isinstance(found.values, Unreadable):
        assert all(count >= 0 for count in found.values.values())
        assert not name.isalnum() or len(found.values) + len(found.unreadable) == 2
