"""The writers and the judging parts on their own: XML, verdict, blame, screen, other tools."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

import gdrcheck
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import CODE_PATTERN, Finding, Where
from gdrcheck.outcome import InputError, Outcome, Verdict
from gdrcheck.results import blame, foreign, junit, plain
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.console import MAX_WIDTH, text
from gdrcheck.results.folding import fold
from gdrcheck.results.merge import merge
from gdrcheck.results.states import SeenStates
from gdrcheck.results.verdict import judge
from tests.node.support import run_spec
from tests.results.trees import NodeTree, place_of, port_down, write_run

ANY_TEXT = st.text(max_size=40)


def case(outcome: Outcome = Outcome.PASSED, suite: str = "node1", **changes: object) -> CaseResult:
    """A case of node1."""
    values: dict[str, Any] = {
        "suite": suite,
        "id": "x[node1]",
        "classname": "node1.x",
        "where": Where(node="node1"),
        "outcome": outcome,
    }
    return CaseResult(**(values | changes))


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_survives_as_xml(name: str, message: str, value: str) -> None:
    finding = Finding(code="PORT-NOT-ACTIVE", where=Where(node=name),
                      observed=message, expected=value)  # fmt: skip
    bad = case(Outcome.FAILED, id=name, message=message, findings=(finding,))
    xml = junit.document(
        {name: [bad]}, hosts={name: value}, properties={"p": value}, timestamp="2026-01-02T00:00:00"
    )
    root = ElementTree.fromstring(xml)
    (suite,) = root
    (element,) = suite.findall("testcase")
    assert element.get("name") == plain.one_line(name)
    assert suite.get("hostname") == plain.one_line(value)
    failure = element.find("failure")
    assert failure is not None
    assert f"observed: {plain.one_line(message)}" in (failure.text or "")


@given(ANY_TEXT)
def test_only_what_is_not_seen_is_escaped(text: str) -> None:
    shown = plain.one_line(text)
    assert plain.one_line(shown) == shown
    assert "\n" not in shown
    if text.isprintable():
        assert shown == text


def test_control_characters_stay_readable() -> None:
    assert plain.visible("a\x1b[0m\x00\ud800\r\n") == "a\\x1b[0m\\x00\\ud800\\x0d\n"
    assert plain.one_line("a\nb\x9bc\u202ed") == "a\\nb\\x9bc\\u202ed"


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([], Verdict.INCOMPLETE),
        ([Outcome.PASSED], Verdict.PASS),
        ([Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_JUDGED], Verdict.PASS),
        ([Outcome.SKIPPED], Verdict.INCOMPLETE),
        ([Outcome.PASSED, Outcome.ERROR], Verdict.INCOMPLETE),
        ([Outcome.PASSED, Outcome.BLOCKED], Verdict.INCOMPLETE),
        ([Outcome.PASSED, Outcome.ERROR, Outcome.FAILED], Verdict.FAIL),
    ],
)
def test_verdict(outcomes: list[Outcome], verdict: Verdict) -> None:
    judged = judge([case(outcome) for outcome in outcomes])
    assert judged.verdict is verdict
    assert bool(judged.reasons) == (verdict is not Verdict.PASS)


def test_other_tools_and_the_fleet_measure_nothing_for_us() -> None:
    cases = [case(suite="fleet"), case(suite="extra:nccl.xml")]
    assert judge(cases).verdict is Verdict.INCOMPLETE
    assert judge([case(), case(Outcome.FAILED, suite="extra:nccl.xml")]).verdict is Verdict.FAIL


# --- blame --------------------------------------------------------------------------------------


def pair(source: str, sink: str, outcome: Outcome, code: str = "PAIR-DATA-CORRUPT") -> CaseResult:
    """A pair case between two rails, named as on a node."""
    where = place_of(source, sink)
    finding = Finding(code=code, where=where, observed="a", expected="b")
    return case(
        outcome,
        suite="pairs",
        id=f"data[{source} -> {sink}, host-host, SEND]",
        where=where,
        findings=(finding,) if outcome is Outcome.FAILED else (),
    )


def test_a_rail_that_fails_with_two_partners_that_pass_elsewhere() -> None:
    cases = [
        pair("a/r0", "b/r0", Outcome.FAILED),
        pair("c/r0", "a/r0", Outcome.FAILED),
        pair("b/r0", "c/r0", Outcome.PASSED),
    ]
    (suspect,) = blame.suspects(cases)
    assert suspect.place == ("a/r0",)
    assert len(suspect.cases) == 2


@pytest.mark.parametrize(
    "cases",
    [
        [pair("a/r0", "b/r0", Outcome.FAILED)],
        [pair("a/r0", "b/r0", Outcome.FAILED), pair("c/r0", "d/r0", Outcome.PASSED)],
        [pair("a/r0", "b/r0", Outcome.FAILED), pair("b/r0", "a/r0", Outcome.PASSED)],
    ],
)
def test_otherwise_the_pair(cases: list[CaseResult]) -> None:
    (suspect,) = blame.suspects(cases)
    assert suspect.place == ("a/r0", "b/r0")


def test_partners_that_pass_nowhere_do_not_accuse() -> None:
    cases = [pair("a/r0", "b/r0", Outcome.FAILED), pair("a/r0", "c/r0", Outcome.FAILED)]
    assert {suspect.place for suspect in blame.suspects(cases)} == {
        ("a/r0", "b/r0"),
        ("a/r0", "c/r0"),
    }


def test_unstable_pairs_name_no_end() -> None:
    cases = [
        pair("a/r0", "b/r0", Outcome.FAILED, "PAIR-UNSTABLE"),
        pair("a/r0", "c/r0", Outcome.FAILED, "PAIR-UNSTABLE"),
        pair("b/r0", "c/r0", Outcome.PASSED),
    ]
    assert {suspect.reason for suspect in blame.suspects(cases)} == {
        "repeats disagree, no end is named"
    }


def test_a_finding_that_names_its_end_needs_no_guess() -> None:
    located = replace(pair("a/r0", "b/r0", Outcome.FAILED), findings=(port_down("a", "r0"),))
    assert blame.suspects([located]) == ()


def test_nothing_failed_nobody_is_suspect() -> None:
    assert blame.suspects([pair("a/r0", "b/r0", Outcome.BLOCKED), case()]) == ()


# --- the screen ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "folded"),
    [
        (["node1/rxe0", "node2/rxe0", "node4/rxe0"], ["node[1-2,4]/rxe0"]),
        (["node1/rxe0", "node1/rxe1"], ["node1/rxe0", "node1/rxe1"]),
        (["n01", "n02", "n10"], ["n[01-02,10]"]),
        (["alpha", "beta/rxe0"], ["alpha", "beta/rxe0"]),
        ([], []),
    ],
)
def test_places_are_folded(places: list[str], folded: list[str]) -> None:
    assert fold(places) == folded


def test_screen_groups_by_cause_and_stays_short(tmp_path: Path) -> None:
    names = [f"node{number}" for number in range(1, 41)]
    write_run(tmp_path, run_spec(*names))
    for name in names:
        tree = NodeTree(tmp_path, name)
        for kind in range(8):
            tree.case(f"odd{kind}[{name}]", Outcome.ERROR, message=f"reason {kind} on {name}")
        tree.case(f"port[{name}/rxe0]", Outcome.FAILED, findings=[port_down(name)])
    screen = text(merge(tmp_path, SeenStates()), tmp_path)
    assert "PORT-NOT-ACTIVE: A port is not active: node[1-40]/rxe0" in screen
    assert "verdict: FAIL (40 cases failed" in screen
    assert "error odd0[node1] and 39 like it (node[1-40]): reason 0 on node1" in screen
    assert f"results: {tmp_path}" in screen
    assert len(screen.splitlines()) <= 30


def test_a_long_reason_or_name_never_hides_the_case(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    tree, long_id = NodeTree(tmp_path, "node1"), f"port[node1/{'x' * 200}]"
    tree.case("short[node1]", Outcome.ERROR, message="r" * 500)
    tree.case(long_id, Outcome.BLOCKED, blocked_by="short[node1]")
    lines = text(merge(tmp_path, SeenStates()), tmp_path).splitlines()
    (short,) = [line for line in lines if line.startswith("  error short[node1]: rrr")]
    assert len(short) == MAX_WIDTH
    assert f"  blocked {long_id}…" in lines


@pytest.mark.parametrize("there", [True, False])
def test_only_a_folder_that_is_there_is_announced(tmp_path: Path, there: bool) -> None:
    write_run(tmp_path, run_spec("node1"))
    if not there:
        (tmp_path / "nodes").rmdir()
    last = text(merge(tmp_path, SeenStates()), tmp_path).splitlines()[-1]
    assert last == f"results: {tmp_path}/junit.xml, summary.json{', nodes/' if there else ''}"


# --- other tools --------------------------------------------------------------------------------


def read(tmp_path: Path, content: str | bytes) -> list[CaseResult]:
    """The cases of a foreign file with ``content``."""
    path = tmp_path / "nccl.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return foreign.read_directories([tmp_path])


def test_foreign_results_are_taken_over(tmp_path: Path) -> None:
    cases = read(
        tmp_path,
        """<testsuite tests="5" failures="1" errors="1" skipped="1">
        <testcase name="a" classname="t" time="1,200.5"/>
        <testcase name="a" classname="t"/>
        <testcase name="b"><failure type="Slow" message="too slow">3 GB/s</failure></testcase>
        <testcase name="c"><error message="died"/></testcase>
        <testcase name="d"><skipped/></testcase></testsuite>""",
    )
    assert [str(one.outcome) for one in cases] == ["passed", "passed", "failed", "error", "skipped"]
    assert (cases[0].suite, cases[0].classname, cases[0].duration_s) == (
        "extra:nccl.xml",
        "extra.nccl.t",
        1200.5,
    )
    assert cases[1].id == "a (#2)"
    assert (cases[2].foreign_type, cases[2].message) == ("Slow", "too slow\n3 GB/s")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no xml",
        "<html/>",
        "<testsuites/>",
        '<testsuite tests="3"><testcase name="a"/></testsuite>',
        '<testsuite tests="1" failures="1"><testcase name="a"/></testsuite>',
        '<testsuites tests="9"><testsuite><testcase name="a"/></testsuite></testsuites>',
        '<testsuites errors="1"><testsuite><testcase name="a"/></testsuite></testsuites>',
        '<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>',
        "<testsuite>" * 100 + "</testsuite>" * 100,
        '<!DOCTYPE x><testsuite><testcase name="a"/></testsuite>'.encode("utf-16"),
    ],
)
def test_foreign_files_that_prove_nothing_are_errors(tmp_path: Path, content: str | bytes) -> None:
    cases = read(tmp_path, content)
    assert [one.outcome for one in cases].count(Outcome.ERROR) == 1
    assert cases[-1].id == "extra_junit_read[nccl.xml]"


def test_no_file_of_other_tools_is_passed_over(tmp_path: Path) -> None:
    bad = '<testsuite><testcase name="t"><failure/></testcase></testsuite>'
    (tmp_path / "nccl.XML").write_text(bad)
    (tmp_path / "log.txt").write_text("3 failed")
    (tmp_path / "more.xml.d").mkdir()
    (tmp_path / ".hidden").write_text("")
    cases = foreign.read_directories([tmp_path, tmp_path / "..", tmp_path.parent / tmp_path.name])
    found = {(one.suite, one.outcome) for one in cases if tmp_path.name not in one.suite}
    assert found >= {
        ("extra:nccl.XML", Outcome.FAILED),
        ("extra:log.txt", Outcome.ERROR),
        ("extra:more.xml.d", Outcome.ERROR),
    }
    assert [one.suite for one in cases].count("extra:nccl.XML") == 1
    assert not any("hidden" in one.suite for one in cases)


def test_a_folder_of_other_tools_must_be_there_if_it_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    with pytest.raises(InputError, match="no such folder"):
        merge(tmp_path, SeenStates(), tmp_path / "typo")
    (tmp_path / "extra_junit").write_text("")
    assert foreign.read_directories([tmp_path / "none"]) == []
    (case,) = foreign.read_directories([tmp_path / "extra_junit"])
    assert case.outcome is Outcome.ERROR


@given(st.binary(max_size=200))
def test_foreign_garbage_is_always_a_case(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    directory = tmp_path_factory.mktemp("foreign")
    assert read(directory, data)


def test_foreign_failure_fails_the_run_and_is_in_the_file(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2")
    one.both_ways("node2")
    two.case("port[node2]")
    (tmp_path / "extra_junit").mkdir()
    (tmp_path / "extra_junit" / "dcgmi.xml").write_text(
        '<testsuite><testcase name="memory"><failure type="ECC"/></testcase></testsuite>'
    )
    assert merge(tmp_path, SeenStates()).verdict is Verdict.FAIL
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml"))}
    (found,) = suites["extra:dcgmi.xml"]
    assert found.result[0].type == "ECC"


def test_failures_without_a_finding_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    NodeTree(tmp_path, "node1").case("bad[node1]", Outcome.FAILED, findings=[port_down()])
    (tmp_path / "extra_junit").mkdir()
    (tmp_path / "extra_junit" / "dcgmi.xml").write_text(
        '<testsuite><testcase name="memory"><failure message="2 rows\nlost"/></testcase>'
        '<testcase name="ecc"><failure type="ECC"/></testcase>'
        '<testcase name="bare"><failure/></testcase>'
        '<testcase name="fine"/></testsuite>'.replace("\n", "&#10;")
    )
    result = merge(tmp_path, SeenStates())
    named = [(one.suite, one.case, one.message) for one in result.failed_without_finding]
    assert named == [
        ("extra:dcgmi.xml", "memory", "2 rows"),
        ("extra:dcgmi.xml", "ecc", "ECC"),
        ("extra:dcgmi.xml", "bare", ""),
    ]
    screen = text(result, tmp_path)
    assert (
        "\nfailed: extra:dcgmi.xml: memory: 2 rows"
        "\nfailed: extra:dcgmi.xml: ecc: ECC"
        "\nfailed: extra:dcgmi.xml: bare: no message\n"
    ) in screen
    assert screen.index("findings:") < screen.index("failed: extra:")


def test_many_failures_without_a_finding_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    (tmp_path / "extra_junit").mkdir()
    cases = "".join(f'<testcase name="t{n}"><failure/></testcase>' for n in range(8))
    (tmp_path / "extra_junit" / "a.xml").write_text(f"<testsuite>{cases}</testsuite>")
    result = merge(tmp_path, SeenStates())
    assert len(result.failed_without_finding) == 8
    assert "  and 3 more failed cases, see summary.json" in text(result, tmp_path)


# --- codes --------------------------------------------------------------------------------------


def test_codes_named_in_results_and_node_are_in_the_catalogue() -> None:
    root = Path(gdrcheck.__file__).parent
    used = {
        node.value
        for part in ("results", "node")
        for path in (root / part).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(CODE_PATTERN, node.value)
    }
    assert {"RUN-LOCKED", "RUN-NO-RESULT", "RUN-WAIVER-EXPIRED"} <= used
    assert used <= set(ENTRIES_BY_CODE)
