"""How fast a rail is: alone and with all others, one way and both, directly and by copies."""

from __future__ import annotations

import pytest

from checks.pair.measuring import Measuring, median_us, rate_gbps, require_own_links, ways
from gdrcheck import gates
from gdrcheck.pairing import words
from gdrcheck.pairing.cases import PairCase
from gdrcheck.pairing.judge import judge_staged, judge_timed
from gdrcheck.rules import numbers


def check_latency(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """Half of the round trip of the smallest message is within the profile's limit."""
    report = measuring.latency(pair_case)
    request.node.user_properties += words.latency(report, measuring.host_latency(pair_case))
    gates.fail(judge_timed(report, pair_case.rail))
    limit_us = measuring.latency_limit_us(pair_case)
    high = numbers.high_latency(pair_case.where, median_us(report), limit_us)
    gates.fail(measuring.on_near_cores(pair_case, high))


def check_bandwidth(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """The largest messages reach the share that the profile promises of what limits the rail."""
    reports = measuring.bandwidth(pair_case)
    host = measuring.host_bandwidth(pair_case)
    request.node.user_properties += words.bandwidth(reports, host)
    for report in reports:
        gates.fail(judge_timed(report, pair_case.rail))
    gbps = rate_gbps(reports[-1].source.report)
    gates.fail(measuring.judge_rate(pair_case, gbps, request.node.user_properties))


def check_bandwidth_both_ways(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """Both ways at once, each reaches what it must reach alone."""
    report = measuring.both_ways(pair_case)
    request.node.user_properties += words.both_ways(report)
    gates.fail(judge_timed(report, pair_case.rail))
    for case, end in ((pair_case, report.source), (pair_case.reversed, report.sink)):
        gbps = rate_gbps(end.report)
        gates.fail(measuring.judge_rate(case, gbps, request.node.user_properties))


def check_bandwidth_all_rails(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """With all rails busy in both directions this one still reaches what it must reach."""
    report = measuring.at_once(pair_case)
    request.node.user_properties += words.both_ways(report)
    gates.fail(judge_timed(report, pair_case.rail))
    end = report.source if pair_case.direction == report.direction else report.sink
    gbps = rate_gbps(end.report)
    require_own_links(pair_case, gbps)
    gates.fail(measuring.judge_rate(pair_case, gbps, request.node.user_properties))


def check_staged_against_direct(
    pair_case: PairCase, measuring: Measuring, request: pytest.FixtureRequest
) -> None:
    """Directly from GPU to GPU is faster than by copies through the memory of both hosts."""
    reports = measuring.staged(pair_case)
    for report in reports:
        request.node.user_properties += words.staged(report)
        gates.fail(judge_staged(report, pair_case.rail))
    ends = pair_case.source.limits, pair_case.sink.limits
    slow = numbers.slow_peer_path(pair_case.where, ways(reports), *ends)
    gates.fail(measuring.on_near_cores(pair_case, slow))
