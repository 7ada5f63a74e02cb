"""rdma_cm driven at both ends of a rail, whose children move no byte; and what is made of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import NotJudged, PeerError, ProbeError
from gdrcheck.pairing import cm
from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.cm import CmExchange
from gdrcheck.pairing.cm_end import CmEnd
from gdrcheck.pairing.cm_judge import judge_cm
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, RailInfo, Request
from gdrcheck.pairing.pairs import LocalGpu, RailEnd, RailPair
from gdrcheck.pairing.tool_end import ToolEnd
from gdrcheck.pairing.tools import CmPrepare
from gdrcheck.profile import Profile
from gdrcheck.registration import Method
from gdrcheck.run import Deadlines
from gdrcheck.transfer import Direction
from gdrcheck.verbs.cm_protocol import CmMemory, CmMessage, CmReport
from gdrcheck.verbs.protocol import CompletionError

FAKE = Path(__file__).with_name("fake_cm_worker.py")
WAITS = Deadlines(completion_s=0.5, connect_s=2, check_s=20, rail_s=60)
TOKEN = "0" * 32
Make = Callable[..., ToolEnd]


def rail(local: tuple[Method, ...] = ("dmabuf",), remote: tuple[Method, ...] = ("dmabuf",)) -> Any:
    return RailPair(
        rail_id=0,
        local=RailEnd("a", "gpu0", "mlx5_0", methods=local),
        remote=RailEnd("b", "gpu1", "mlx5_0", methods=remote),
        has_gpus=True,
    )


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes ends whose rdma_cm child is the fake one."""
    made: list[ToolEnd] = []

    def end(node: str, wrong: str = "", **changes: Any) -> ToolEnd:
        out_dir = tmp_path / node
        out_dir.mkdir()
        fields: dict[str, Any] = {
            "node": node,
            "rail": RailInfo(id=0, nic="mlx5_0", data_address="192.0.2.1"),
            "gpu": LocalGpu(slot="0000:24:00.0", methods=("dmabuf", "peermem")),
            "profile": Profile(),
            "waits": WAITS,
            "out_dir": out_dir,
            **changes,
        }
        new = ToolEnd(**fields)
        command = (sys.executable, str(FAKE), wrong, str(out_dir / "starts"))
        new._cm = CmEnd(new.context, command)
        made.append(new)
        return new

    yield end
    for one in made:
        one.close()


def run(
    near: ToolEnd,
    far: ToolEnd,
    memory: CmMemory = "gpu",
    direction: Direction = "out",
    pair: RailPair | None = None,
) -> CmExchange:
    def ask(request: Request, answers: tuple[type[Answer], ...], _s: float, until: Deadline) -> Any:
        answer = far.answer(request, until)
        assert isinstance(answer, answers)
        return answer

    return cm.run(near, ask, pair or rail(), memory, direction, Deadline.after(60))


@pytest.mark.parametrize("direction", ["out", "in"])
@pytest.mark.parametrize("memory", ["pinned", "gpu"])
def test_source_and_sink_are_where_the_direction_says(
    make: Make, memory: CmMemory, direction: Direction
) -> None:
    exchange = run(make("a"), make("b"), memory, direction)
    assert exchange.completed
    assert (exchange.source.role, exchange.sink.role) == ("source", "sink")
    assert judge_cm(exchange) is None
    assert exchange.notes == ()


def test_every_method_of_either_end_has_its_message(make: Make) -> None:
    pair = rail(("dmabuf", "peermem"), ("peermem",))
    exchange = run(make("a"), make("b"), pair=pair)
    assert [message.method for message in exchange.source.messages] == ["dmabuf", "peermem"]
    assert [message.method for message in exchange.sink.messages] == ["peermem", "peermem"]
    assert exchange.completed


def test_one_child_serves_all_exchanges_of_its_end(make: Make, tmp_path: Path) -> None:
    near, far = make("a"), make("b")
    for direction in ("out", "in"):
        assert run(near, far, "pinned", direction).completed
        assert run(near, far, "gpu", direction).completed
    assert (tmp_path / "a/starts").read_text() == "started\n"


def test_a_traffic_class_that_cannot_be_set_is_told(make: Make) -> None:
    exchange = run(make("a", profile=Profile(traffic_class=106)), make("b"))
    (note,) = exchange.notes
    assert "traffic class 106" in note


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rail": RailInfo(id=0, nic="mlx5_0")}, "b: mlx5_0 port 1 has no IP address"),
        ({"gpu": None}, "b: b/mlx5_0 .rail 0. has no GPU"),
        (
            {"gpu": LocalGpu(slot="0000:24:00.0", methods=("dmabuf",), exclusive=True)},
            "b: the GPU of b/mlx5_0 .rail 0. is in compute mode exclusive_process",
        ),
    ],
)
def test_an_end_that_lacks_what_it_takes_is_not_judged(
    make: Make, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(NotJudged, match=told):
        run(make("a"), make("b", **changes))


@pytest.mark.parametrize(
    ("near", "far", "side", "told"),
    [
        ("go hangs", "", "a", r"did not end within 2.5 s, last step: go as source"),
        ("", "go hangs", "b", r"did not end within 2.5 s, last step: go as sink"),
        ("go dies", "", "a", r"killed by SIGSEGV, last step: go as source"),
        ("", "go garbage", "b", r"go: not a reply"),
        ("prepare error", "", "a", r"rdma_resolve_addr: ETIMEDOUT"),
        ("", "go error", "b", r"rdma_resolve_addr: ETIMEDOUT"),
        # The one that was told what happened says more than the one that only waited.
        ("go hangs", "go error", "b", r"rdma_resolve_addr: ETIMEDOUT"),
        ("go error", "go hangs", "a", r"rdma_resolve_addr: ETIMEDOUT"),
    ],
)
def test_what_an_end_cannot_do_names_it_and_the_step(
    make: Make, near: str, far: str, side: str, told: str
) -> None:
    with pytest.raises(EndFailure, match=told) as failure:
        run(make("a", near), make("b", far))
    assert failure.value.side == side


def test_this_end_does_not_wait_for_one_that_has_failed(make: Make) -> None:
    waits = Deadlines(completion_s=20, connect_s=40, check_s=90, rail_s=200)
    near, far = make("a", "go hangs", waits=waits), make("b", "go error")
    begun = time.monotonic()
    with pytest.raises(EndFailure, match="ETIMEDOUT"):
        run(near, far)
    assert time.monotonic() - begun < waits.connect_s


def test_an_end_that_was_ended_because_the_other_died_is_not_to_blame(make: Make) -> None:
    waits = Deadlines(completion_s=20, connect_s=40, check_s=90, rail_s=200)
    near, far = make("a", "go hangs", waits=waits), make("b", "go dies")
    with pytest.raises(EndFailure, match="SIGSEGV") as failure:
        run(near, far)
    assert failure.value.side == "b"


def test_the_next_exchange_after_a_death_has_a_new_child(make: Make, tmp_path: Path) -> None:
    near, far = make("a"), make("b", "go dies")
    for _ in range(2):
        with pytest.raises(EndFailure, match="SIGSEGV"):
            run(near, far)
    assert (tmp_path / "b/starts").read_text() == "started\n" * 2


def test_a_method_that_this_end_does_not_have_is_refused(make: Make) -> None:
    end = make("a", gpu=LocalGpu(slot="0000:24:00.0", methods=("dmabuf",)))
    until = Deadline.after(10)
    for memory, method in (("gpu", "peermem"), ("gpu", "host"), ("pinned", "dmabuf")):
        request = CmPrepare.model_validate(
            {"rail": 0, "role": "sink", "memory": memory, "methods": [method], "token": TOKEN}
        )
        with pytest.raises(EndFailure, match=f"{memory} memory is not registered here by {method}"):
            end.answer(request, until)


def test_what_is_no_tools_request_is_refused(make: Make) -> None:
    class Other(Request):
        TYPE = "other"

    with pytest.raises(PeerError, match="other is nothing for perftest or rdma_cm"):
        make("a").answer(Other(rail=0), Deadline.after(1))


# --- what is made of the reports ----------------------------------------------------------------

WRONG = Mismatch(
    first_bad_offset=9,
    bad_bytes=1,
    excerpt_offset=8,
    expected_hex="00",
    got_hex="ff",
    looks_like="other",
)


def message(**changes: Any) -> CmMessage:
    fields = {"method": "dmabuf", "address": 0, "first": (0, 2, 4, 6, 8), "immediate": 0x1234}
    return CmMessage.model_validate(fields | changes)


def exchange(
    source: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None,
    memory: CmMemory = "gpu",
) -> CmExchange:
    def report(role: str, changes: dict[str, Any] | None) -> CmReport:
        mine = message(immediate=None if role == "source" else 0x1234)
        fields: dict[str, Any] = {"role": role, "memory": memory, "messages": (mine,)}
        return CmReport.model_validate({**fields, "completed": True, **(changes or {})})

    return CmExchange(rail(), "out", memory, report("source", source), report("sink", sink))


def broken(status: str) -> CompletionError:
    return CompletionError(
        status=status,
        vendor_error=0x81,
        operation="SEND_WITH_IMM",
        iteration=0,
        size_bytes=32768,
        text="no",
    )


def test_a_right_exchange_has_no_finding() -> None:
    assert exchange().completed
    assert judge_cm(exchange()) is None


def test_wrong_numbers_are_found_at_the_sink() -> None:
    found = judge_cm(exchange(sink={"messages": (message(by_gpu=WRONG, by_cpu=WRONG),)}))
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"
    assert (found.where.node, found.where.gpu, found.where.peer) == ("b", "gpu1", "a")
    assert found.evidence["first wrong offset"] == "9"
    assert found.evidence["method"] == "dmabuf"


def test_pinned_memory_is_not_blamed_on_the_gpu() -> None:
    wrong = message(method="host", by_gpu=WRONG, by_cpu=WRONG)
    found = judge_cm(exchange(sink={"messages": (wrong,)}, memory="pinned"))
    assert found is not None
    assert (found.where.node, found.where.gpu) == ("b", None)


@pytest.mark.parametrize("verdicts", [(WRONG, None), (None, WRONG)])
def test_verifiers_that_disagree_are_a_finding(verdicts: tuple[Any, Any]) -> None:
    wrong = message(by_gpu=verdicts[0], by_cpu=verdicts[1])
    found = judge_cm(exchange(sink={"messages": (wrong,)}))
    assert found is not None
    assert found.code == "PAIR-VERDICTS-DIFFER"


def test_another_immediate_is_a_finding() -> None:
    found = judge_cm(exchange(sink={"messages": (message(immediate=7),)}))
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"
    assert "0x7" in found.observed


@pytest.mark.parametrize(
    ("status", "code"),
    [("RETRY_EXC_ERR", "PAIR-RETRY-EXCEEDED"), ("LOC_PROT_ERR", "PAIR-COMPLETION")],
)
def test_a_completion_with_an_error_is_a_finding(status: str, code: str) -> None:
    source = {"completed": False, "messages": (), "completion_error": broken(status)}
    sink = {"completed": False, "messages": (), "completion_error": broken("DEADLINE")}
    found = judge_cm(exchange(source, sink))
    assert found is not None
    assert found.code == code
    # What the source's NIC says, not that nothing came.
    assert found.where.node == "a"


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ({"messages": ()}, {"messages": ()}),
        ({}, {"messages": ()}),
        ({"completed": False}, {}),
        ({}, {"completed": False}),
        ({}, {"elements": 1}),
        ({}, {"messages": (message(immediate=None),)}),
        ({"messages": (message(), message())}, {"messages": (message(), message())}),
        ({}, {"memory": "pinned"}),
        ({"role": "sink"}, {}),
        ({}, {"messages": (message(method="peermem"),)}),
    ],
)
def test_what_was_not_measured_whole_is_no_pass(
    source: dict[str, Any], sink: dict[str, Any]
) -> None:
    with pytest.raises(ProbeError, match="not measured"):
        judge_cm(exchange(source, sink))
