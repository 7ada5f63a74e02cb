"""The lines between a parent and its endpoint child."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gdrcheck.mismatch import Mismatch
from gdrcheck.transfer import RegionKey, Variant
from gdrcheck.verbs import protocol
from gdrcheck.verbs.errors import status_name

HOST = RegionKey(memory="host", method="host")
GPU = RegionKey(memory="gpu", method="dmabuf", relaxed=True)
VARIANT = Variant(source=GPU, sink=HOST)
INFO = protocol.EndpointInfo(
    queue_pairs=(protocol.QueuePairInfo(qpn=17, psn=0xABCDEF),),
    regions=(
        protocol.RemoteRegion(
            key=HOST, address=(1 << 64) - 4096, rkey=(1 << 32) - 1, length_bytes=1 << 21
        ),
        protocol.RemoteRegion(key=GPU, address=4096, rkey=7, length_bytes=1 << 21),
    ),
    gid="::ffff:10.77.2.1",
    gid_index=3,
    gid_type="RoCE v2",
    lid=0,
    link_layer="ethernet",
    mtu=4096,
)
REQUESTS: tuple[protocol.Request, ...] = (
    protocol.Open(device="rxe0"),
    protocol.OpenGpu(gpu=protocol.GpuChoice(slot="0000:24:00.0"), methods=("dmabuf",)),
    protocol.PortState(),
    protocol.CreateQp(),
    protocol.Connect(remote=INFO),
    protocol.Arm(
        operation="READ",
        role="sink",
        sizes_bytes=(1, 2),
        iterations=3,
        variants=(VARIANT,),
        run_tag=(1 << 64) - 1,
        direction=1,
        flip=protocol.Flip(size_bytes=2, iteration=0, offset=1),
    ),
    protocol.Go(),
    protocol.Timed(kind="latency", role="source", variant=VARIANT, size_bytes=64, iterations=500),
    protocol.Staged(role="sink", variant=VARIANT, size_bytes=64, iterations=5, run_tag=1),
    protocol.CloseQp(),
    protocol.Close(),
)
RESULT = protocol.ExchangeResult(
    sizes=(protocol.VerifiedSize(size_bytes=1, iterations_verified=3),),
    completed=False,
    mismatch_variant=VARIANT,
    mismatch=Mismatch(
        first_bad_offset=0,
        bad_bytes=1,
        excerpt_offset=0,
        expected_hex="00",
        got_hex="01",
        looks_like="other",
    ),
    duration_s=0.5,
)


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_survives_the_line(request_: protocol.Request) -> None:
    line = protocol.encode_request(7, request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert protocol.decode_request(line) == protocol.RequestLine(id=7, request=request_)


def test_every_command_has_a_result_type() -> None:
    assert {request.command for request in REQUESTS} == set(protocol.RESULT_OF)


@pytest.mark.parametrize("result", [INFO, RESULT, protocol.Nothing()])
def test_a_result_survives_the_line(result: BaseModel) -> None:
    line = protocol.encode_reply(protocol.Reply(id=3, result=result))
    assert protocol.decode_reply(line, 3, protocol.Go(), type(result)) == result


def test_an_error_reply_is_raised_with_all_it_says() -> None:
    info = protocol.ErrorInfo(step="ibv_reg_mr", errno=12, text="ibv_reg_mr: ENOMEM")
    line = protocol.encode_reply(protocol.ErrorReply(id=3, error=info))
    with pytest.raises(protocol.WorkerFailure, match="open: ibv_reg_mr: ENOMEM") as told:
        protocol.decode_reply(line, 3, REQUESTS[0], protocol.Opened)
    assert told.value.info == info


@given(st.binary(max_size=200))
def test_garbage_is_no_reply(line: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.decode_reply(line, 3, protocol.Go(), protocol.ExchangeResult)


@pytest.mark.parametrize(
    "line",
    [
        protocol.encode_reply(protocol.Reply(id=2, result=RESULT)),
        protocol.encode_reply(protocol.Reply(id=3, result=INFO)),
    ],
    ids=["another request's reply", "another command's result"],
)
def test_a_reply_to_something_else_is_refused(line: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.decode_reply(line, 3, protocol.Go(), protocol.ExchangeResult)


@pytest.mark.parametrize(
    "change",
    [
        {"queue_pairs": [{"qpn": 1 << 24, "psn": 0}]},
        {"queue_pairs": []},
        {"regions": [{"key": HOST, "address": 0, "rkey": 1 << 32, "length_bytes": 1}]},
        {"regions": [{"key": HOST, "address": 0, "rkey": 1, "length_bytes": 0}]},
        {"regions": []},
        {"gid": "rm -rf"},
        {"mtu": 1500},
        {"link_layer": "x"},
        {"more": 1},
    ],
)
def test_a_peers_endpoint_is_checked(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        protocol.EndpointInfo.model_validate({**INFO.model_dump(), **change})


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "0"])
def test_a_peers_number_is_a_number(value: str) -> None:
    said = '{"kind": "bandwidth", "size_bytes": 1, "iterations": 1, "completed": true, "gbps": %s}'
    protocol.TimedResult.model_validate_json(said % "1.5")
    with pytest.raises(ValidationError):
        protocol.TimedResult.model_validate_json(said % value)
    way = '{"median_us": 1, "gbps": %s}'
    protocol.StagedWay.model_validate_json(way % "1.5")
    with pytest.raises(ValidationError):
        protocol.StagedWay.model_validate_json(way % value)


def test_parents_need_neither_pyverbs_nor_numpy() -> None:
    program = (
        "import sys, gdrcheck.verbs.protocol, gdrcheck.verbs.gid, gdrcheck.verbs.errors\n"
        "assert not {'pyverbs', 'numpy'} & set(sys.modules), sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("status", "name"),
    [(0, "SUCCESS"), (4, "LOC_PROT_ERR"), (5, "WR_FLUSH_ERR"), (10, "REM_ACCESS_ERR"),
     (12, "RETRY_EXC_ERR"), (21, "GENERAL_ERR"), (99, "status 99")],
)  # fmt: skip
def test_completion_statuses_have_their_names(status: int, name: str) -> None:
    assert status_name(status) == name
