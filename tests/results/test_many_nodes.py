"""A thousand nodes are compared: the few odd ones are named, and only they."""

from __future__ import annotations

import re

from gdrcheck.facts import Facts
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.differences import all_differences
from gdrcheck.results.incoming import NodeReport
from tests.results import many

COUNT = 1000
# Nothing to be read: no node has it, or no node was met.
NOT_COMPARED = (Outcome.SKIPPED, Outcome.NOT_JUDGED)


def compared(facts: dict[str, Facts]) -> list[CaseResult]:
    """All cases about differences."""
    reports = {name: NodeReport(name, facts=one) for name, one in facts.items()}
    return all_differences(many.run_of(list(facts)), reports)


def failed(cases: list[CaseResult]) -> dict[str, CaseResult]:
    return {case.id: case for case in cases if case.outcome is Outcome.FAILED}


def test_five_odd_nodes_of_a_thousand_are_found_and_only_they() -> None:
    odd = {name: change for name, (change, _) in many.FIVE.items()}
    cases = compared(many.fleet(COUNT, odd))
    found = failed(cases)
    assert set(found) == {
        "software_agrees[kernel]",
        "firmware_agrees[MT_0000000838]",
        next(case.id for case in cases if case.id.startswith("vbios_agrees[")),
        "software_agrees[read-request]",
        "mtu_agrees[rail2]",
    }
    places = {one.where.text() for case in found.values() for one in case.findings}
    named = {place.partition(" ")[0] for place in places}
    assert named == {place for _, place in many.FIVE.values()}
    others = [case for case in cases if case.id not in found]
    assert {case.outcome for case in others} <= {Outcome.PASSED, *NOT_COMPARED}
    assert any(case.outcome is Outcome.PASSED for case in others)


def test_nodes_that_are_odd_in_the_same_way_are_all_named() -> None:
    odd = dict.fromkeys(many.FIVE, many.other_kernel)
    (case,) = failed(compared(many.fleet(COUNT, odd))).values()
    (finding,) = case.findings
    assert re.findall(r"node\d+", finding.evidence["differ"]) == list(many.FIVE)
    assert finding.expected == "6.8.0-60-generic, as on most"


def test_half_against_half_is_told_as_a_tie_and_names_no_node_as_odd() -> None:
    half = many.names(COUNT)[COUNT // 2 :]
    (case,) = failed(compared(many.fleet(COUNT, dict.fromkeys(half, many.other_kernel)))).values()
    (finding,) = case.findings
    assert "a tie: 500 each with 6.8.0-60-generic, 6.8.0-59-generic" in finding.expected
    assert "differ" not in finding.evidence
