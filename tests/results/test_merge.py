"""The verdict of a run from what its nodes left, and what became of those that left less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import Error, Failure, Skipped

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Severity, Where
from gdrcheck.outcome import InputError, Outcome, Verdict
from gdrcheck.results import cases
from gdrcheck.results.console import text
from gdrcheck.results.merge import merge
from gdrcheck.results.states import SeenState, SeenStates, parse
from tests.node.support import facts, run_spec
from tests.results.trees import Merged, NodeTree, fill, port_down, seen, two_nodes, write_run


def test_everything_passed(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    merged = Merged(tmp_path, seen(node1="ok", node2="ok"))
    assert merged.verdict is Verdict.PASS
    assert merged.summary.reasons == ()
    assert list(merged.suites) == ["node1", "node2", "pairs", "fleet"]
    assert merged.suites["node2"].hostname == "node2"
    assert merged.result("every_node_reported[node1]") is None
    assert merged.summary.counts["passed"] == len(merged.cases) - len(merged.uncompared)


def test_totals_agree_with_the_cases(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("a[node1]", Outcome.FAILED, findings=[port_down()])
    one.case("b[node1]", Outcome.ERROR, message="odd")
    one.case("c[node1]", Outcome.NOT_JUDGED, message="12 Gb/s")
    merged = Merged(tmp_path)
    for suite in merged.junit:
        kinds = [type(case.result[0]) for case in suite if case.result]
        assert suite.tests == len(list(suite))
        assert suite.failures == kinds.count(Failure)
        assert suite.errors == kinds.count(Error)
        assert suite.skipped == kinds.count(Skipped)
    assert merged.junit.tests == sum(suite.tests for suite in merged.junit)
    assert sum(merged.summary.counts.values()) == merged.junit.tests
    names = [(case.classname, case.name) for suite in merged.junit for case in suite]
    assert len(set(names)) == len(names)


def test_failure_shows_the_finding_and_its_repair(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("bad[node1/rxe0]", Outcome.FAILED, message="down", findings=[port_down()])
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.FAIL
    (failure,) = merged.cases["bad[node1/rxe0]"].result
    assert failure.type == "PORT-NOT-ACTIVE"
    for part in ("node1/rxe0", "state DOWN", "state ACTIVE", "likely causes", "repair"):
        assert part in failure.text
    (found,) = merged.summary.findings
    assert (found.case, found.finding) == ("bad[node1/rxe0]", port_down())
    assert any("bad[node1/rxe0]" in line for line in merged.summary.nodes["node1"].troubles)
    assert merged.summary.nodes["node2"].troubles == ()


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.BLOCKED])
def test_unmeasured_is_incomplete(tmp_path: Path, outcome: Outcome) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("x[node1]", outcome, message="could not", blocked_by="PORT-NOT-ACTIVE at node1")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert merged.result("x[node1]") == ("Error", "could not")
    assert merged.cases["x[node1]"].result[0].type == outcome


def test_failure_outranks_incomplete(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("x[node1]", Outcome.ERROR)
    one.case("y[node1]", Outcome.FAILED, findings=[port_down()])
    assert Merged(tmp_path).verdict is Verdict.FAIL


def test_warnings_do_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("x[node1]", Outcome.FAILED, message="down", findings=[port_down()])
    entry = ENTRIES_BY_CODE["PORT-NOT-ACTIVE"].model_copy(update={"severity": Severity.WARN})
    monkeypatch.setattr(cases, "ENTRIES_BY_CODE", {entry.code: entry})
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.result("x[node1]") == ("Skipped", "warning, does not fail the run: down")
    assert merged.summary.counts["warned"] == 1


def test_unreachable_node(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    NodeTree(tmp_path, "node1").case("port_active[node1/rxe0]")
    merged = Merged(tmp_path, seen(node1="ok", node2="unreachable"))
    assert merged.verdict is Verdict.INCOMPLETE
    assert merged.result("node_reported[node2]") == ("Error", "no result: unreachable: why")
    assert merged.result("every_node_reported[node2]") == ("Error", "no result: unreachable: why")
    assert merged.result("port_active[node1/rxe0]") is None
    for id_ in ("pair_measured[node1 -> node2]", "pair_measured[node2 -> node1]"):
        kind, message = merged.result(id_) or ("", "")
        assert (kind, merged.cases[id_].result[0].type) == ("Error", "blocked")
        assert "every_node_reported[node2]: node2: unreachable: why" in message


def test_findings_of_preflight_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    state = SeenState(
        state="refused",
        reason="no engine",
        findings=(port_down().model_copy(update={"code": "RUN-NO-ENGINE"}),),
    )
    merged = Merged(tmp_path, SeenStates(nodes={"node1": state}))
    codes = [entry.finding.code for entry in merged.summary.findings]
    assert codes == ["RUN-NO-RESULT", "RUN-NO-ENGINE"]
    assert "RUN-NO-ENGINE" in merged.cases["node_reported[node1]"].result[0].text


def test_container_that_died_in_the_middle(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.plan("ran[node1]", "never[node1]")
    one.start("ran[node1]", "open rxe0", "reg_mr on rxe0")
    one.died()
    merged = Merged(tmp_path, seen(node1="no result", node2="ok"))
    died = "container died: no result: why"
    assert merged.result("ran[node1]") == ("Error", f"{died}, while: reg_mr on rxe0")
    assert merged.result("never[node1]") == ("Error", f"not run: {died}")
    assert merged.result("port_active[node1/rxe0]") is None
    assert merged.verdict is Verdict.INCOMPLETE


def test_node_that_vanished_says_node_lost(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.plan("never[node1]")
    one.died()
    merged = Merged(tmp_path, seen(node1="unreachable", node2="ok"))
    assert merged.result("never[node1]") == ("Error", "not run: node lost: unreachable: why")


def test_unfinished_node_is_never_a_pass_even_if_all_cases_passed(tmp_path: Path) -> None:
    _one, two = two_nodes(tmp_path)
    two.died()
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert "incomplete" in (merged.result("every_node_reported[node2]") or ("", ""))[1]


def test_a_node_without_facts_is_never_whole(tmp_path: Path) -> None:
    """Comparing the nodes would pass by leaving it out."""
    _one, two = two_nodes(tmp_path)
    fill(tmp_path)
    (two.directory / "facts.json").unlink()
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    expected = ("Error", "results are incomplete: there is no facts.json")
    assert merged.result("every_node_reported[node2]") == expected
    assert merged.cases["every_node_reported[node2]"].result[0].type == "error"
    assert "RUN-NO-RESULT" in [entry.finding.code for entry in merged.summary.findings]
    assert not merged.summary.nodes["node2"].complete
    assert merged.result("every_node_reported[node1]") is None


def test_garbage_in_the_middle_is_an_error_of_that_node(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    path = one.directory / "events.jsonl"
    path.write_bytes(b"\x00garbage\n" + path.read_bytes())
    cut = two.directory / "events.jsonl"
    cut.write_bytes(cut.read_bytes() + b'{"v": 1, "ev')
    two.died()
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    kind, _ = merged.result("results_readable[node1]") or ("", "")
    assert kind == "Error"
    assert "results_readable[node2]" not in merged.cases


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("done.json", "{}"),
        ("done.json", '{"exit_code": 0, "reason": "", "finished": false}'),
        ("facts.json", '{"schema_version": 99}'),
        ("rendezvous.json", "[]"),
        ("facts.json", "x" * (5 << 20)),
    ],
)
def test_files_that_break_their_schema(tmp_path: Path, name: str, content: str) -> None:
    one, _two = two_nodes(tmp_path)
    (one.directory / name).write_text(content)
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert name in merged.cases["results_readable[node1]"].result[0].text


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    (one.directory / "facts.json").unlink()
    (one.directory / "facts.json").symlink_to("/etc/passwd")
    (two.directory / "facts.json").unlink()
    os.mkfifo(two.directory / "facts.json")
    merged = Merged(tmp_path)
    assert "results_readable[node1]" in merged.cases
    assert "results_readable[node2]" in merged.cases


def test_results_of_another_run_or_node_are_refused(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("port_active[node2/rxe0]", where=Where(node="node2", nic="rxe0"))
    merged = Merged(tmp_path)
    assert "is about node2" in merged.cases["results_readable[node1]"].result[0].text
    assert merged.verdict is Verdict.INCOMPLETE


def test_a_second_result_cannot_hide_the_first(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("x[node1]", Outcome.FAILED, findings=[port_down()])
    one.case("x[node1]", Outcome.PASSED)
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.FAIL
    assert "two results" in merged.cases["results_readable[node1]"].result[0].text


def test_a_pair_that_two_nodes_claim_is_an_error(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    two.pair("node1/rxe0", "node2/rxe0", Outcome.FAILED)
    merged = Merged(tmp_path)
    claimed = "pingpong[node1/rxe0 -> node2/rxe0, host-host, SEND]"
    assert merged.result(claimed) is None
    assert claimed in merged.cases["results_readable[node2]"].result[0].text
    assert merged.result("every_node_reported[node1]") is None
    assert merged.verdict is Verdict.INCOMPLETE
    assert one.node == "node1"


def test_a_node_that_finished_without_cases_did_not_report(tmp_path: Path) -> None:
    _one, two = two_nodes(tmp_path)
    (two.directory / "events.jsonl").write_text("")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert "node_reported[node2]" in merged.cases


def test_check_mode(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    states = SeenStates(nodes={"node1": SeenState(state="ok")}, check_mode=True)
    merged = Merged(tmp_path, states)
    assert merged.verdict is Verdict.INCOMPLETE
    assert "check mode: nothing measured" in text(merged.summary, tmp_path)
    assert merged.result("node_reported[node1]") == (
        "Error",
        "no result: check mode: nothing measured",
    )


def test_software_and_emulation_are_said_everywhere(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.facts(facts("node1").model_copy(update={"emulated": True}))
    merged = Merged(tmp_path)
    assert merged.summary.emulated
    assert "EMULATED" in text(merged.summary, tmp_path)
    for suite in merged.junit:
        assert {one.name for one in suite.properties()} >= {"EMULATED", "run_id", "verdict"}


def test_states_of_strangers_and_broken_states_are_refused(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    with pytest.raises(InputError, match="node9"):
        merge(tmp_path, seen(node9="ok"))
    with pytest.raises(InputError, match=r"states: nodes\.node1\.state"):
        parse('{"nodes": {"node1": {"state": "asleep"}}}', "states")


def test_command(tmp_path: Path) -> None:
    """The command as the playbook calls it: states on stdin, exit code by verdict."""
    one, _two = two_nodes(tmp_path)
    one.case("bad[node1/rxe0]", Outcome.FAILED, message="down", findings=[port_down()])
    states = json.dumps({"nodes": {"node1": {"state": "ok"}, "node2": {"state": "ok"}}})
    command = [sys.executable, "-m", "gdrcheck", "merge", "--states", "-", str(tmp_path)]
    done = subprocess.run(command, input=states, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "verdict: FAIL" in done.stdout
    done = subprocess.run(
        [*command, "--json"], input=states, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["verdict"] == "FAIL"
    (tmp_path / "run.json").unlink()
    done = subprocess.run(command, input=states, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "holds no run.json" in done.stderr
    assert "Traceback" not in done.stderr
