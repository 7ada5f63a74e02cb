"""gdrcheck facts: everything that is there is shown, what is not is told once, nothing steers."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.facts_file import parse_facts
from tests import facts as build
from tests.commands.support import Done, run, saved, two_sockets

PRIVILEGE = "least privilege: the host collector did not run"
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


def shown(facts: Facts, folder: Path) -> Done:
    done = run("facts", "--from", saved(facts, folder))
    assert (done.code, done.err) == (0, "")
    return done


def test_tree_names_all_that_is_there(tmp_path: Path) -> None:
    out = shown(two_sockets(), tmp_path).out
    for word in (
        "node node1",
        "Ubuntu 24.04.3 LTS",
        "6.8.0-60-generic, pages of 4 KiB",
        "domain identity",
        "580.95.05, open kernel module",
        "mlx5_0, driver mlx5_core, slot 0000:96:06.0, firmware 28.43.2026",
        "ACTIVE, LinkUp, 400 Gb/s (4X NDR), infiniband, MTU 4096 of 4096, LID 17, SM LID 1",
        "GID 0: fe80:0000:0000:0000:b83f:d203:00aa:0001 IB/RoCE v1",
        "gpu1, slot 0000:96:05.0: NVIDIA H200",
        "BAR1 256 GiB, 1 MiB used, MIG disabled",
        "0000:96:05.0  gpu1  32 GT/s x16  NUMA node 1  driver nvidia",
    ):
        assert word in out
    assert "not read:" not in out


def test_each_missing_thing_is_told_once_with_all_that_stands_on_it(tmp_path: Path) -> None:
    collector = Unreadable(unreadable=PRIVILEGE, privilege=True)
    pyverbs = Unreadable(unreadable="pyverbs is not installed")
    facts = build.facts(
        collector=collector,
        host=build.host(os=collector, units=collector, kernel_log=collector),
        nvidia=None,
        nvml=None,
        rdma_devices=tuple(
            build.rdma_device(f"mlx5_{number}", verbs=pyverbs) for number in range(8)
        ),
    )
    out = shown(facts, tmp_path).out
    assert out.count(PRIVILEGE) == 1
    assert re.search(r"\n  pyverbs is not installed: what libibverbs opens \(8 times\)\n", out)
    assert all(word in out.partition("not read:")[2] for word in ("systemd units", "kernel log"))
    assert "NVIDIA driver:\n  is not loaded\n" in out
    assert "  gpu0, slot 0000:1b:00.0\n" in out


def test_a_node_with_nothing_says_so(tmp_path: Path) -> None:
    why = Unreadable(unreadable="pci: Permission denied")
    facts = build.facts(nvidia=None, nvml=None, rdma_devices=(), pci=why)
    out = shown(facts, tmp_path).out
    assert "RDMA devices:\n  none\n" in out
    assert "GPUs:\n  none\n" in out
    assert "  pci: Permission denied: PCI Express tree" in out


def test_gpus_that_only_one_side_knows_are_shown(tmp_path: Path) -> None:
    answer = build.nvml(gpus=(build.gpu("0000:99:00.0"),), lost={build.GPU_SLOT: "GPU is lost"})
    out = shown(build.facts(nvml=answer), tmp_path).out
    assert f"gpu0, slot {build.GPU_SLOT}: NVML has no answer: GPU is lost" in out
    assert "a GPU that PCI does not show, slot 0000:99:00.0: NVIDIA H200" in out


@pytest.mark.parametrize("command", ["facts", "topo"])
def test_facts_that_prove_nothing_about_real_hardware_say_so(tmp_path: Path, command: str) -> None:
    def second_line(facts: Facts) -> str:
        return run(command, "--from", saved(facts, tmp_path)).out.splitlines()[1]

    soft = build.rdma_device("rxe0", slot=None, software=True)
    assert second_line(build.facts(emulated=True)).startswith("EMULATED: ")
    assert second_line(build.facts(rdma_devices=(soft,))) == (
        "SOFT-ROCE: RDMA in software; this proves nothing about real NICs"
    )
    assert "EMULATED" not in second_line(build.facts())
    assert "SOFT-ROCE" not in second_line(build.facts())


def test_json_is_a_facts_file_again(tmp_path: Path) -> None:
    facts = two_sockets()
    done = run("facts", "--from", saved(facts, tmp_path), "--json")
    assert parse_facts(done.out.encode(), "out") == facts


def test_this_machine_can_be_shown_whatever_it_has() -> None:
    done = run("facts")
    assert done.code == 0
    assert all(word in done.out for word in ("host:", "RDMA devices:", "GPUs:", "PCI Express:"))
    assert "Traceback" not in done.err


def test_this_machine_in_json_has_the_name_that_was_given() -> None:
    done = run("facts", "--json", "--node", "n7")
    assert parse_facts(done.out.encode(), "out").node == "n7"


def test_captured_tree_is_read_in_place_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("9.9.9-captured\n")
    done = run("facts", "--root", tmp_path)
    assert done.code == 0
    assert "9.9.9-captured" in done.out


def test_folder_that_is_no_tree_is_one_line(tmp_path: Path) -> None:
    done = run("facts", "--root", tmp_path)
    assert (done.code, done.out) == (2, "")
    expected = "expected / or the folder of a captured tree"
    assert done.err == f"--root {tmp_path}: has no folder sys; {expected}\n"
    done = run("topo", "--root", tmp_path / "none")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"--root {tmp_path}/none: No such file or directory; {expected}\n"
    (tmp_path / "file").touch()
    done = run("facts", "--root", tmp_path / "file")
    assert done.err == f"--root {tmp_path}/file: is no folder; {expected}\n"


def test_what_to_read_is_not_said_of_facts_that_are_read_already(tmp_path: Path) -> None:
    done = run("facts", "--from", saved(build.facts(), tmp_path), "--also", "41:00.0")
    assert (done.code, done.out) == (2, "")
    assert done.err == "--also says what to read; expected it without --from\n"


def test_function_that_is_not_there_is_one_line() -> None:
    done = run("facts", "--also", "FFFF:FF:1f.7")
    assert (done.code, done.out) == (2, "")
    assert done.err == "--also ffff:ff:1f.7: no such PCI function; see lspci -D\n"


def test_long_reading_is_announced_on_standard_error_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(*_: object) -> Facts:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(60)
        return build.facts()

    monkeypatch.setattr("gdrcheck.commands.source.QUIET_S", 0.01)
    monkeypatch.setattr("gdrcheck.probes.collect", slow)
    done = run("facts", "--json")
    assert done.err == "reading this machine ...\n"
    assert json.loads(done.out)["node"] == "node1"


def test_works_without_the_libraries_of_drivers() -> None:
    code = (
        "import sys\n"
        "for name in ('pyverbs', 'cuda', 'pytest', 'numpy', 'pynvml'): sys.modules[name] = None\n"
        "from gdrcheck.cli import main\n"
        "sys.exit(main(['facts']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"node ")


def test_terminal_that_cannot_show_a_letter_gets_an_escape(tmp_path: Path) -> None:
    path = saved(build.facts(host=build.host(os="Caf\u00e9 Linux")), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "gdrcheck", "facts", "--from", path],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Caf\\xe9 Linux" in done.stdout


def hostile(text: str) -> dict[str, Any]:
    """Facts as JSON in which every text that a node may choose is ``text``."""
    why = Unreadable(unreadable=text)
    tree = build.pci_tree(
        functions=(
            build.pci_function(driver=text, root_bus=text),
            build.gpu_function(driver=None, numa_node=why, settings=why, aer_fatal=why),
        ),
        misplaced={text: text},
    )
    device = build.rdma_device(
        text,
        driver=text,
        firmware=text,
        board=text,
        uverbs=text,
        netdevs=(build.netdev(text),),
        ports=(
            build.port(
                state=text,
                physical_state=text,
                speed=text,
                gids=({"index": 0, "gid": text, "type": text, "netdev": text},),
            ),
        ),
        verbs={"name": text, "error": text, "error_number": None, "ports": ()},
    )
    host = build.host(
        hostname=text,
        os=text,
        kernel=text,
        architecture=text,
        command_line=text,
        kernel_config={text: text},
        lsm_label=text,
        units={text: text},
        sysctls={text: text},
        modules=(build.module(text, version=text),),
        kernel_log=({"topic": text, "seconds_since_boot": 1.0, "text": text},),
    )
    gpu = build.gpu(model=text, uuid=text, compute_mode=text, fabric_state=text)
    return build.facts(
        node=text,
        host=host,
        collector={"version": 1, "ran_at_s": 0.0, "complaints": (text,)},
        nvml=build.nvml(gpus=(gpu,), lost={text: text}),
        nvidia=build.nvidia_driver(version=text, cuda=text, parameters={text: text}),
        rdma_stack=build.rdma_stack(
            ofed=text, rdma_core=text, providers=({"name": text, "library": None},)
        ),
        rdma_devices=(device,),
        pci=tree,
        versions={"gdrcheck": text},
    ).model_dump(mode="json")


FORGED = "\nverdict: PASS"
# Besides line ends, nothing that a terminal obeys or that turns the order of letters around.
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@unhurried
@given(st.text(max_size=12), st.sampled_from(["facts", "topo"]))
@example("\x1b[2J\x9b31m\u202e" + FORGED, "facts")
@example("\x1b[2J\x9b31m\u202e" + FORGED, "topo")
def test_no_name_from_a_node_steers_the_terminal_or_forges_a_line(text: str, command: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "facts.json"
        path.write_text(json.dumps(hostile(text)))
        done = run(command, "--from", path)
        as_json = run(command, "--from", path, "--json")
    for one in (done, as_json):
        assert (one.code, one.err) == (0, "")
        assert not STEERING.search(one.out)
        assert "verdict: PASS" not in one.out.splitlines()
    if command == "facts":
        assert json.loads(as_json.out) == hostile(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x00\xff", "is not JSON"),
        (b'{"schema_version": 3, "node": ', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "is JSON, but no facts"),
        (b'{"verdict": "PASS"}', "is JSON, but no facts"),
        (
            b'{"schema_version": 2, "node": "a"}',
            "facts of schema version 2; expected version 3: collect them again with this release",
        ),
        (
            b'{"schema_version": 4, "node": "a"}',
            "facts of schema version 4; expected version 3: they were written by a newer gdrcheck: "
            "update this one",
        ),
        (
            b'{"schema_version": "x", "node": "a"}',
            "facts of schema version x; expected version 3: collect them again",
        ),
        (
            b'{"schema_version": 3, "node": "a"}',
            "collector: is missing (and 8 more problems); the facts are of an older gdrcheck: "
            "collect them again",
        ),
        (b" " * (5 << 20), "larger than 4194304 bytes"),
    ],
)
@pytest.mark.parametrize("command", [("facts",), ("topo",), ("profile",)])
def test_file_that_holds_no_facts_is_one_line(
    tmp_path: Path, content: bytes, said: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "f.json").write_bytes(content)
    done = run(*command, "--from", tmp_path / "f.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{tmp_path}/f.json: {said}")
    assert done.err.count("\n") == 1


def test_field_that_is_not_there_yet_or_not_known_yet_is_named(tmp_path: Path) -> None:
    data = build.facts().model_dump(mode="json")
    del data["rdma_devices"][0]["ports"][0]["counters"]
    older, newer = tmp_path / "older", tmp_path / "newer"
    older.write_text(json.dumps(data))
    newer.write_text(json.dumps(build.facts().model_dump(mode="json") | {"kettle": 1}))
    said = run("facts", "--from", older).err
    assert said.startswith(f"{older}: rdma_devices[0].ports[0].counters: is missing")
    assert "collect them again with this release, gdrcheck facts --json" in said
    said = run("facts", "--from", newer).err
    assert said.startswith(f"{newer}: kettle: is not known here; ")
    assert "update this one" in said


@pytest.mark.parametrize("command", [("facts",), ("topo",), ("profile",)])
def test_facts_come_from_standard_input_as_well(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def given(content: bytes) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return run(*command, "--from", "-")

    done = given(build.facts().model_dump_json().encode())
    assert (done.code, done.err) == (0, "")
    assert "node1" in done.out
    done = given(b"")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("standard input: is empty; ")


def test_folder_or_nothing_in_place_of_a_file_is_one_line(tmp_path: Path) -> None:
    assert run("facts", "--from", tmp_path).err == f"{tmp_path}: cannot be read: Is a directory\n"
    done = run("topo", "--from", tmp_path / "none")
    assert (done.code, done.err) == (
        2,
        f"{tmp_path}/none: cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize("command", ["facts", "topo", "profile"])
def test_slot_or_network_that_is_none_is_one_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "f.json"
    data = build.facts().model_dump(mode="json")
    data["rdma_devices"][0]["netdevs"][0]["subnets"] = ["10.0.0.1/24"]
    file.write_text(json.dumps(data))
    done = run(command, "--from", file)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"{file}: rdma_devices[0].netdevs[0].subnets[0]: ")
    assert "10.0.0.1/24" in done.err
    data["pci"]["functions"][0]["slot"] = "\x1b[2J"
    file.write_text(json.dumps(data))
    done = run(command, "--from", file)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "\x1b" not in done.err
