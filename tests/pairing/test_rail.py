"""A rail's endpoint child: whatever it does, its parent ends in time and names it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.facts import Unreadable
from gdrcheck.pairing.binding import bind, local_cores
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.pairing.rail import RailError, RailProcess, open_request
from gdrcheck.profile import Gid, Profile
from gdrcheck.run import Deadlines
from gdrcheck.transfer import RegionKey, variants
from gdrcheck.verbs import protocol
from tests.pairing.support import PATIENCE_S, Faults, eventually, in_thread

QUICK = Deadlines(completion_s=0.5, connect_s=1, check_s=1.5, rail_s=30, rendezvous_s=5, phase_s=60)
ARM = protocol.Arm(
    operation="SEND", role="sink", sizes_bytes=(1, 64), iterations=3, run_tag=1, direction=0,
    variants=variants("host-host", (), ()),
)  # fmt: skip
GPU = LocalGpu(slot="0000:17:00.0", uuids=("GPU-1",), methods=("dmabuf",), emulated=True)


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path)


PROFILE = Profile(gid=Gid(family="ipv4", type="RoCE v2"), traffic_class=106, path_mtu=2048)


def process(tmp_path, faults, **changes):
    values = {
        "node": "node1",
        "rail_id": 2,
        "request": open_request(PROFILE, QUICK, "rxe0", 1),
        "gpu": GPU,
        "waits": QUICK,
        "out_dir": tmp_path,
        "command": faults.command,
        "root": tmp_path,
    }
    return RailProcess(**values | changes)


@pytest.fixture
def rail(tmp_path, faults):
    with process(tmp_path, faults) as rail:
        yield rail


def soon() -> Deadline:
    return Deadline.after(PATIENCE_S)


def exchange(rail: RailProcess) -> protocol.ExchangeResult:
    rail.connect(rail.new_qp(soon()), soon())
    rail.arm(ARM, soon())
    return rail.go(soon())


def test_the_port_is_the_one_that_it_was_given(tmp_path, faults):
    with process(
        tmp_path, faults, request=open_request(PROFILE, QUICK, "rxe0", 2, atomics=True)
    ) as rail:
        rail.open(soon())
    opened = faults.requests("rxe0")[0]
    assert (opened["port"], opened["atomics"]) == (2, True)


def test_the_gpu_is_opened_once_and_before_the_queue_pairs(rail, faults):
    key = RegionKey(memory="gpu", method="dmabuf", relaxed=True)
    rail.new_qp(soon())
    assert not rail.has(key)
    opened = rail.open_gpu(soon())
    assert rail.open_gpu(soon()) is opened
    assert rail.has(key)
    assert not rail.has(key.model_copy(update={"method": "peermem"}))
    rail.new_qp(soon())
    requests = faults.requests("rxe0")
    assert [request["command"] for request in requests] == [
        "open", "create_qp", "close_qp", "open_gpu", "create_qp",
    ]  # fmt: skip
    asked = requests[3]
    assert asked["gpu"] == {"slot": "0000:17:00.0", "uuids": ["GPU-1"]}
    assert (asked["methods"], asked["emulated"], asked["far"]) == (["dmabuf"], True, False)


def test_a_child_that_was_replaced_has_no_gpu_until_it_is_opened_again(rail, faults):
    rail.open_gpu(soon())
    faults.set("rxe0", "port_state", "crash")
    with pytest.raises(RailError, match="SIGSEGV"):
        rail.port_state(soon())
    assert not rail.has(RegionKey(memory="gpu", method="dmabuf"))
    rail.open_gpu(soon())
    assert [r["command"] for r in faults.requests("rxe0")].count("open_gpu") == 2


def test_a_rail_without_a_gpu_opens_none(tmp_path, faults):
    with (
        process(tmp_path, faults, gpu=None) as rail,
        pytest.raises(RailError, match="no GPU to be used"),
    ):
        rail.open_gpu(soon())


def test_a_child_that_cannot_destroy_its_queue_pairs_is_replaced(rail, faults):
    rail.new_qp(soon())
    faults.set("rxe0", "close_qp", "error")
    with pytest.raises(RailError, match="close_qp: Invalid argument"):
        rail.new_qp(soon())
    rail.new_qp(soon())
    assert [r["command"] for r in faults.requests("rxe0")].count("open") == 2


@pytest.mark.parametrize(
    ("promised", "fault", "far"), [(True, "", True), (True, "not far", False), (False, "", False)]
)
def test_memory_beyond_2_gib_is_there_only_if_it_was_asked_for_and_not_refused(
    tmp_path, faults, promised, fault, far
):
    faults.set("rxe0", "open_gpu", fault)
    with process(tmp_path, faults, gpu=replace(GPU, far=promised)) as rail:
        rail.open_gpu(soon())
        assert rail.far is far


def test_an_interrupted_request_ends_at_once_and_the_rail_works_on(rail, faults):
    rail.open(soon())
    faults.set("rxe0", "port_state", "hang")
    with in_thread(lambda: rail.port_state(soon())) as outcome:
        eventually(lambda: len(faults.requests("rxe0")) == 2, "the child has the request")
        rail.interrupt()
    assert "SIGKILL" in str(outcome["error"])
    assert rail.port_state(soon()).state == "ACTIVE"


def test_a_child_serves_several_exchanges_and_is_opened_as_the_profile_says(rail, faults):
    assert exchange(rail).completed
    assert exchange(rail).completed
    requests = faults.requests("rxe0")
    assert [request["command"] for request in requests] == [
        "open", "create_qp", "connect", "arm", "go",
        "close_qp", "create_qp", "connect", "arm", "go",
    ]  # fmt: skip
    opened = requests[0]
    assert opened["gid"] == {"family": "ipv4", "type": "RoCE v2"}
    assert (opened["traffic_class"], opened["path_mtu"], opened["completion_s"]) == (106, 2048, 0.5)


def test_a_hang_is_killed_at_its_deadline_and_named_and_the_next_child_works(rail, faults):
    faults.set("rxe0", "go", "hang")
    with pytest.raises(RailError) as failure:
        exchange(rail)
    assert str(failure.value) == (
        "node1/rxe0 (rail 2): go: endpoint child did not end within 1.5 s, last step: go on rxe0"
    )
    assert (failure.value.side, failure.value.step) == ("node1", "go")
    assert exchange(rail).completed


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("crash", "endpoint child was killed by SIGSEGV, last step: connect on rxe0"),
        ("exit", "endpoint child exited with code 3"),
        ("garbage", "endpoint child connect: not a reply: b'this is no JSON'"),
        ("flood", "endpoint child sent a line of more than"),
    ],
)
def test_a_child_that_ends_or_talks_nonsense_is_named_and_replaced(rail, faults, fault, complaint):
    faults.set("rxe0", "connect", fault)
    with pytest.raises(RailError, match=complaint) as failure:
        exchange(rail)
    assert failure.value.error is None
    assert exchange(rail).completed


def test_the_error_that_a_child_reports_is_passed_on_whole(rail, faults):
    faults.set("rxe0", "open", "error")
    with pytest.raises(RailError, match="open: Invalid argument") as failure:
        exchange(rail)
    assert failure.value.error is not None
    assert failure.value.error.errno == 22
    assert exchange(rail).completed


def test_a_command_that_cannot_be_started_says_which(tmp_path):
    rail = process(tmp_path, Faults(tmp_path), command=["/nowhere/worker"])
    with pytest.raises(RailError, match="/nowhere/worker: No such file"):
        rail.open(soon())


def test_the_log_is_readable_by_all(rail, tmp_path):
    rail.open(soon())
    assert (tmp_path / "rail-2.log").stat().st_mode & 0o777 == 0o644


def test_closing_ends_the_child(rail):
    rail.open(soon())
    pid = rail._child.pid
    rail.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# --- binding ------------------------------------------------------------------------------------


def tree(root: Path, cpulist: str, software: bool) -> Path:
    function = root / "sys/devices/pci0000:00/0000:00:03.0"
    netdev_device = function / "virtio2"
    netdev_device.mkdir(parents=True)
    (function / "local_cpulist").write_text(f"{cpulist}\n")
    device = root / "sys/class/infiniband/rxe0"
    device.mkdir(parents=True)
    if software:
        (device / "parent").write_text("eth1\n")
        net = root / "sys/class/net/eth1"
        net.mkdir(parents=True)
        (net / "device").symlink_to(netdev_device)
    else:
        (device / "device").symlink_to(function)
    return root


@pytest.mark.parametrize("software", [True, False])
def test_local_cores_are_those_of_the_function_below(tmp_path, software):
    assert local_cores(tree(tmp_path, "0-2,8", software), "rxe0") == {0, 1, 2, 8}


@pytest.mark.parametrize("text", ["x", "3-", "1,,2", "-1"])
def test_a_cpulist_of_unknown_form_is_unreadable(tmp_path, text):
    found = local_cores(tree(tmp_path, text, False), "rxe0")
    assert isinstance(found, Unreadable)
    assert "unknown form" in found.unreadable


def test_binding_takes_the_local_cores_that_are_allowed(tmp_path):
    allowed = os.sched_getaffinity(0)
    one = min(allowed)
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", "input()"], os.environ)
    try:
        text = bind(child, tree(tmp_path, f"{one},4000", False), "rxe0")
        assert text == f"bound to cores {one} next to rxe0, memory by first touch"
        assert os.sched_getaffinity(child) == {one}
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert os.sched_getaffinity(0) == allowed


def test_what_hinders_a_binding_is_said_and_nothing_is_raised(tmp_path):
    assert "not bound: rxe0 has neither" in bind(os.getpid(), tmp_path / "empty", "rxe0")
    text = bind(os.getpid(), tree(tmp_path, "4000-4003", False), "rxe0")
    assert text == ("not bound: no core next to rxe0 (4000-4003) is among those allowed")


def test_a_running_rail_says_how_it_is_bound(rail, tmp_path):
    tree(tmp_path, ",".join(map(str, os.sched_getaffinity(0))), True)
    rail.open(soon())
    assert rail.binding.startswith("bound to cores ")
