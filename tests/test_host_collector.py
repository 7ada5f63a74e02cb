"""The host collector, over small trees that stand for a host, with commands of their own."""

from __future__ import annotations

import ast
import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Unreadable
from gdrcheck.host_collector import collect
from gdrcheck.host_collector.children import ask
from gdrcheck.host_collector.kernel_log import TOPICS, read_kernel_log, read_kmsg
from gdrcheck.host_collector.reading import Unread
from gdrcheck.host_collector.software import UNITS
from gdrcheck.probes import collected

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "gdrcheck/host_collector"
RELEASE = "6.1.0-1-amd64"
BRIDGE, NIC, GPU, NVSWITCH, DISK = (f"0000:0{number}:00.0" for number in range(1, 6))
CLASSES = {
    BRIDGE: "0x060400",
    NIC: "0x020700",
    GPU: "0x030200",
    NVSWITCH: "0x068000",
    DISK: "0x010802",
}
KERNEL_CONFIG = "# Linux/x86 Kernel Configuration\nCONFIG_PCI_P2PDMA=y\nCONFIG_INFINIBAND=m\n"
MODULES_DEP = """
kernel/drivers/infiniband/core/ib_core.ko.xz: kernel/net/other.ko.xz
kernel/drivers/net/efa-nv-peermem.ko:
updates/dkms/nvidia-current.ko: kernel/drivers/infiniband/core/ib_core.ko.xz
updates/dkms/nvidia-current-open.ko:
updates/broken.ko.zst:
"""
MODINFO = """
for name; do :; done
case $name in
    ib_core) echo "filename:       /lib/modules/x/kernel/ib_core.ko.xz"
             echo "license:        Dual BSD/GPL"
             echo "srcversion:     0123456789ABCDEF0123456"
             echo "depends:"
             echo "vermagic:       6.1.0-1-amd64 SMP preempt" ;;
    ib_uverbs) echo "name:           ib_uverbs"; echo "filename:       (builtin)" ;;
    efa-nv-peermem) echo "filename: /efa-nv-peermem.ko" ;;
    nvidia-current) echo "filename: /dkms/nvidia-current.ko"; echo "srcversion: CLOSED" ;;
    nvidia-current-open) echo "filename: /dkms/nvidia-current-open.ko"; echo "srcversion: OPEN" ;;
    broken) echo "modinfo: ERROR: could not get modinfo from 'broken': Invalid argument" >&2
            exit 1 ;;
    *) echo "modinfo: ERROR: Module $name not found." >&2; exit 1 ;;
esac
"""
SYSTEMCTL = """
for unit; do
    case $unit in
        nvidia-fabricmanager.service) printf 'LoadState=loaded\\nActiveState=active\\n\\n' ;;
        openibd.service) printf 'LoadState=loaded\\nActiveState=failed\\n\\n' ;;
        opensm.service) printf 'LoadState=loaded\\nActiveState=inactive\\n\\n' ;;
        irqbalance.service) printf 'LoadState=masked\\nActiveState=inactive\\n\\n' ;;
        *.service) printf 'LoadState=not-found\\nActiveState=inactive\\n\\n' ;;
    esac
done
"""


class Host:
    """A tree that stands for a host, beside the collector's folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.out = folder / "out"
        self.root.mkdir()

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def command(self, name: str, script: str) -> None:
        self.write(f"usr/bin/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def function(self, slot: str, kind: str, content: bytes) -> None:
        self.write(f"sys/bus/pci/devices/{slot}/class", kind + "\n")
        self.write(f"sys/bus/pci/devices/{slot}/config", content)

    def kmsg(self, *texts: str, first: int = 0) -> None:
        records = (f"6,{first + n},{n}000500,-;{text}\n" for n, text in enumerate(texts))
        self.write("dev/kmsg", "".join(records))

    def collect(self, **options: Any) -> dict[str, Any]:
        collect(self.out, self.root, **options)
        values: dict[str, Any] = json.loads((self.out / "host.json").read_text())
        return values


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    """A host of which nothing can be read."""
    return Host(tmp_path)


@pytest.fixture
def host(bare: Host) -> Host:
    """A host of which everything can be read."""
    bare.write("etc/os-release", 'NAME="Some"\nPRETTY_NAME="Some Linux 13 (new)"\n')
    bare.write("proc/sys/kernel/osrelease", f"{RELEASE}\n")
    bare.write(f"boot/config-{RELEASE}", KERNEL_CONFIG)
    bare.write(f"lib/modules/{RELEASE}/modules.dep", MODULES_DEP)
    bare.write(f"lib/modules/{RELEASE}/modules.builtin", "kernel/core/ib_uverbs.ko\n")
    (bare.root / "sys/fs").mkdir(parents=True)
    bare.command("modinfo", MODINFO)
    bare.command("systemctl", SYSTEMCTL)
    bare.command("ofed_info", "echo MLNX_OFED_LINUX-24.10-0.7.0.0:")
    bare.kmsg("Linux version 6.1.0", "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.")
    for number, (slot, kind) in enumerate(CLASSES.items()):
        bare.function(slot, kind, bytes([number]) * 4096)
    return bare


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


class TestWhole:
    def test_the_probes_read_what_it_wrote(self, host: Host, tmp_path: Path) -> None:
        host.out = tmp_path / "inside" / collected.FOLDER
        host.collect()
        left = collected.read(tmp_path / "inside")
        assert not isinstance(left.collector, Unreadable)
        assert left.collector.complaints == ()
        assert left.value("os") == "Some Linux 13 (new)"
        assert left.value("ofed") == "MLNX_OFED_LINUX-24.10-0.7.0.0"
        assert left.value("kernel_config")["CONFIG_PCI_P2PDMA"] == "y"
        assert left.value("modules")["ib_core"]["path"] == "/lib/modules/x/kernel/ib_core.ko.xz"
        assert left.value("units")["nvidia-fabricmanager.service"] == "active"
        assert [line["topic"] for line in left.value("kernel_log")] == ["xid"]
        assert left.config_space(NIC) == bytes([1]) * 4096

    def test_a_host_of_which_nothing_can_be_read_has_a_reason_for_everything(
        self, bare: Host
    ) -> None:
        values = bare.collect()
        assert values.pop("version") == collected.VERSION
        assert values.pop("ran_at_s") > 0
        complaints = values.pop("complaints")
        # Without ofed_info there is no vendor's stack: the one answer that needs no file.
        assert values.pop("ofed") == "inbox"
        assert set(values) == {
            "os", "kernel_config", "modules", "selinux", "units", "kernel_log", "config_spaces",
        }  # fmt: skip
        for name, value in values.items():
            assert set(value) == {"unreadable"}, name
            assert value["unreadable"]
            assert f"{name}: {value['unreadable']}" in complaints

    @pytest.mark.parametrize(
        ("name", "lost"),
        [
            ("etc/os-release", {"os"}),
            ("proc/sys/kernel/osrelease", {"kernel_config", "modules"}),
            (f"boot/config-{RELEASE}", {"kernel_config"}),
            (f"lib/modules/{RELEASE}/modules.dep", {"modules"}),
            (f"lib/modules/{RELEASE}/modules.builtin", {"modules"}),
            ("usr/bin/modinfo", {"modules"}),
            ("usr/bin/systemctl", {"units"}),
            ("dev/kmsg", {"kernel_log"}),
            ("sys/bus/pci/devices", {"config_spaces"}),
        ],
    )
    def test_a_missing_source_costs_its_own_value_alone(
        self, host: Host, name: str, lost: set[str]
    ) -> None:
        path = host.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        values = host.collect()
        found = {
            key
            for key, value in values.items()
            if isinstance(value, dict) and set(value) == {"unreadable"}
        }
        assert found == lost
        assert {line.partition(":")[0] for line in values["complaints"]} == lost

    def test_it_changes_nothing_on_the_host(self, host: Host) -> None:
        before = tree(host.root)
        host.collect()
        assert tree(host.root) == before

    def test_modes_do_not_depend_on_the_umask(self, host: Host) -> None:
        before = os.umask(0o077)
        try:
            host.collect()
        finally:
            os.umask(before)
        for path in (host.out, *host.out.rglob("*")):
            assert path.stat().st_mode & 0o7777 == (0o755 if path.is_dir() else 0o644), path

    def test_nothing_else_stays_in_its_folder(self, host: Host) -> None:
        host.collect()
        assert {path.name for path in host.out.iterdir()} == {"host.json", "config"}

    def test_a_second_time_replaces_the_first(self, host: Host) -> None:
        host.collect()
        shutil.rmtree(host.root / "sys/bus/pci/devices" / NIC)
        host.function(GPU, CLASSES[GPU], bytes([9]) * 256)
        host.write("etc/os-release", "PRETTY_NAME=Other\n")
        assert host.collect()["os"] == "Other"
        config = host.out / "config"
        assert {path.name for path in config.iterdir()} == {BRIDGE, GPU, NVSWITCH}
        assert (config / GPU).read_bytes() == bytes([9]) * 256

    def test_two_at_once_leave_the_files_of_one(self, host: Host) -> None:
        """The slower one is held up after it has read, until the other one has ended."""
        read, go = host.root / "read", host.root / "go"
        os.mkfifo(go)
        host.command("ofed_info", f"touch {read}; cat {go}")
        slow = subprocess.Popen(
            [sys.executable, "-m", "gdrcheck.host_collector",
             "--out", host.out, "--root", host.root],
            cwd=REPOSITORY, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while not read.exists():
            assert slow.poll() is None
            time.sleep(0.01)
        host.command("ofed_info", "echo OFED-2:")
        host.function("0000:07:00.0", CLASSES[NIC], bytes(4096))
        assert host.collect()["config_spaces"]["saved"] == 5
        go.write_text("OFED-1:\n")
        assert slow.wait(60) == 0
        values = json.loads((host.out / "host.json").read_text())
        saved = {path.name for path in (host.out / "config").iterdir()}
        assert (values["ofed"], values["complaints"]) == ("OFED-1", [])
        assert values["config_spaces"]["saved"] == len(saved)
        assert {path.name for path in host.out.iterdir()} == {"host.json", "config"}

    def test_one_that_fails_leaves_what_was_there(self, host: Host, monkeypatch: Any) -> None:
        host.collect()
        before = tree(host.out)

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("gdrcheck.host_collector.collector.write", full)
        with pytest.raises(OSError, match="No space left"):
            host.collect()
        assert tree(host.out) == before


class TestChildren:
    def test_a_source_that_hangs_is_named_and_ended_and_the_others_are_read(
        self, host: Host, tmp_path: Path
    ) -> None:
        pid = tmp_path / "pid"
        host.command("ofed_info", f"echo $$ > {pid}\nexec sleep 600")
        values = host.collect(deadline_s=3)
        assert values["ofed"] == {"unreadable": "no answer within 3 s"}
        assert values["os"] == "Some Linux 13 (new)"
        assert ended(int(pid.read_text()))

    def test_a_reader_that_dies_or_breaks_is_unreadable(self, tmp_path: Path) -> None:
        def breaks() -> None:
            raise RuntimeError("torn")

        answers = ask(
            {
                "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
                "breaks": breaks,
                "works": lambda: 1,
            },
            tmp_path,
            60,
        )
        assert answers == {
            "dies": {"unreadable": "the process died"},
            "breaks": {"unreadable": "RuntimeError: torn"},
            "works": 1,
        }

    def test_readers_keep_none_of_the_streams_of_the_caller(self, tmp_path: Path) -> None:
        # ssh, and Ansible with it, waits until the last process that has them open is gone.
        answers = ask({"where": lambda: [os.readlink(f"/proc/self/fd/{n}") for n in range(3)]},
                      tmp_path, 60)  # fmt: skip
        assert answers["where"] == ["/dev/null"] * 3


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet waited for by its parent, within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


class TestSoftware:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("PRETTY_NAME=Plain\n", "Plain"),
            ("PRETTY_NAME='Quoted \u00fc'\n", "Quoted \u00fc"),
            ("NAME=x\n", None),
            ("PRETTY_NAME=\n", None),
            ('PRETTY_NAME="open\n', None),
            ("", None),
        ],
    )
    def test_os(self, host: Host, text: str, name: str | None) -> None:
        host.write("etc/os-release", text)
        found = host.collect()["os"]
        assert found == name if name else "unreadable" in found

    @pytest.mark.parametrize(
        ("text", "mode"), [("1", "enforcing"), ("0", "permissive"), (None, "disabled")]
    )
    def test_selinux(self, host: Host, text: str | None, mode: str) -> None:
        if text is not None:
            host.write("sys/fs/selinux/enforce", text)
        assert host.collect()["selinux"] == mode

    def test_selinux_of_which_the_mode_is_none_is_unreadable(self, host: Host) -> None:
        host.write("sys/fs/selinux/enforce", "\xff")
        assert "unreadable" in host.collect()["selinux"]

    def test_kernel_options_that_are_not_set_are_n(self, host: Host) -> None:
        found = host.collect()["kernel_config"]
        assert found["CONFIG_PCI_P2PDMA"] == "y"
        assert found["CONFIG_INFINIBAND"] == "m"
        assert found["CONFIG_DMABUF_MOVE_NOTIFY"] == "n"
        assert len(found) == 12

    def test_kernel_options_of_the_running_kernel_itself_come_first(self, host: Host) -> None:
        host.write("proc/config.gz", gzip.compress(b"CONFIG_UDMABUF=y\n"))
        found = host.collect()["kernel_config"]
        assert (found["CONFIG_UDMABUF"], found["CONFIG_PCI_P2PDMA"]) == ("y", "n")

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0\xff\x80",
            b"# CONFIG_UDMABUF is not set\n",
            gzip.compress(b"CONFIG_UDMABUF=y")[:-9],
        ],
        ids=["empty", "binary", "no option", "cut off"],
    )
    def test_a_broken_kernel_configuration_is_no_option_that_is_off(
        self, host: Host, content: bytes
    ) -> None:
        host.write("proc/config.gz", content)
        assert set(host.collect()["kernel_config"]) == {"unreadable"}

    def test_modules_on_disk_built_in_and_absent(self, host: Host) -> None:
        found = host.collect()["modules"]
        assert found["ib_core"] == {
            "path": "/lib/modules/x/kernel/ib_core.ko.xz",
            "version": None,
            "source_version": "0123456789ABCDEF0123456",
            "version_magic": "6.1.0-1-amd64 SMP preempt",
            "license": "Dual BSD/GPL",
        }
        assert found["ib_uverbs"]["path"] == "(builtin)"
        assert found["efa_nv_peermem"]["path"] == "/efa-nv-peermem.ko"
        assert set(found["gdrdrv"].values()) == {None}

    @pytest.mark.parametrize("file", ["modules.dep", "modules.builtin"])
    @pytest.mark.parametrize("content", [b"", b"\xff\0\n"], ids=["empty", "binary"])
    def test_a_broken_index_is_not_one_without_modules(
        self, host: Host, file: str, content: bytes
    ) -> None:
        host.write(f"lib/modules/{RELEASE}/{file}", content)
        assert f"{file}: names no module" in host.collect()["modules"]["unreadable"]

    def test_a_module_that_modinfo_cannot_read_is_not_absent(self, host: Host) -> None:
        values = host.collect(modules=["broken"])
        why = "modinfo: modinfo: ERROR: could not get modinfo from 'broken': Invalid argument"
        assert values["modules"]["broken"] == {"unreadable": why}
        assert f"modules: broken: {why}" in values["complaints"]
        assert values["modules"]["ib_core"]["license"] == "Dual BSD/GPL"

    @pytest.mark.parametrize(
        ("loaded", "path"),
        [
            (None, "/dkms/nvidia-current.ko"),
            ("CLOSED\n", "/dkms/nvidia-current.ko"),
            ("OPEN\n", "/dkms/nvidia-current-open.ko"),
        ],
    )
    def test_debian_names_its_nvidia_modules_otherwise(
        self, host: Host, loaded: str | None, path: str
    ) -> None:
        if loaded:
            host.write("sys/module/nvidia/srcversion", loaded)
        assert host.collect()["modules"]["nvidia"]["path"] == path

    @pytest.mark.parametrize("release", ["", "../..", "6.1 x", "-b", "6.1\n7"])
    def test_a_release_that_is_none_is_not_looked_for(self, host: Host, release: str) -> None:
        host.write("proc/sys/kernel/osrelease", release + "\n")
        values = host.collect()
        assert "is no kernel release" in values["modules"]["unreadable"]
        assert "is no kernel release" in values["kernel_config"]["unreadable"]

    def test_the_states_of_units(self, host: Host) -> None:
        found = host.collect()["units"]
        assert set(found) == set(UNITS)
        assert found["nvidia-fabricmanager.service"] == "active"
        assert found["openibd.service"] == "failed"
        assert found["opensm.service"] == "inactive"
        assert found["irqbalance.service"] == "masked"
        assert found["chrony.service"] == "not-found"

    @pytest.mark.parametrize(
        "script",
        [
            "echo no bus >&2; exit 1",
            "printf 'LoadState=loaded\\nActiveState=active\\n'",
            "true",
            f"{SYSTEMCTL}; printf 'ActiveState=active\\n'",
        ],
        ids=["refused", "one answer", "no answer", "one too many"],
    )
    def test_an_answer_that_is_not_about_each_unit_is_none(self, host: Host, script: str) -> None:
        host.command("systemctl", script)
        assert "systemctl: " in host.collect()["units"]["unreadable"]

    @pytest.mark.parametrize("script", ["exit 1", "true", "echo two words", "printf 'a\\nb\\n'"])
    def test_a_vendor_stack_without_a_name_is_not_the_kernels_own(
        self, host: Host, script: str
    ) -> None:
        host.command("ofed_info", script)
        assert "ofed_info: " in host.collect()["ofed"]["unreadable"]

    def test_without_ofed_info_the_stack_is_the_kernels_own(self, host: Host) -> None:
        (host.root / "usr/bin/ofed_info").unlink()
        assert host.collect()["ofed"] == "inbox"

    def test_commands_are_never_taken_from_the_path(
        self, bare: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        planted = tmp_path / "planted"
        planted.mkdir()
        (planted / "ofed_info").write_text("#!/bin/sh\necho PLANTED\n")
        (planted / "ofed_info").chmod(0o755)
        monkeypatch.setenv("PATH", str(planted))
        assert bare.collect()["ofed"] == "inbox"


class TestKernelLog:
    @pytest.mark.parametrize(
        ("text", "topic"),
        [
            ("NVRM: Xid (PCI:0000:0f:00): 79, pid=1, GPU has fallen off the bus.", "xid"),
            ("nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
             "sxid"),
            ("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
             "peermem"),
            ("nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err 0)", "peermem"),
            ("nvidia_peermem: Unknown symbol ib_unregister_peer_memory_client (err -22)",
             "peermem"),
            ("mlx5_ib: disagrees about version of symbol ib_dealloc_pd_user", "symbols"),
            ("NVRM: dma-buf attach failed: PCI topology not supported for dma-buf", "dmabuf"),
            ("NVRM: GPU 0000:0f:00.0: RmInitAdapter failed!", "nvrm"),
            ("mlx5_core 0000:41:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s "
             "PCIe x8 link at 0000:40:01.1", "pcie"),
            ("pcieport 0000:00:1c.0: AER: Corrected error received: 0000:02:00.0", "aer"),
            ("mlx5_core 0000:02:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)", "aer"),
            ("AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0011]", "iommu"),
            ("DMAR: [DMA Read] Request device [41:00.0] fault addr 0x0", "iommu"),
            ("mlx5_core 0000:41:00.0: poll_health:802: device's health compromised", "mlx5"),
            ("mlx5_core 0000:41:00.0: print_health_info:480: assert_var[0] 0x00000000", "mlx5"),
            ("mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error", "mlx5"),
            ("mlx5_core 0000:41:00.0: Port module event: module 0, Cable unplugged", "link"),
            ("mlx5_core 0000:41:00.0 ens1np0: Link down", "link"),
            ("pciehp: Slot(5): Link Down", "link"),
            # What a healthy machine says.
            ("pcieport 0000:00:1c.0: AER: enabled with IRQ 24", None),
            ("nvidia_peermem: module uses symbols from proprietary module nvidia", None),
            ("DMAR: IOMMU enabled", None),
            ("mlx5_core 0000:41:00.0: firmware version: 28.39.1002", None),
            ("IPv6: ADDRCONF(NETDEV_CHANGE): veth1: link becomes ready", None),
            ("service: Link up", None),
        ],
    )  # fmt: skip
    def test_lines_are_told_apart(self, bare: Host, text: str, topic: str | None) -> None:
        bare.kmsg("Linux version 6.1.0", text)
        found = bare.collect()["kernel_log"]
        assert found == (
            [{"topic": topic, "seconds_since_boot": 1.0005, "text": text}] if topic else []
        )

    def test_a_flood_about_one_thing_pushes_out_no_other(self, bare: Host) -> None:
        flood = [f"pcieport 0000:00:01.0: AER: Corrected error {n}" for n in range(5000)]
        bare.kmsg("NVRM: Xid (PCI:0000:0f:00): 79", *flood)
        values = bare.collect()
        lines = values["kernel_log"]
        assert lines[0]["topic"] == "xid"
        assert lines[-1]["text"].endswith(" 4999")
        assert (
            f"kernel_log: {5001 - len(lines)} older lines about aer are left out"
            in (values["complaints"])
        )

    def test_at_most_500_lines_are_kept(self) -> None:
        assert sum(topic.keep for topic in TOPICS) == 500

    def test_lines_come_in_the_order_of_time(self, bare: Host) -> None:
        bare.kmsg("NVRM: a", "NVRM: Xid b", "NVRM: c")
        texts = [line["text"] for line in bare.collect()["kernel_log"]]
        assert texts == ["NVRM: a", "NVRM: Xid b", "NVRM: c"]

    def test_a_log_that_does_not_reach_back_to_boot_says_so(self, bare: Host) -> None:
        bare.kmsg("NVRM: Xid", first=300)
        complaints = bare.collect()["complaints"]
        assert "kernel_log: the first 300 records since boot are overwritten" in complaints

    def test_what_follows_a_record_is_not_a_record(self, bare: Host) -> None:
        bare.write("dev/kmsg", "6,0,1,-;mlx5_core\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n")
        assert bare.collect()["kernel_log"] == []

    @pytest.mark.parametrize("content", ["", "no record\n", "\n\n", "6,0,;x\n"])
    def test_a_log_without_records_is_not_one_without_faults(
        self, bare: Host, content: str
    ) -> None:
        bare.write("dev/kmsg", content)
        assert bare.collect()["kernel_log"] == {"unreadable": "/dev/kmsg: holds no record"}

    def test_records_that_are_overwritten_meanwhile_end_nothing(
        self, bare: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = bare.write("dev/kmsg", "")
        answers: Iterator[bytes | OSError] = iter(
            [b"6,0,1,-;a\n", BrokenPipeError(), b"6,9,2,-;b\n", BlockingIOError()]
        )

        def read(_descriptor: int, _size: int) -> bytes:
            answer = next(answers)
            if isinstance(answer, OSError):
                raise answer
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(os, "read", read)
            assert read_kmsg(path) == b"6,0,1,-;a\n6,9,2,-;b\n"

    @given(content=st.one_of(
        st.binary(max_size=400),
        st.text(alphabet="0123456789,;-\n NVRM:Xid", max_size=400).map(str.encode),
    ))  # fmt: skip
    def test_whatever_it_holds_is_read_or_refused(
        self, content: bytes, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        root = tmp_path_factory.mktemp("root")
        (root / "dev").mkdir()
        (root / "dev/kmsg").write_bytes(content)
        try:
            found = read_kernel_log(root)
        except Unread:
            return
        json.dumps(found).encode("ascii")


class TestConfigSpaces:
    def test_those_of_bridges_nics_gpus_and_switches_are_saved(self, host: Host) -> None:
        assert host.collect()["config_spaces"] == {"saved": 4, "failed": {}}
        config = host.out / "config"
        assert {path.name for path in config.iterdir()} == {BRIDGE, NIC, GPU, NVSWITCH}
        assert (config / GPU).read_bytes() == bytes([2]) * 4096

    def test_no_more_than_the_configuration_space_is_saved(self, host: Host) -> None:
        host.function(NIC, CLASSES[NIC], bytes(10000))
        host.collect()
        assert (host.out / "config" / NIC).stat().st_size == 4096

    def test_the_header_alone_is_not_taken_for_all(self, host: Host) -> None:
        host.function(NIC, CLASSES[NIC], bytes(60))
        values = host.collect()
        why = {"unreadable": "only 60 of 60 bytes could be read"}
        assert values["config_spaces"] == {"saved": 3, "failed": {NIC: why}}
        assert not (host.out / "config" / NIC).exists()

    def test_a_function_that_cannot_be_read_is_named(self, host: Host) -> None:
        function = host.root / "sys/bus/pci/devices" / NIC
        (function / "config").unlink()
        (host.root / "sys/bus/pci/devices" / GPU / "class").write_text("what\n")
        failed = host.collect()["config_spaces"]["failed"]
        assert failed[NIC] == {"unreadable": "No such file or directory"}
        assert "what" in failed[GPU]["unreadable"]


class TestCommand:
    def run(self, *arguments: str, cwd: Path, name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-E", "-m", name, *arguments],
            cwd=cwd, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    def test_it_stands_alone(self, host: Host, tmp_path: Path) -> None:
        shutil.copytree(PACKAGE, tmp_path / "alone/host_collector")
        done = self.run("--out", str(host.out), "--root", str(host.root), "--module", "broken",
                        cwd=tmp_path / "alone", name="host_collector")  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "modules: broken: modinfo: " in done.stdout
        assert json.loads((host.out / "host.json").read_text())["os"] == "Some Linux 13 (new)"

    def test_a_place_where_nothing_can_be_written_is_one_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        done = self.run("--out", str(tmp_path / "file/x"), cwd=REPOSITORY,
                        name="gdrcheck.host_collector")  # fmt: skip
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == (
            f"--out: {tmp_path}/file/x: Not a directory; expected a folder in which this user may "
            "write\n"
        )

    @pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
    def test_it_needs_an_old_python_and_its_standard_library_alone(self, path: Path) -> None:
        parsed = ast.parse(path.read_text(), feature_version=(3, 8))
        for node in ast.walk(parsed):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert str(node.module).partition(".")[0] in sys.stdlib_module_names
            if isinstance(node, ast.Import):
                assert {one.name for one in node.names} <= sys.stdlib_module_names
        first = next(n for n in ast.walk(parsed) if isinstance(n, ast.ImportFrom))
        assert first.module == "__future__"

    def test_ansible_ships_the_same_source(self) -> None:
        link = REPOSITORY / "playbooks/module_utils/gdrcheck_host_collector"
        # Relative, so that a clone has it wherever it lies.
        assert not Path(os.readlink(link)).is_absolute()
        assert link.resolve() == PACKAGE
