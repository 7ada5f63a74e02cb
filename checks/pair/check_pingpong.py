"""Messages between the host memories of two nodes arrive whole, by every operation."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.pairing.cases import ITERATIONS, SIZES_BYTES, ExchangeCase, Measurement
from gdrcheck.verbs.protocol import ExchangePlan

PLAN = ExchangePlan(sizes_bytes=SIZES_BYTES, iterations=ITERATIONS)


def check_pingpong(
    exchange_case: ExchangeCase, measurement: Measurement, request: pytest.FixtureRequest
) -> None:
    """Every byte of every message is found at the sink, and no byte beside it has changed."""
    finding = measurement.finding(exchange_case, PLAN)
    if measurement.last is not None:
        request.node.user_properties.append(("path MTU", measurement.last.path_mtu))
    gates.fail(finding)
