"""Host, limits, PCI and versions probes."""

from __future__ import annotations

from pathlib import Path

from gdrcheck import probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.probes.host import read_limits
from gdrcheck.probes.pci import read_nvidia_gpu_slots
from gdrcheck.probes.versions import read_versions
from tests.probes import trees


def test_effective_capabilities_come_from_the_status_file(tmp_path: Path) -> None:
    trees.write(tmp_path, {"proc/self/status": "Name:\tx\nCapEff:\t0000000000004000\n"})
    assert read_limits(tmp_path).effective_capabilities == 1 << 14


def test_a_status_file_without_capabilities_is_unreadable(tmp_path: Path) -> None:
    trees.write(tmp_path, {"proc/self/status": "Name:\tx\nCapEff:\tzz\n"})
    assert isinstance(read_limits(tmp_path).effective_capabilities, Unreadable)


def test_only_nvidia_display_functions_are_gpus(tmp_path: Path) -> None:
    base = "sys/bus/pci/devices"
    trees.write(
        tmp_path,
        {
            f"{base}/0000:1a:00.0/vendor": "0x10de\n",
            f"{base}/0000:1a:00.0/class": "0x030200\n",
            f"{base}/0000:1b:00.0/vendor": "0x10de\n",
            f"{base}/0000:1b:00.0/class": "0x068000\n",
            f"{base}/0000:00:02.0/vendor": "0x8086\n",
            f"{base}/0000:00:02.0/class": "0x030000\n",
        },
    )
    assert read_nvidia_gpu_slots(tmp_path) == ("0000:1a:00.0",)
    assert isinstance(read_nvidia_gpu_slots(tmp_path / "none"), Unreadable)


def test_versions_come_from_the_record_of_the_image(tmp_path: Path) -> None:
    trees.write(
        tmp_path,
        {"opt/gdrcheck/versions.json": '{"apt": {"libibverbs1": "56"}, "pip": {"pytest": "9"}}'},
    )
    found = read_versions(tmp_path)
    assert (found["libibverbs1"], found["pytest"]) == ("56", "9")
    assert read_versions(tmp_path / "none")["image"].startswith("unreadable")


def test_facts_of_this_machine_survive_serialisation() -> None:
    facts = probes.collect("here")
    assert Facts.model_validate_json(facts.model_dump_json()) == facts
    assert facts.node == "here"
