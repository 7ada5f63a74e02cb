"""The JUnit file: what readers of such files take, of any size and with any text in it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.cases import PAIRS
from gdrcheck.results.plain import one_line
from tests.results.junit_cases import case, document, pair
from tests.results.junit_schema import complaints
from tests.results.trees import Merged, port_down, seen, two_nodes

HOSTILE = (
    "\x00\x1b[2J\x85\u202e",
    "a]]>b<!--&amp;-->&#0;",
    "<!DOCTYPE x [<!ENTITY a 'b'>]>&a;",
    "\N{PILE OF POO}\ud800",
    "x" * 300,
    "'\"\n\t\r",
)


def told(suite: ElementTree.Element) -> dict[str, str]:
    """The properties of a suite."""
    return {
        one.get("name", ""): one.get("value", "") for one in suite.iterfind("properties/property")
    }


@pytest.mark.parametrize(
    ("xml", "complaint"),
    [
        (
            "<testsuites><testsuite name='a' tests='1' errors='0'/></testsuites>",
            "testsuite: no failures",
        ),
        ("<testsuites skipped='1'/>", "testsuites: attribute skipped"),
        ("<testsuites>x</testsuites>", "testsuites: text"),
        ("<testsuites time='1 s'/>", "testsuites: time 1 s"),
        (
            "<testsuites><testcase name='a'><properties/></testcase></testsuites>",
            "testcase: properties",
        ),
        ("<html/>", "root html"),
    ],
)
def test_what_the_schema_refuses(xml: str, complaint: str) -> None:
    assert complaint in complaints(ElementTree.fromstring(xml))


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_the_schema_holds(outcome: Outcome, text: str) -> None:
    finding = Finding(code="PORT-NOT-ACTIVE", where=Where(node=text), observed=text, expected=text)
    bad = case(
        text, outcome, message=text, classname=text, findings=(finding,), properties={text: text}
    )
    root = ElementTree.fromstring(document({text: [bad]}))
    assert complaints(root) == []
    (element,) = root.iter("testcase")
    assert element.get("name") == element.get("classname") == one_line(text)


@given(
    st.lists(st.text(max_size=20), max_size=4, unique_by=one_line), st.sampled_from(list(Outcome))
)
def test_any_text_is_read_back_by_the_library_that_ci_systems_use(
    names: list[str], outcome: Outcome
) -> None:
    cases = [case(name, outcome, message=name) for name in names]
    (suite,) = JUnitXml.fromstring(document({"node1": cases}))
    assert [one.name for one in suite] == [one_line(name) for name in names]
    assert suite.tests == len(names)


def test_a_finding_stands_in_the_properties_of_its_suite_and_in_its_text() -> None:
    low = Finding(
        code="PAIR-BANDWIDTH-LOW",
        where=Where(node="node1", nic="mlx5_0", peer="node2"),
        observed="203.4",
        expected="at least 360.0",
        unit="Gb/s",
    )
    bad = case("x[node1]", Outcome.FAILED, findings=(low, port_down()), properties={"p50": "2 us"})
    (suite,) = ElementTree.fromstring(document({"node1": [bad]}))
    assert told(suite) == {
        "run_id": "x",
        "x[node1]: p50": "2 us",
        "x[node1]: code": "PAIR-BANDWIDTH-LOW",
        "x[node1]: where": "node1/mlx5_0 (with node2)",
        "x[node1]: observed": "203.4",
        "x[node1]: expected": "at least 360.0",
        "x[node1]: unit": "Gb/s",
        "x[node1]: code 2": "PORT-NOT-ACTIVE",
        "x[node1]: where 2": "node1/rxe0",
        "x[node1]: observed 2": "state DOWN",
        "x[node1]: expected 2": "state ACTIVE",
    }
    text = suite.findtext("testcase/failure") or ""
    lines = text.splitlines()
    assert {"code: PAIR-BANDWIDTH-LOW", "observed: 203.4 Gb/s", "measured:", "p50: 2 us"} <= {
        *lines
    }


def test_a_passed_case_has_nothing_in_it() -> None:
    good = case("x[node1]", message="printed", properties={"p50": "2 us"})
    (suite,) = ElementTree.fromstring(document({"node1": [good]}))
    (element,) = suite.iter("testcase")
    assert (len(element), element.text) == (0, None)
    assert told(suite)["x[node1]: p50"] == "2 us"
    assert b"printed" not in document({"node1": [good]})


def test_equal_names_are_numbered() -> None:
    cases = [case(name) for name in ("x", "x\n", "x (#2)", "x\\n", "x", "x")]
    (suite,) = ElementTree.fromstring(document({"node1": [*cases, case("x", classname="a.b")]}))
    names = [one.get("name") for one in suite.iter("testcase")]
    assert names == ["x", "x\\n", "x (#2)", "x\\n (#2)", "x (#3)", "x (#4)", "x"]


@pytest.mark.parametrize(
    ("said", "written"),
    [("yaml", "yaml (type)"), ("Date", "Date (type)"), ("array", "array (type)"), ("Slow", "Slow")],
)
def test_types_of_other_tools_that_gitlab_takes_for_types_of_data(said: str, written: str) -> None:
    bad = case("x", Outcome.FAILED, foreign_type=said)
    (failure,) = ElementTree.fromstring(document({"node1": [bad]})).iter("failure")
    assert failure.get("type") == written


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ERROR, Outcome.NOT_JUDGED])
def test_the_text_says_what_the_message_says(outcome: Outcome) -> None:
    bad = case("x", outcome, message="no such device\nat all")
    (found,) = next(ElementTree.fromstring(document({"node1": [bad]})).iter("testcase"))
    assert (found.text or "").startswith(f"{found.get('message')}\n")
    assert "at all" in (found.text or "")


def test_arrows_are_no_entities() -> None:
    written = document({PAIRS: [pair("a/r0", "b/r0", Outcome.FAILED)]})
    assert b"a/r0 -> b/r0" in written
    assert b"&" not in written


def test_what_a_node_tells_at_length_is_cut() -> None:
    long = "&" * 900_000
    finding = Finding(code="PORT-NOT-ACTIVE", where=Where(node="node1"), observed=long, expected="")
    bad = case(
        "x[node1]", Outcome.FAILED, message=long, findings=(finding,), properties={"p": long}
    )
    assert len(document({"node1": [bad]})) < 200_000


def test_versions_stand_in_the_suite_of_their_node(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    merged = Merged(tmp_path)
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert complaints(root) == []
    for name in ("node1", "node2"):
        suite = next(one for one in root if one.get("name") == name)
        versions = merged.summary.nodes[name].versions
        assert versions
        assert versions.items() <= told(suite).items()


# --- what a node may have sent ------------------------------------------------------------------

BOMB = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;">]><testsuites><testsuite name="&c;"/></testsuites>"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("events.jsonl", b""),
        ("events.jsonl", BOMB),
        ("events.jsonl", b"\x89PNG\r\n\x1a\n\x00" * 40),
        ("events.jsonl", b"[" * 100_000 + b"\n"),
        ("facts.json", BOMB),
        ("facts.json", b'{"node": "node1"'),
        ("done.json", b""),
        ("done.json", b'{"exit_code": 0}'),
    ],
)
def test_a_spoiled_file_of_a_node_is_its_error_and_no_other(
    tmp_path: Path, name: str, content: bytes
) -> None:
    one, _two = two_nodes(tmp_path)
    (one.directory / name).write_bytes(content)
    merged = Merged(tmp_path, seen(node1="ok", node2="ok"))
    assert merged.verdict is not Verdict.PASS
    assert (merged.result("every_node_reported[node1]") or ("",))[0] == "Error"
    assert merged.result("every_node_reported[node2]") is None
    assert merged.result("port_active[node2/rxe0]") is None


def test_the_junit_file_of_a_node_is_never_read(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    (one.directory / "junit.xml").write_bytes(BOMB)
    assert Merged(tmp_path).verdict is Verdict.PASS


def test_nodes_whose_names_differ_only_in_a_dot_stay_apart() -> None:
    suites = {
        name: [case(f"x[{name}]", suite=name, classname="a_b.ports")] for name in ("a.b", "a_b")
    }
    names = [
        (element.get("classname"), element.get("name"))
        for element in ElementTree.fromstring(document(suites)).iter("testcase")
    ]
    assert len(set(names)) == 2
