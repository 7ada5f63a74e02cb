"""perftest at both ends of a rail, played by a program that knows no RDMA."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gdrcheck.outcome import NotJudged
from gdrcheck.pairing import perftest, perftest_end
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, RailInfo, Request
from gdrcheck.pairing.pairs import LocalGpu, RailEnd, RailPair
from gdrcheck.pairing.tool_end import ToolEnd
from gdrcheck.pairing.tools import PerftestPlan
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.transfer import Direction
from gdrcheck.verbs.protocol import Opened

FAKE = Path(__file__).with_name("fake_perftest.py")
RAIL = RailPair(rail_id=0, local=RailEnd("a", None, "mlx5_0"), remote=RailEnd("b", None, "mlx5_0"))
OPENED = Opened(
    gid_index=3,
    gid="::ffff:127.0.0.1",
    gid_type="RoCE v2",
    netdev="lo",
    lid=0,
    link_layer="ethernet",
    active_mtu=4096,
    guid="",
)
BANDWIDTH = PerftestPlan(kind="bandwidth", size_bytes=65536, iterations=100, queue_pairs=4)
LATENCY = PerftestPlan(kind="latency", size_bytes=64, iterations=1000)
Ends = tuple[ToolEnd, ToolEnd]
Make = Callable[..., ToolEnd]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes ends whose perftest is the fake one."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ib_write_bw", "ib_send_lat"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")

    def end(node: str, **changes: Any) -> ToolEnd:
        (tmp_path / node).mkdir()
        fields: dict[str, Any] = {
            "node": node,
            "rail": RailInfo(id=0, nic="mlx5_0", data_address="127.0.0.1"),
            "gpu": None,
            "profile": Profile(),
            "waits": Deadlines(completion_s=1, connect_s=4, check_s=5, rail_s=60),
            "out_dir": tmp_path / node,
            "root": tmp_path,
            **changes,
        }
        made = ToolEnd(**fields)
        made.opened = OPENED
        return made

    return end


def run(near: ToolEnd, far: ToolEnd, plan: PerftestPlan, direction: Direction = "out") -> Any:
    def ask(request: Request, answers: tuple[type[Answer], ...], _s: float, until: Deadline) -> Any:
        answer = far.answer(request, until)
        assert isinstance(answer, answers)
        return answer

    return perftest.run(near, ask, RAIL, plan, direction, Deadline.after(60))


@pytest.mark.parametrize("direction", ["out", "in"])
def test_the_source_measures_what_it_sends(make: Make, direction: Direction) -> None:
    near, far = make("a"), make("b")
    report = run(near, far, BANDWIDTH, direction)
    assert report.numbers.gbps == 391.5
    assert report.numbers.mtu == 4096
    assert report.direction == direction
    assert "-x 3" in report.numbers.command
    # The client is where the data comes from.
    source = "a" if direction == "out" else "b"
    assert f"/{source}/rail-0-perftest.json" in report.numbers.command
    # And again, with the next tool.
    assert run(near, far, LATENCY, direction).numbers.typical_us == 1.4


@pytest.mark.parametrize("absent", ["a", "b"])
def test_an_end_without_perftest_is_not_judged(
    make: Make, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    near, far = make("a"), make("b")
    end = near if absent == "a" else far
    monkeypatch.setattr(end._perftest, "_find", lambda _name, _memory: None)
    with pytest.raises(NotJudged, match=f"^{absent}: there is no ib_write_bw"):
        run(near, far, BANDWIDTH)


def test_gpu_memory_needs_a_perftest_with_cuda(make: Make) -> None:
    gpu = LocalGpu(slot="0000:24:00.0", methods=("dmabuf",))
    plan = BANDWIDTH.model_copy(update={"source": "gpu", "sink": "gpu"})
    with pytest.raises(NotJudged, match="no ib_write_bw with CUDA"):
        run(make("a", gpu=gpu), make("b", gpu=gpu), plan)


def test_an_end_without_a_gpu_has_no_memory_of_it(make: Make) -> None:
    plan = BANDWIDTH.model_copy(update={"sink": "gpu"})
    with pytest.raises(NotJudged, match="no GPU memory"):
        run(make("a"), make("b"), plan)


def test_without_an_address_of_the_port_the_server_takes_that_of_the_channel(make: Make) -> None:
    rail = RailInfo(id=0, nic="mlx5_0")
    near, far = make("a", rail=rail), make("b", rail=rail, channel_address="localhost")
    assert run(near, far, BANDWIDTH).numbers.gbps == 391.5
    with pytest.raises(NotJudged, match="has no address to listen on"):
        run(near, far, BANDWIDTH, "in")


@pytest.mark.parametrize(
    ("wrong", "side", "told"),
    [
        ("server dies", "b", r"ib_write_bw: exited with code 1: Couldn't get context"),
        ("deaf", "b", r"ib_write_bw: does not listen within 4 s"),
        ("client dies", "a", r"syndrom 0x81; the server on b: exited with code 1: ethernet_read"),
        ("client hangs", "a", r"did not end within 5 s"),
        ("other size", "a", r"measured something else than it was asked for"),
        ("no json", "a", r"read perftest's JSON: No such file"),
    ],
)
def test_what_goes_wrong_names_the_end_and_what_it_said(
    make: Make, monkeypatch: pytest.MonkeyPatch, wrong: str, side: str, told: str
) -> None:
    near, far = make("a"), make("b")
    monkeypatch.setenv("FAKE_PERFTEST", wrong)
    with pytest.raises(EndFailure, match=told) as failure:
        run(near, far, BANDWIDTH)
    assert failure.value.side == side
    # Nothing of it is left that could disturb what comes next.
    monkeypatch.setenv("FAKE_PERFTEST", "")
    assert run(near, far, BANDWIDTH).numbers.gbps == 391.5


def test_a_figure_that_perftest_rounds_to_nothing_says_nothing_of_the_rail(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = make("a"), make("b")
    monkeypatch.setenv("FAKE_PERFTEST", "rounded to nothing")
    with pytest.raises(NotJudged, match=r"^a: perftest's JSON has no usable results.BW_average"):
        run(near, far, BANDWIDTH)


@pytest.mark.parametrize("wrong", ["refused", "client hangs"])
def test_a_port_that_is_not_reached_says_nothing_of_the_rail(
    make: Make, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Refused, or not answered at all: then the client is not waited for to the end."""
    near, far = make("a"), make("b")
    monkeypatch.setenv("FAKE_PERFTEST", wrong)
    monkeypatch.setattr(perftest_end, "calls", lambda _port: True)
    with pytest.raises(NotJudged, match=r"^a: .*does not reach perftest's server .* by TCP"):
        run(near, far, BANDWIDTH)
    assert (near._perftest._client, far._perftest._server) == (None, None)


def test_a_gpu_for_one_process_alone_is_left_to_the_endpoint_child(make: Make) -> None:
    gpu = LocalGpu(slot="0000:24:00.0", methods=("dmabuf",), exclusive=True)
    plan = BANDWIDTH.model_copy(update={"source": "gpu", "sink": "gpu"})
    with pytest.raises(NotJudged, match="exclusive_process"):
        run(make("a", gpu=gpu), make("b", gpu=gpu), plan)


def test_a_server_that_stays_is_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = make("a"), make("b")
    monkeypatch.setenv("FAKE_PERFTEST", "stays")
    assert run(near, far, BANDWIDTH).numbers.gbps == 391.5
    assert far._perftest._server is None


def test_the_end_of_a_session_ends_what_runs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = make("a"), make("b")
    monkeypatch.setenv("FAKE_PERFTEST", "client hangs")
    begun = threading.Timer(0.5, near.end_session)
    begun.start()
    with pytest.raises(EndFailure, match="was killed by SIGKILL"):
        run(near, far, BANDWIDTH)
    begun.join()


def test_the_partition_key_is_found_in_the_table(make: Make, tmp_path: Path) -> None:
    table = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/pkeys"
    table.mkdir(parents=True)
    for index, key in enumerate(("0xffff", "0x0000", "0x8012")):
        (table / str(index)).write_text(f"{key}\n")
    near, far = make("a", profile=Profile(pkey=0x12)), make("b", profile=Profile(pkey=0x8012))
    assert "--pkey_index 2" in run(near, far, BANDWIDTH).numbers.command
    lost = make("c", profile=Profile(pkey=0x77))
    with pytest.raises(EndFailure, match="partition key 0x0077 is not in the table"):
        run(lost, far, BANDWIDTH)
