"""Connections by address and port, as programs make them: even numbers that a kernel wrote."""

from __future__ import annotations

import pytest

from checks.pair.measuring import Measuring
from gdrcheck import gates
from gdrcheck.pairing import words
from gdrcheck.pairing.cases import PairCase
from gdrcheck.pairing.cm_judge import judge_cm


def check_rdma_cm(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """The immediate and every element arrive, from pinned memory to pinned, from GPU to GPU."""
    exchange = measuring.rdma_cm(pair_case)
    request.node.user_properties += words.rdma_cm(exchange)
    gates.fail(judge_cm(exchange))
