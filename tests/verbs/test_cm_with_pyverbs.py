"""What of rdma_cm needs pyverbs, but no RDMA device. pyverbs is the distribution's."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyverbs.cmid", reason="python3-pyverbs is not there for this Python")

from gdrcheck.verbs import cm, cm_compat
from gdrcheck.verbs.errors import VerbsError

NO_RDMA = not Path("/sys/class/infiniband").exists()


def enums() -> Any:
    try:
        return importlib.import_module("pyverbs.librdmacm_enums")
    except ImportError:
        return importlib.import_module("pyverbs.cm_enums")


def test_our_numbers_are_those_of_the_library() -> None:
    events = {member.name: int(member) for member in enums().rdma_cm_event_type}
    for name in (
        *("ADDR_RESOLVED", "ROUTE_RESOLVED", "CONNECT_REQUEST", "CONNECT_RESPONSE"),
        "ESTABLISHED",
    ):
        assert events[f"RDMA_CM_EVENT_{name}"] == getattr(cm, f"_{name}")
    spaces = {member.name: int(member) for member in enums().rdma_port_space}
    assert spaces["RDMA_PS_TCP"] == cm._TCP


def test_the_token_goes_with_the_connection_whole() -> None:
    token = bytes(range(16))
    parameters = cm_compat.ConnParam(retry=6, rnr_retry=6, qp_num=0x1234, data_len=len(token))
    parameters.set_private_data(token)
    assert parameters.private_data == token
    assert parameters.qpn == 0x1234


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "node2"])
def test_what_has_no_device_is_refused_before_the_library_is_asked(address: str) -> None:
    with pytest.raises(VerbsError, match=address), cm.open_end(address, "mlx5_0", 1):
        pass


@pytest.mark.skipif(not NO_RDMA, reason="this machine has RDMA devices")
def test_without_rdma_the_step_is_named() -> None:
    with (
        pytest.raises(VerbsError, match="rdma_create_event_channel"),
        cm.open_end("192.0.2.1", "mlx5_0", 1),
    ):
        pass
