"""What needs pyverbs, but no RDMA device. pyverbs comes with the distribution, not from PyPI."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyverbs.device", reason="python3-pyverbs is not there for this Python")

from gdrcheck.memory.worker import serve
from gdrcheck.transfer import RegionKey, Variant
from gdrcheck.verbs import compat, protocol, queue_pair
from gdrcheck.verbs.device import device_names, open_device
from gdrcheck.verbs.errors import VerbsError, status_name
from gdrcheck.verbs.memory import Access

NO_RDMA = not Path("/sys/class/infiniband").exists()


def test_importing_leaves_the_root_logger_alone() -> None:
    program = (
        "import logging\n"
        "before = (list(logging.root.handlers), logging.root.level)\n"
        "import gdrcheck.verbs.device\n"
        "assert (logging.root.handlers, logging.root.level) == before"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert logging.root.level == logging.WARNING


def test_our_numbers_are_those_of_the_library() -> None:
    theirs = {member.name: int(member) for member in compat.enums.ibv_wc_status}
    assert theirs["IBV_WC_RETRY_EXC_ERR"] == 12
    for name, number in theirs.items():
        assert status_name(number) == name.removeprefix("IBV_WC_")
    assert int(compat.enums.ibv_wc_flags.IBV_WC_WITH_IMM) == queue_pair._WITH_IMM
    for flag in Access:
        assert flag == getattr(compat.enums.ibv_access_flags, f"IBV_ACCESS_{flag.name}")


def test_an_errno_is_kept() -> None:
    with (
        pytest.raises(VerbsError, match=r"ibv_reg_mr: ENOMEM") as told,
        compat.verbs_step("ibv_reg_mr"),
    ):
        raise_rdma_error(12)
    assert (told.value.error_number, told.value.step) == (12, "ibv_reg_mr")


def raise_rdma_error(number: int) -> None:
    from pyverbs.pyverbs_error import PyverbsRDMAError

    raise PyverbsRDMAError("Failed to register a MR", number)


@pytest.mark.skipif(not NO_RDMA, reason="this machine has RDMA devices")
def test_a_machine_without_rdma_says_so() -> None:
    assert device_names() == ()
    with pytest.raises(VerbsError, match="mlx5_7: no such device; this machine has none"):
        open_device("mlx5_7").__enter__()
    assert os.environ["MLX5_SCATTER_TO_CQE"] == "0"


def replies(*lines: bytes) -> list[bytes]:
    out = io.BytesIO()
    serve(io.BytesIO(b"".join(lines)), out)
    return out.getvalue().splitlines(keepends=True)


HOST = RegionKey(memory="host", method="host")
INFO = protocol.EndpointInfo(
    queue_pairs=(protocol.QueuePairInfo(qpn=1, psn=1),),
    regions=(protocol.RemoteRegion(key=HOST, address=0, rkey=0, length_bytes=1),),
    gid="::1",
    lid=0,
    link_layer="ethernet",
    mtu=1024,
)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (protocol.CreateQp(), "no device is open"),
        (protocol.PortState(), "no device is open"),
        (protocol.Connect(remote=INFO), "no queue pairs to connect"),
        (protocol.Go(), "there are no queue pairs"),
        (
            protocol.Timed(
                kind="latency",
                role="sink",
                variant=Variant(source=HOST, sink=HOST),
                size_bytes=1,
                iterations=1,
            ),
            "there are no queue pairs",
        ),
    ],
)
def test_a_command_too_early_is_an_error_and_not_the_end(
    request_: protocol.Request, reason: str
) -> None:
    first, second = replies(
        protocol.encode_request(1, request_), protocol.encode_request(2, protocol.Close())
    )
    with pytest.raises(protocol.WorkerFailure, match=reason):
        protocol.decode_reply(first, 1, request_, protocol.Nothing)
    protocol.decode_reply(second, 2, protocol.Close(), protocol.Nothing)


def test_garbage_is_answered_and_not_the_end() -> None:
    garbage, closed = replies(b"}{\n", protocol.encode_request(2, protocol.Close()))
    assert b"not a request" in garbage
    protocol.decode_reply(closed, 2, protocol.Close(), protocol.Nothing)


def test_the_process_ends_with_its_stdin_and_keeps_stdout_for_replies() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gdrcheck.memory.worker"],
        input=protocol.encode_request(1, protocol.Close()),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert protocol.decode_reply(done.stdout, 1, protocol.Close(), protocol.Nothing)
    assert b"close" in done.stderr
