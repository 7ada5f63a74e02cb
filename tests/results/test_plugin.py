"""The outcome of a check, by what it does: run by pytest as on a node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdrcheck.findings.model import Where
from gdrcheck.node.process import PACKAGE_ROOT
from gdrcheck.results import events
from gdrcheck.results.events import EndEvent, PlanEvent, StepEvent
from tests.node.support import Ran, supervised, write_checks

CHECKS = """
    FINDING = Finding(code="PORT-NOT-ACTIVE", where=Where(node="node1", nic="rxe0"),
                      observed="DOWN", expected="ACTIVE")

    @devices("rxe0")
    def check_passes(device, record_property):
        record_property("gid", "fe80::1")
        with step("open"):
            print("not shown")

    def check_fails():
        print("seen on stdout")
        raise CheckFailure(FINDING)

    def check_bare_assert(): assert 1 == 2
    def check_raises(): {}["key"]
    def check_blocked(): raise Blocked("PORT-NOT-ACTIVE at node1/rxe0")
    def check_not_promised(): raise NotPromised("the profile promises no GPU")
    def check_not_judged(): raise NotJudged("12 Gb/s")
    def check_probe(): raise ProbeError("no answer", step="read state", error_number=5)
    def check_peer(): raise PeerError("silence", side="node2", step="hello")
    def check_skips(): pytest.skip("I would rather not")
    @pytest.mark.skip(reason="later")
    def check_marked(): pass
    @pytest.mark.xfail
    def check_xfails(): assert False
    @pytest.mark.xfail
    def check_xpasses(): pass
    def check_system_exit(): raise SystemExit(0)
    def check_surrogate(): raise ProbeError("bad name \\udc80 \\x1b[0m")
    def check_huge():
        print("x" * 10**6)
        raise ProbeError("y" * 10**6)

    @pytest.fixture
    def broken_setup(): raise OSError("no device")
    @pytest.fixture
    def blocked_setup(): raise Blocked("that")
    @pytest.fixture
    def failing_setup(): raise CheckFailure(FINDING)
    @pytest.fixture
    def broken_teardown():
        yield
        raise OSError("does not close")
    def check_setup(broken_setup): pass
    def check_setup_blocked(blocked_setup): pass
    def check_setup_failure(failing_setup): pass
    def check_teardown(broken_teardown): pass
    def check_fails_and_teardown(broken_teardown): raise CheckFailure(FINDING)
    def check_skipped_and_teardown(broken_teardown): raise NotPromised("no")
    @pytest.mark.parametrize("nothing", [])
    def check_without_parameters(nothing): pass
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of all these checks."""
    root = tmp_path_factory.mktemp("plugin")
    return supervised(root, write_checks(root, node_all=CHECKS))


@pytest.mark.parametrize(
    ("name", "outcome", "message"),
    [
        ("passes[node1/rxe0]", "passed", ""),
        ("fails[node1]", "failed", "PORT-NOT-ACTIVE at node1/rxe0: observed DOWN"),
        ("bare_assert[node1]", "error", "check raised a bare AssertionError"),
        ("raises[node1]", "error", "KeyError: 'key'"),
        ("blocked[node1]", "blocked", "blocked by PORT-NOT-ACTIVE at node1/rxe0"),
        ("not_promised[node1]", "skipped", "the profile promises no GPU"),
        ("not_judged[node1]", "not judged", "12 Gb/s"),
        ("probe[node1]", "error", "no answer (step read state) (errno 5)"),
        ("peer[node1]", "error", "silence (side node2, step hello)"),
        ("skips[node1]", "error", "skip without declaration: I would rather not"),
        ("marked[node1]", "error", "skip without declaration: later"),
        ("xfails[node1]", "error", "check raised a bare AssertionError"),
        ("xpasses[node1]", "error", "pytest says"),
        ("system_exit[node1]", "error", "SystemExit: 0"),
        ("surrogate[node1]", "error", "bad name \\udc80"),
        ("huge[node1]", "error", "characters left out"),
        ("setup[node1]", "error", "OSError: no device"),
        ("setup_blocked[node1]", "blocked", "blocked by that"),
        ("setup_failure[node1]", "error", "in setup: PORT-NOT-ACTIVE"),
        ("teardown[node1]", "error", "in teardown: OSError: does not close"),
        ("fails_and_teardown[node1]", "failed", "in teardown: OSError"),
        ("skipped_and_teardown[node1]", "error", "in teardown: OSError"),
        ("without_parameters[NOTSET]", "error", "got empty parameter set"),
    ],
)
def test_outcome(ran: Ran, name: str, outcome: str, message: str) -> None:
    case = ran.cases[name]
    assert case.outcome == outcome
    assert message in case.message


def test_every_check_is_there_once(ran: Ran) -> None:
    assert len(ran.report.cases) == 23
    assert ran.report.problems == ()
    assert ran.exit_code == 1


def test_names_places_and_properties(ran: Ran) -> None:
    case = ran.cases["passes[node1/rxe0]"]
    assert case.classname == "node1.all"
    assert case.where == Where(node="node1", nic="rxe0")
    assert case.properties == {"gid": "fe80::1"}
    assert ran.cases["fails[node1]"].where == Where(node="node1")
    assert ran.cases["blocked[node1]"].blocked_by == "PORT-NOT-ACTIVE at node1/rxe0"


def test_output_is_kept_for_what_did_not_pass(ran: Ran) -> None:
    assert "seen on stdout" in ran.cases["fails[node1]"].message
    assert ran.cases["passes[node1/rxe0]"].message == ""
    assert len(ran.cases["huge[node1]"].message) < 20_000


def test_findings_travel_with_the_case(ran: Ran) -> None:
    (finding,) = ran.cases["fails[node1]"].findings
    assert (finding.code, finding.observed) == ("PORT-NOT-ACTIVE", "DOWN")
    assert ran.cases["bare_assert[node1]"].findings == ()


def test_stream_has_the_plan_first_and_the_steps(ran: Ran) -> None:
    log = events.read(ran.out / "events.jsonl").events
    kinds = [event.event for event in log]
    assert kinds[:3] == ["run", "plan", "start"]
    assert kinds[-1] == "exit"
    plan = next(event for event in log if isinstance(event, PlanEvent))
    assert len(plan.cases) == 23
    steps = [(event.id, event.text) for event in log if isinstance(event, StepEvent)]
    assert steps == [("passes[node1/rxe0]", "open")]


def test_a_module_that_skips_itself_is_an_error(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_skip='pytest.skip("not here", allow_module_level=True)',
        node_ok="def check_ok(): pass",
    )
    done = supervised(tmp_path, checks)
    assert "not here" in done.cases["checks_collected[node1, checks/node/check_skip.py]"].message
    assert done.exit_code == 2


def test_a_file_without_a_check_is_an_error(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_typo="def chek_ok(): pass", node_ok="def check_ok(): pass")
    done = supervised(tmp_path, checks)
    case = done.cases["checks_collected[node1, checks/node/check_typo.py]"]
    assert "holds no check" in case.message
    assert done.exit_code == 2


def test_options_of_pytest_from_outside_take_no_check_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k one")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    checks = write_checks(tmp_path, node_a="def check_one(): pass\ndef check_two(): pass")
    done = supervised(tmp_path, checks)
    assert set(done.cases) == {"one[node1]", "two[node1]"}
    assert done.exit_code == 0


def test_checks_that_something_else_takes_out_are_an_error(tmp_path: Path) -> None:
    options = recording(tmp_path, None)[:-1]
    text = "def check_one(): pass\ndef check_two(): pass"
    run_pytest(tmp_path, text, *options, "-k", "one")
    log = events.read(tmp_path / "events.jsonl").events
    (error,) = [one for one in log if isinstance(one, EndEvent) and one.outcome == "error"]
    assert error.id == "checks_collected[node1, all]"
    assert "check_two" in error.message


def run_pytest(root: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest with the plugin on one file with ``text``, as somebody would call it by hand."""
    (root / "check_a.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "gdrcheck.results.plugin"]
    command += ["-o", "python_functions=check_*", "-o", "python_files=check_*", *options, str(root)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def recording(root: Path, selection: str | None) -> list[str]:
    """Options that record events, with ``selection`` as the content of the file that selects."""
    if selection is not None:
        (root / "select.json").write_text(selection)
    return [
        "--gdrcheck-node=node1",
        "--gdrcheck-phase=node",
        f"--gdrcheck-events={root}/events.jsonl",
        f"--gdrcheck-select={root}/select.json",
    ]


def test_plugin_does_nothing_without_its_options(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def check_ok(): pass")
    assert done.returncode == 0
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("selection", ["{}", "not json", None])
def test_broken_selection_is_refused(tmp_path: Path, selection: str | None) -> None:
    done = run_pytest(tmp_path, "def check_ok(): pass", *recording(tmp_path, selection))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--gdrcheck-select" in done.stderr


def test_selection_runs_only_what_it_names(tmp_path: Path) -> None:
    text = "def check_one(): pass\ndef check_two(): pass"
    run_pytest(tmp_path, text, *recording(tmp_path, '["two[node1]"]'))
    log = events.read(tmp_path / "events.jsonl").events
    assert [event.id for event in log if isinstance(event, EndEvent)] == ["two[node1]"]
    plans = [event.cases for event in log if isinstance(event, PlanEvent)]
    assert [[case.id for case in cases] for cases in plans] == [["two[node1]"]]
