"""The messages about perftest and rdma_cm: nothing from a peer is trusted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gdrcheck.pairing import messages, tools
from gdrcheck.pairing.frames import BODIES
from gdrcheck.verbs.cm_protocol import CmMessage, CmReport

PLAN = {"kind": "bandwidth", "size_bytes": 65536, "iterations": 100}
REPORT = {"role": "sink", "memory": "gpu", "completed": True}


def test_every_message_is_known_to_the_frames_under_its_own_name() -> None:
    assert {*tools.BODIES} <= {*BODIES}
    assert all(BODIES[name] is body for name, body in tools.BODIES.items())
    assert not {*tools.BODIES} & {*messages.BODIES}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (tools.PerftestServe, {"plan": PLAN | {"size_bytes": 1 << 40}}),
        (tools.PerftestServe, {"plan": PLAN | {"queue_pairs": 17}}),
        (tools.PerftestServe, {"plan": PLAN | {"iterations": 10**9}}),
        (tools.PerftestServe, {"plan": PLAN, "shell": "rm"}),
        (tools.PerftestRun, {"plan": PLAN, "address": "10.0.0.1", "port": 0}),
        (tools.PerftestRun, {"plan": PLAN, "address": "--help", "port": 1}),
        (tools.PerftestRun, {"plan": PLAN, "address": "10.0.0.1; reboot", "port": 1}),
        (tools.PerftestRun, {"plan": PLAN, "address": "node1", "port": 1}),
        (tools.CmGo, {"address": "-x", "port": 1}),
        (tools.CmPrepare, {"role": "sink", "memory": "gpu", "methods": [], "token": "0" * 32}),
        (tools.CmPrepare, {"role": "sink", "memory": "gpu", "methods": ["host"], "token": "x"}),
    ],
)
def test_what_could_do_harm_is_refused(body: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        body.model_validate({"rail": 0, **fields})


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "fe80::1%eth0"])
def test_an_address_is_taken(address: str) -> None:
    assert tools.CmGo(rail=0, address=address, port=1).address == address


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, ""),
        ({"immediate": None}, ""),
        ({"immediate": 0}, "the immediate is 0x0, expected 0x1234"),
    ],
)
def test_a_message_says_what_is_wrong_with_it(changes: dict[str, Any], wrong: str) -> None:
    fields = {"method": "dmabuf", "address": 0, "immediate": 0x1234, **changes}
    message = CmMessage.model_validate(fields)
    assert message.wrong == wrong
    report = CmReport.model_validate({**REPORT, "messages": [message]})
    assert report.wrong == (f"registered by dmabuf: {wrong}" if wrong else "")
