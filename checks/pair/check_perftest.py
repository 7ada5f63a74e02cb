"""The figures that people compare: perftest's, on the same rail in the same minute as ours."""

from __future__ import annotations

import pytest

from checks.pair.measuring import Measuring, compare
from gdrcheck import gates
from gdrcheck.outcome import NotJudged
from gdrcheck.pairing import words
from gdrcheck.pairing.cases import PairCase


def check_perftest_bandwidth(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """ib_write_bw finds the bandwidth that we find."""
    found = measuring.perftest_bandwidth(pair_case).numbers
    ours_gbps = measuring.our_rate_gbps(pair_case)
    request.node.user_properties += words.perftest(found)
    if ours_gbps is not None:
        request.node.user_properties.append(("ours", f"{ours_gbps:.3g} Gb/s"))
    gates.fail(compare(pair_case, ours_gbps, found.gbps))


def check_perftest_latency(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """ib_send_lat's figure beside ours, which a loop in Python makes: shown, and not judged."""
    found = measuring.perftest_latency(pair_case).numbers
    ours_us = measuring.our_latency_us(pair_case)
    ours = "not measured" if ours_us is None else f"{ours_us:.2f} us"
    request.node.user_properties += [*words.perftest(found), ("ours", ours)]
    raise NotJudged(f"perftest {found.typical_us} us, ours {ours}: two loops, shown side by side")
