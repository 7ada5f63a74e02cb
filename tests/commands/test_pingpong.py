"""gdrcheck pingpong: two processes on loopback, each with a FAKE endpoint child."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gdrcheck.commands.pingpong.reach import channel_to
from gdrcheck.commands.pingpong.token import CALLER, LISTENER, identity
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.hand_messages import End, Greeted, Greeting
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.schemas import schema_text
from tests import facts as build
from tests.pairing.support import LOOPBACK, PATIENCE_S, Faults, free_ports, in_thread

TOKEN = "a-token-of-the-tests-0123456789"
ROOT = Path(__file__).resolve().parents[2]
ROCE = build.port(
    link_layer="ethernet",
    gids=tuple(
        {"index": index, "gid": f"::ffff:10.0.0.{index}", "type": "RoCE v2", "netdev": "ens1"}
        for index in (3, 5, 7)
    ),
)
QUICK = ("-s", "1,4096", "-n", "2", "--timeout", "60")


def machine(nic: str, **changes: object) -> Facts:
    """A machine whose only NIC is called ``nic``, with one GPU beside it."""
    return build.facts(rdma_devices=(build.rdma_device(nic, ports=(ROCE,)),), **changes)


class Ends:
    """A listener (nic ``there``) and a caller (nic ``here``), their folders and their port."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = folder / "here", folder / "there"
        for place, nic in ((self.here, "here"), (self.there, "there")):
            place.mkdir()
            self.save(place, machine(nic))
        (self.port,) = free_ports(1)

    def save(self, place: Path, facts: Facts) -> None:
        (place / "facts.json").write_text(facts.model_dump_json())

    def fault(self, place: Path, command: str, fault: str, *, always: bool = False) -> None:
        Faults(place).set(place.name, command, fault, always=always)

    def requests(self, place: Path, command: str) -> list[dict[str, Any]]:
        """What the endpoint children of ``place`` were asked to do by ``command``."""
        return [one for one in Faults(place).requests(place.name) if one["command"] == command]

    @contextmanager
    def started(self, place: Path, *argv: str, token: str = TOKEN) -> Iterator[Process]:
        process = Process(place, [*argv, "-p", str(self.port)], token)
        try:
            yield process
        finally:
            process.close()

    @contextmanager
    def listener(self, *argv: str, token: str = TOKEN) -> Iterator[Process]:
        """A listener that listens."""
        options = ("--listen", LOOPBACK, "--node", "node2", *argv)
        with self.started(self.there, *options, token=token) as process:
            process.wait_for("node2 listens on")
            yield process

    def call(self, *argv: str, token: str = TOKEN) -> Process:
        """What a caller left."""
        options = (LOOPBACK, "--node", "node1", *(argv or QUICK))
        with self.started(self.here, *options, token=token) as process:
            process.end()
            return process


class Process:
    """One end, as a process."""

    def __init__(self, folder: Path, argv: list[str], token: str) -> None:
        self._err_path = folder / "stderr"
        self._out_path = folder / "stdout"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
        environment.pop("GDRCHECK_TOKEN", None)
        if token:
            environment["GDRCHECK_TOKEN"] = token
        with self._out_path.open("w") as out, self._err_path.open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.commands.pingpong_process", str(folder), *argv],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, cwd=ROOT,
            )  # fmt: skip

    @property
    def out(self) -> str:
        return self._out_path.read_text()

    @property
    def err(self) -> str:
        return self._err_path.read_text()

    @property
    def code(self) -> int:
        return self._process.returncode

    def wait_for(self, text: str) -> None:
        """Waits until ``text`` is on standard error; fails if the process ends before."""
        limit = time.monotonic() + PATIENCE_S
        while text not in self.err:
            assert self._process.poll() is None, self.err
            assert time.monotonic() < limit, f"never said {text!r}: {self.err}"
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """Waits for the end; a hang fails."""
        self._process.wait(PATIENCE_S * 3)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path)


def sentences(process: Process) -> list[str]:
    return [line for line in process.out.splitlines() if " memory of " in line]


# --- what works ---------------------------------------------------------------------------------


def test_every_mode_is_told_in_a_sentence_for_each_direction(ends: Ends) -> None:
    with ends.listener() as listener:
        caller = ends.call()
        listener.end()
    assert (caller.code, listener.code) == (0, 0), caller.out + caller.err + listener.err
    said = sentences(caller)
    assert len(said) == 8
    # 2 sizes, 2 messages each, 2 ways to register, 5 operations.
    assert (
        said[0]
        == "host memory of node1 reaches host memory of node2: 40 messages, every byte right"
    )
    assert (
        "GPU memory of node1 reaches GPU memory of node2 by dma-buf: 40 messages, every byte right"
        in said
    )
    assert caller.out.splitlines()[-1].startswith("PASS: 320 messages, every byte right")
    assert "node1 was served to the end; it has the result" in listener.err
    assert listener.out == ""


def test_the_printed_token_lets_the_caller_in(ends: Ends) -> None:
    with ends.listener(token="") as listener:
        listener.wait_for("gdrcheck pingpong node2 -p")
        (token,) = re.findall(r"GDRCHECK_TOKEN=(\S+) gdrcheck pingpong", listener.err)
        caller = ends.call(*QUICK, "--modes", "host-host", token=token)
        listener.end()
    assert (caller.code, listener.code) == (0, 0), caller.err


def test_a_token_that_was_given_is_not_printed(ends: Ends) -> None:
    with ends.listener() as listener:
        ends.call(*QUICK, "--modes", "host-host")
        listener.end()
    assert TOKEN not in listener.err
    assert "on the other machine, with the same token:" in listener.err
    assert f"  gdrcheck pingpong node2 -p {ends.port}" in listener.err.splitlines()


def test_the_listener_says_what_the_caller_is_at(ends: Ends) -> None:
    with ends.listener() as listener:
        caller = ends.call(*QUICK, "--modes", "host-host,gpu-gpu", "--operations", "WRITE,READ")
        listener.end()
    assert caller.code == 0, caller.err
    told = [line for line in listener.err.splitlines() if line.endswith("measured")]
    assert told == ["host-host is measured", "gpu-gpu is measured"]


def test_the_caller_says_for_both_ends_how_it_is_marked(ends: Ends) -> None:
    options = ("-T", "0x6a", "-m", "1024", "-q", "2", "--modes", "host-host", "-x", "5")
    with ends.listener("-x", "7") as listener:
        assert ends.call(*QUICK, *options).code == 0
        listener.end()
    for place, gid_index in ((ends.here, 5), (ends.there, 7)):
        opened = ends.requests(place, "open")[-1]
        assert (opened["traffic_class"], opened["path_mtu"]) == (106, 1024)
        assert opened["gid_index"] == gid_index
        assert ends.requests(place, "create_qp")[-1]["queue_pairs"] == 2


def test_only_what_was_asked_for_is_measured_and_that_is_said(ends: Ends) -> None:
    with ends.listener():
        caller = ends.call(*QUICK, "--modes", "gpu-host", "--operations", "write,read")
    assert caller.code == 0, caller.err
    assert len(sentences(caller)) == 2
    assert all("every byte right (WRITE, READ only)" in one for one in sentences(caller))
    armed = ends.requests(ends.here, "arm")
    assert {one["operation"] for one in armed} == {"WRITE", "READ"}
    assert {tuple(one["sizes_bytes"]) for one in armed} == {(1, 4096)}
    assert {one["iterations"] for one in armed} == {2}


def test_json_fits_its_schema_and_is_all_of_standard_output(ends: Ends) -> None:
    with ends.listener():
        caller = ends.call(*QUICK, "--modes", "gpu-gpu", "--json")
    report = json.loads(caller.out)
    jsonschema.validate(report, json.loads(schema_text("pingpong")))
    assert (caller.code, report["verdict"]) == (0, "PASS"), caller.err
    assert len(report["transfers"]) == 10
    assert {one["outcome"] for one in report["transfers"]} == {"passed"}
    assert report["numbers"] == []
    assert [report[end]["node"] for end in ("caller", "listener")] == ["node1", "node2"]


def test_numbers_are_judged_by_what_both_ends_could_do(ends: Ends) -> None:
    with ends.listener():
        caller = ends.call(*QUICK, "--modes", "host-host", "--numbers", "--json")
    numbers = json.loads(caller.out)["numbers"]
    assert [(one["kind"], one["size_bytes"]) for one in numbers if one["direction"] == "in"] == [
        ("latency", 1),
        ("bandwidth", 1),
        ("bandwidth", 4096),
    ]
    # The fake children are no match for the NIC of 400 Gb/s that the facts tell of.
    judged = [one for one in numbers if one["expected_gbps"] is not None]
    assert {(one["outcome"], one["size_bytes"]) for one in judged} == {("failed", 4096)}
    assert caller.code == 1


def test_a_listener_that_keeps_on_serves_one_caller_after_the_other(ends: Ends) -> None:
    with ends.listener("--keep") as listener:
        codes = [ends.call(*QUICK, "--modes", "host-host").code for _ in range(2)]
        listener.signal(signal.SIGINT)
        listener.end()
    assert codes == [0, 0]
    assert listener.err.count("node1 was served to the end") == 2


def test_two_ends_of_one_name_are_told_apart(ends: Ends) -> None:
    with ends.listener():
        options = (LOOPBACK, "--node", "node2", *QUICK, "--modes", "host-host")
        with ends.started(ends.here, *options) as caller:
            caller.end()
    assert caller.code == 0, caller.err
    assert sentences(caller)[0].startswith(
        "host memory of node2 reaches host memory of node2-listener:"
    )


# --- what is wrong ------------------------------------------------------------------------------


def test_wrong_data_fails_with_cause_and_repair(ends: Ends) -> None:
    ends.fault(ends.there, "go", "mismatch", always=True)
    with ends.listener():
        caller = ends.call(*QUICK, "--modes", "host-host", "--operations", "WRITE")
    assert caller.code == 1, caller.err
    assert "does not reach" in caller.out
    assert "findings:" in caller.out
    assert "likely cause:" in caller.out
    assert "all causes and repairs: gdrcheck explain PAIR-" in caller.out
    assert caller.out.splitlines()[-1].startswith("FAIL: ")


def test_an_end_without_a_gpu_is_no_pass(ends: Ends) -> None:
    bare = build.pci_tree(functions=(build.pci_function(parent=None),))
    ends.save(ends.there, machine("there", nvml=None, nvidia=None, pci=bare))
    with ends.listener():
        caller = ends.call()
    assert caller.code == 2
    assert caller.out.splitlines()[-1].startswith("INCOMPLETE: ")
    assert "host memory of node1 reaches host memory of node2: 40 messages" in caller.out
    assert "GPU memory of node1 to GPU memory of node2" in caller.out
    assert "node2: no NVIDIA GPU on PCI" in caller.out


def test_host_memory_alone_passes_where_that_was_asked_for(ends: Ends) -> None:
    bare = build.pci_tree(functions=(build.pci_function(parent=None),))
    ends.save(ends.there, machine("there", nvml=None, nvidia=None, pci=bare))
    with ends.listener():
        assert ends.call(*QUICK, "--modes", "host-host").code == 0
    with ends.listener("--gpu", "none"):
        caller = ends.call()
    assert caller.code == 0
    assert "node2 was started with --gpu none: GPU memory was not asked for" in caller.out


def test_what_is_wrong_with_a_gpu_matters_only_where_gpus_are_asked_for(ends: Ends) -> None:
    ends.fault(ends.there, "open_gpu", "step ibv_reg_dmabuf_mr", always=True)
    with ends.listener():
        caller = ends.call(*QUICK, "--gpu", "none")
    assert (caller.code, "MR-" in caller.out.partition("path MTU")[2]) == (0, False), caller.out


def test_modes_of_gpu_memory_that_the_listener_leaves_out_are_no_pass(ends: Ends) -> None:
    with ends.listener("--gpu", "none"):
        caller = ends.call(*QUICK, "--modes", "gpu-gpu")
    assert caller.code == 2
    assert "--gpu none" in caller.out


def test_memory_that_registers_by_no_method_is_a_finding_of_that_end(ends: Ends) -> None:
    ends.fault(ends.there, "open_gpu", "step ibv_reg_dmabuf_mr", always=True)
    with ends.listener() as listener:
        caller = ends.call()
    assert caller.code == 1
    assert re.search(r"MR-\S+ at node2/gpu0/there", listener.err)
    assert re.search(r"not measured: blocked by MR-\S+ at node2/gpu0/there", caller.out)
    assert "host memory of node1 reaches host memory of node2: 40 messages" in caller.out


def test_another_method_in_place_of_dma_buf_is_said(ends: Ends) -> None:
    ends.fault(ends.there, "open_gpu", "step ibv_reg_dmabuf_mr")
    with ends.listener():
        caller = ends.call()
    assert caller.code == 0, caller.out
    assert "by peermem, not by dma-buf (MR-" in caller.out
    assert "GPU memory of node1 reaches GPU memory of node2 by dma-buf to peermem" in caller.out


def test_a_port_that_is_down_is_found_before_anybody_is_called(ends: Ends) -> None:
    down = build.rdma_device("here", ports=(build.port(state="DOWN", physical_state="Disabled"),))
    ends.save(ends.here, machine("here").model_copy(update={"rdma_devices": (down,)}))
    caller = ends.call(*QUICK, "-d", "here")
    assert caller.code == 1
    assert "PORT-NOT-ACTIVE at node1/here" in caller.out
    assert "no GPU memory (gpu0 was not tried: the NIC comes first)" in caller.out
    assert "calling" not in caller.err


def test_another_token_is_no_way_in_and_both_ends_say_so(ends: Ends) -> None:
    with ends.listener() as listener:
        caller = ends.call(*QUICK, "--timeout", "10", token="another-token-0123456789")
        assert caller.code == 2
        assert "with this token" in caller.out
        assert caller.out.splitlines()[-1].startswith("INCOMPLETE: ")
        listener.wait_for("dropped a connection")
        assert ends.call(*QUICK, "--modes", "host-host").code == 0
        listener.end()
    assert listener.code == 0


def test_nobody_listens_is_incomplete_within_the_time(ends: Ends) -> None:
    caller = ends.call("--timeout", "10")
    assert caller.code == 2
    assert f"no channel to {LOOPBACK} port {ends.port}" in caller.out


def test_nobody_listens_is_json_as_well(ends: Ends) -> None:
    caller = ends.call("--timeout", "10", "--json")
    report = json.loads(caller.out)
    jsonschema.validate(report, json.loads(schema_text("pingpong")))
    assert (caller.code, report["verdict"], report["listener"]) == (2, "INCOMPLETE", None)
    assert f"no channel to {LOOPBACK} port {ends.port}" in report["not_measured"][0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_call_that_nobody_answers(ends: Ends, number: int) -> None:
    # Without it the call would go on for longer than the test waits.
    patient = ("--timeout", "80000", "--time-scale", "100")
    with ends.started(ends.here, LOOPBACK, "--node", "node1", *patient) as caller:
        caller.wait_for("calling ")
        caller.signal(number)
        caller.end()
    assert (caller.code, caller.out) == (130, "")
    assert caller.err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in caller.err


def test_a_name_of_several_addresses_is_tried_at_each(ends: Ends) -> None:
    def answer() -> None:
        channel = listener.accept(None, "pair", PATIENCE_S)
        assert channel is not None
        channel.close()

    nowhere, who = "127.0.0.77", identity(TOKEN, LISTENER)
    with Listener(who, LOOPBACK, ends.port, (CALLER,)) as listener, in_thread(answer):
        addresses = (nowhere, LOOPBACK)
        channel_to(addresses, ends.port, identity(TOKEN, CALLER), LISTENER, PATIENCE_S).close()
    with pytest.raises(PeerError, match=f"{nowhere} .*{LOOPBACK} "):
        channel_to(addresses, ends.port, identity(TOKEN, CALLER), LISTENER, 0.1)


def test_a_gid_that_is_not_there_is_wrong_input(ends: Ends) -> None:
    caller = ends.call(*QUICK, "-x", "77")
    assert (caller.code, caller.out) == (2, "")
    assert caller.err.splitlines()[-1] == (
        "-x 77: here port 1 has no such entry; there are: 3 (10.0.0.3, RoCE v2), "
        "5 (10.0.0.5, RoCE v2), 7 (10.0.0.7, RoCE v2)"
    )


def test_a_gid_that_only_libibverbs_misses_is_wrong_input_as_well(ends: Ends) -> None:
    hidden = ROCE.model_copy(update={"gids": Unreadable(unreadable="denied")})
    devices = (build.rdma_device("here", ports=(hidden,)),)
    ends.save(ends.here, machine("here").model_copy(update={"rdma_devices": devices}))
    ends.fault(ends.here, "open", "step choose a GID", always=True)
    caller = ends.call(*QUICK, "-d", "here", "-x", "77")
    assert (caller.code, caller.out) == (2, "")
    assert caller.err.splitlines()[-1].startswith("-x 77: here port 1: ")


def test_no_caller_is_no_success(ends: Ends) -> None:
    with ends.listener("--timeout", "1") as listener:
        listener.end()
    assert listener.code == 2
    assert "no caller within 1 s" in listener.err


def test_a_listener_that_dies_is_told_by_name(ends: Ends) -> None:
    ends.fault(ends.there, "go", "hang", always=True)
    with (
        ends.listener() as listener,
        ends.started(ends.here, LOOPBACK, "--node", "node1", *QUICK) as caller,
    ):
        caller.wait_for("node2: ")
        _until(lambda: (ends.there / "there-log").read_text().count('"go"') > 0)
        listener.signal(signal.SIGKILL)
        caller.end()
    assert caller.code == 2
    assert caller.out.splitlines()[-1].startswith("INCOMPLETE: ")
    assert "node2" in caller.out.partition("not measured:")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(ends: Ends, number: int) -> None:
    ends.fault(ends.there, "go", "hang", always=True)
    with (
        ends.listener() as listener,
        ends.started(ends.here, LOOPBACK, "--node", "node1", *QUICK[:-1], "30") as caller,
    ):
        _until(lambda: (ends.there / "there-log").exists())
        _until(lambda: '"go"' in (ends.there / "there-log").read_text())
        caller.signal(number)
        caller.end()
        listener.end()
    assert (caller.code, caller.out) == (130, "")
    assert caller.err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in caller.err + listener.err
    assert listener.code == 2


def test_an_interrupted_listener_is_no_traceback(ends: Ends) -> None:
    with ends.listener() as listener:
        listener.signal(signal.SIGINT)
        listener.end()
    assert listener.code == 130
    assert "Traceback" not in listener.err


def _until(condition: Any) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "never happened"
        time.sleep(0.02)


def test_a_listener_that_takes_the_callers_name_is_refused(ends: Ends) -> None:
    end = End(
        node="node1", rail=RailInfo(id=0, nic="there"), about="\x1b[2Jall", emulated=False,
        software=False,
    )  # fmt: skip

    def greet() -> None:
        channel = listener.accept(None, "pair", PATIENCE_S)
        assert channel is not None
        with channel:
            channel.receive(PATIENCE_S, Greeting)
            channel.send(Greeted(end=end))

    who = identity(TOKEN, LISTENER)
    with Listener(who, LOOPBACK, ends.port, (CALLER,)) as listener, in_thread(greet):
        caller = ends.call()
    assert caller.code == 2
    assert "the listener calls itself node1" in caller.out
    assert "\x1b" not in caller.out + caller.err
