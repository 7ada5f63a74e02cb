"""Messages between the memories of two nodes arrive whole, by every operation, in every mode."""

from __future__ import annotations

import pytest

from checks.pair.measuring import Measuring, prove
from gdrcheck.outcome import NotPromised
from gdrcheck.pairing import words
from gdrcheck.pairing.cases import PairCase


def check_pingpong(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """Every byte of every message is found at the sink, and no byte beside it has changed."""
    cell, ruling = measuring.exchange(pair_case)
    request.node.user_properties += words.of_cell(cell)
    prove(cell, ruling)


def check_pingpong_far(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """The same for messages that lie beyond 2 GiB in the memory of both GPUs."""
    if not pair_case.item.promised:
        raise NotPromised("the profile says transfers.beyond_2gib: false")
    cell, ruling = measuring.far(pair_case)
    request.node.user_properties += words.of_cell(cell)
    prove(cell, ruling)
