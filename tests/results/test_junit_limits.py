"""What of a large run stands in its JUnit file, and that it stays below the limits of readers."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results import junit, junit_limits
from gdrcheck.results.cases import FLEET, PAIRS, CaseResult
from gdrcheck.results.verdict import EXTRA_PREFIX
from tests.results.junit_cases import case, document, pair
from tests.results.trees import port_down

EXTRA = f"{EXTRA_PREFIX}a.xml"
GITLAB_BYTES, GITLAB_ELEMENTS = 30_000_000, 250_000


def totals(cases: Sequence[CaseResult]) -> dict[str, Outcome]:
    return {one.id: one.outcome for one in cases}


def test_a_run_of_usual_size_is_written_whole() -> None:
    suites = {"node1": [case("x[node1]")], PAIRS: [pair("node1/r0", "node2/r0")]}
    assert junit_limits.fit(suites) is suites


def test_a_large_run_has_verdicts_and_what_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 3)
    good = [case(f"good{number}[node1]") for number in range(5)]
    bad = case("bad[node1]", Outcome.FAILED, findings=(port_down(),))
    gpus = [case("odd[node1]", Outcome.NOT_JUDGED, classname="node1.gpus")]
    fleet = [case("alike[fleet]", suite=FLEET)]
    fitted = junit_limits.fit({"node1": [*good, bad, *gpus], FLEET: fleet})
    assert totals(fitted["node1"]) == {
        "bad[node1]": Outcome.FAILED,
        "checks_of[node1, ports]": Outcome.FAILED,
        "checks_of[node1, gpus]": Outcome.NOT_JUDGED,
    }
    assert fitted["node1"][1].properties == {
        "cases": "5 passed, 1 failed",
        "code": "PORT-NOT-ACTIVE",
    }
    assert fitted[FLEET] == fleet


def test_rails_answer_for_their_own_faults_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    by = "PORT-NOT-ACTIVE at d/gpu0/r0"
    cases = [
        pair("a/r0", "b/r0"),
        pair("b/r0", "a/r0", Outcome.FAILED, at="b"),
        pair("a/r0", "c/r0", Outcome.SKIPPED),
        pair("d/r0", "a/r0", Outcome.BLOCKED, blocked_by=by, message=f"blocked by {by}"),
    ]
    fitted = junit_limits.fit({PAIRS: cases})[PAIRS]
    assert totals(fitted) == {
        "pingpong[b/r0 -> a/r0, gpu-gpu, SEND]": Outcome.FAILED,
        "pingpong[d/r0 -> a/r0, gpu-gpu, SEND]": Outcome.BLOCKED,
        "pairs_of[a/r0]": Outcome.PASSED,
        "pairs_of[b/r0]": Outcome.FAILED,
        "pairs_of[c/r0]": Outcome.NOT_JUDGED,
        "pairs_of[d/r0]": Outcome.ERROR,
    }


def test_cases_that_fail_alike_between_two_rails_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    first = pair("a/r0", "b/r0", Outcome.FAILED)
    again = pair("a/r0", "b/r0", Outcome.FAILED, id="pingpong[a/r0 -> b/r0, gpu-gpu, READ]")
    fitted = junit_limits.fit({PAIRS: [first, again]})[PAIRS]
    assert [one.id for one in fitted if one.id.startswith("pingpong")] == [first.id]
    assert fitted[0].properties["cases like it"] == "1"


def test_what_is_bad_beyond_the_limit_is_counted_as_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    monkeypatch.setattr(junit_limits, "MAX_BAD", 1)
    bad = [case(f"bad{number}[node1]", Outcome.FAILED) for number in range(4)]
    fitted = {one.id: one for one in junit_limits.fit({"node1": bad})["node1"]}
    assert fitted["and_more[node1]"].outcome is Outcome.ERROR
    assert fitted["and_more[node1]"].message.startswith("3 more cases")
    assert "bad0[node1]" in fitted
    assert "bad1[node1]" not in fitted


@pytest.mark.parametrize("limit", ["MAX_ELEMENTS", "MAX_CHARS"])
def test_few_cases_that_tell_much_do_not_fit(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    cases = [case("x[node1]", properties={"size": "1 MiB"})]
    elements, chars = junit.size(cases[0])
    suites = {"node1": cases}
    needed = {"MAX_ELEMENTS": elements, "MAX_CHARS": chars}[limit]
    monkeypatch.setattr(junit_limits, limit, needed)
    assert junit_limits.fit(suites) is suites
    monkeypatch.setattr(junit_limits, limit, needed - 1)
    assert set(totals(junit_limits.fit(suites)["node1"])) == {"checks_of[node1, ports]"}


@pytest.mark.parametrize("limit", ["MAX_BAD_ELEMENTS", "MAX_BAD_CHARS", "MAX_BAD_OF_SUITE"])
def test_a_bad_case_for_which_there_is_no_room(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    monkeypatch.setattr(junit_limits, limit, 0)
    bad = case("bad[node1]", Outcome.FAILED)
    fitted = totals(junit_limits.fit({"node1": [bad]})["node1"])
    assert fitted == {
        "and_more[node1]": Outcome.ERROR,
        "checks_of[node1, ports]": Outcome.FAILED,
    }


def test_a_node_with_many_bad_cases_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    many = [case(f"bad{number}[node1]", Outcome.FAILED) for number in range(9_000)]
    one = case("bad[node2]", Outcome.FAILED, suite="node2", where=Where(node="node2"))
    other = pair("node1/r0", "node2/r0", Outcome.FAILED)
    fitted = junit_limits.fit({"node1": many, "node2": [one], PAIRS: [other], FLEET: [one]})
    assert len(fitted["node1"]) == junit_limits.MAX_BAD_OF_SUITE + 2
    assert one in fitted["node2"]
    assert other.id in totals(fitted[PAIRS])
    assert one in fitted[FLEET]


def test_cases_that_are_too_large_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    monkeypatch.setattr(junit_limits, "MAX_BAD_ELEMENTS", 50)
    long = {str(number): "" for number in range(60)}
    huge = [case(f"huge{number}[node1]", Outcome.FAILED, properties=long) for number in range(99)]
    one = case("bad[node2]", Outcome.FAILED, suite="node2", where=Where(node="node2"))
    fitted = junit_limits.fit({"node1": huge, "node2": [one]})
    assert [found.id for found in fitted["node1"]] == [
        "and_more[node1]",
        "checks_of[node1, ports]",
    ]
    assert fitted["node1"][0].message.startswith("99 more cases")
    assert one in fitted["node2"]


def test_a_node_that_invents_areas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    cases = [case(f"x{number}[node1]", classname=f"node1.a{number}") for number in range(999)]
    bad = case("bad[node1]", Outcome.FAILED, classname="node1.z")
    fitted = totals(junit_limits.fit({"node1": [*cases, bad]})["node1"])
    assert len(fitted) == junit_limits.MAX_AREAS + 2
    assert fitted["checks_of[node1, other]"] is Outcome.FAILED


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED])
def test_a_long_file_of_another_tool_is_counted(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    monkeypatch.setattr(junit_limits, "MAX_GOOD_OF_SUITE", 5)
    monkeypatch.setattr(junit_limits, "MAX_CASES", 0)
    few = [case(f"x{number}", suite=EXTRA) for number in range(5)]
    last = case("last", outcome, suite=EXTRA)
    assert junit_limits.fit({EXTRA: few})[EXTRA] == few
    fitted = totals(junit_limits.fit({EXTRA: [*few, case("y"), last]})[EXTRA])
    assert fitted[f"cases_of[{EXTRA}]"] is outcome
    assert ("last" in fitted) == (outcome is Outcome.FAILED)


def test_the_worst_run_of_a_thousand_nodes_stays_below_the_limits_of_gitlab() -> None:
    """A tenth of it: every case is bad, and tells as much as it can; limits are a tenth too."""
    long = "x" * 3000
    finding = Finding(code="PORT-NOT-ACTIVE", where=Where(node="n"), observed=long, expected=long)
    nodes, areas, rails = 100, 15, 8
    names = [f"rack-17-gpu{number:04d}.example" for number in range(nodes)]
    suites: dict[str, list[CaseResult]] = {
        name: [
            case(
                f"x{area}[{name}]",
                Outcome.FAILED,
                suite=name,
                classname=f"{name}.area{area}",
                where=Where(node=name),
                message=long,
                findings=(finding,),
                properties={"p50": long},
            )
            for area in range(areas)
        ]
        for name in names
    }
    suites[PAIRS] = [
        pair(
            f"{one}/gpu{rail}/mlx5_{rail}",
            f"{two}/gpu{rail}/mlx5_{rail}",
            Outcome.FAILED,
            message=long,
        )
        for one, two in zip(names, names[1:] + names[:1], strict=True)
        for rail in range(rails)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junit_limits, "MAX_CASES", junit_limits.MAX_CASES // 1000)
        for name in ("MAX_BAD", "MAX_BAD_ELEMENTS", "MAX_BAD_CHARS"):
            patch.setattr(junit_limits, name, getattr(junit_limits, name) // 10)
        written = document(junit_limits.fit(suites))
    root = ElementTree.fromstring(written)
    assert len(written) < GITLAB_BYTES / 10
    assert sum(1 for _ in root.iter()) < GITLAB_ELEMENTS / 10
    verdicts = [one.get("name", "") for one in root.iter("testcase")]
    assert sum(name.startswith("checks_of") for name in verdicts) == nodes * areas
    assert sum(name.startswith("pairs_of") for name in verdicts) == nodes * rails


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=6))
def test_what_did_not_pass_never_becomes_passed(outcomes: list[Outcome]) -> None:
    cases = [case(f"x{number}[node1]", one) for number, one in enumerate(outcomes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junit_limits, "MAX_CASES", 0)
        fitted = junit_limits.fit({"node1": cases})["node1"]
    bad = {Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED}
    (verdict,) = [one for one in fitted if one.id.startswith("checks_of")]
    passed = Outcome.PASSED in outcomes and not bad & set(outcomes)
    assert (verdict.outcome is Outcome.PASSED) == passed
    assert {one.id for one in cases if one.outcome in bad} <= {one.id for one in fitted}
