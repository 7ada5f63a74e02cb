"""What becomes of a run in which checks hang and kill their process in every way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from junitparser import JUnitXml

from gdrcheck.outcome import Outcome
from gdrcheck.results import events
from gdrcheck.results.events import ExitEvent
from tests.node.support import (
    Ran,
    supervised,
    write_checks,
)

RUN_DEATHS = """
    def check_first(): pass

    @devices("rxe0", "rxe1")
    def check_hangs(device):
        with step("sleep with the GIL held"):
            if device.where.nic == "rxe0":
                ctypes.PyDLL(None).sleep(60)

    @devices("rxe0", "rxe1")
    def check_after_hang(device): pass

    def check_segfaults():
        with step("read address 0"):
            ctypes.string_at(0)

    def check_exits():
        os._exit(7)

    def check_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    def check_last(): pass
"""


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run in which checks hang and kill their process in every way."""
    root = tmp_path_factory.mktemp("deaths")
    return supervised(root, write_checks(root, node_deaths=RUN_DEATHS))


def test_hang_is_named_with_device_and_step(deaths: Ran) -> None:
    case = deaths.cases["hangs[node1/rxe0]"]
    assert case.outcome is Outcome.ERROR
    assert "node1/rxe0, while: sleep with the GIL held" in case.message
    assert "in check_hangs" in case.message  # the stack that faulthandler dumped
    assert case.duration_s >= 1


def test_hang_blocks_its_device_only(deaths: Ran) -> None:
    blocked = deaths.cases["after_hang[node1/rxe0]"]
    assert (blocked.outcome, blocked.blocked_by) == (Outcome.BLOCKED, "hangs[node1/rxe0]")
    assert deaths.cases["hangs[node1/rxe1]"].outcome is Outcome.PASSED
    assert deaths.cases["after_hang[node1/rxe1]"].outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("id_", "reason"),
    [
        ("segfaults[node1]", "killed by SIGSEGV on node1, while: read address 0"),
        ("exits[node1]", "process exited with 7"),
        ("killed[node1]", "killed by SIGKILL"),
    ],
)
def test_death_is_an_error_of_the_running_case(deaths: Ran, id_: str, reason: str) -> None:
    assert deaths.cases[id_].outcome is Outcome.ERROR
    assert reason in deaths.cases[id_].message


def test_nothing_is_dropped_after_deaths(deaths: Ran) -> None:
    assert deaths.cases["first[node1]"].outcome is Outcome.PASSED
    assert deaths.cases["last[node1]"].outcome is Outcome.PASSED
    assert len(deaths.cases) == 9
    assert deaths.exit_code == 2
    assert deaths.report.complete


def test_files_of_a_node(deaths: Ran) -> None:
    assert json.loads((deaths.out / "done.json").read_text()) == {
        "exit_code": 2,
        "reason": "",
        "finished": True,
    }
    (suite,) = JUnitXml.fromfile(str(deaths.out / "junit.xml"))
    assert (suite.name, suite.hostname, suite.tests) == ("node1", "node1", 9)
    assert (suite.failures, suite.errors, suite.skipped) == (0, 5, 0)
    for name in ("facts.json", "events.jsonl", "pytest-node.log", "junit.xml", "done.json"):
        assert (deaths.out / name).stat().st_mode & 0o777 == 0o644, name


def test_exits_are_recorded(deaths: Ran) -> None:
    log = events.read(deaths.out / "events.jsonl")
    reasons = [event.reason for event in log.events if isinstance(event, ExitEvent)]
    assert reasons == [
        "killed after 3 s without a result",
        "killed by SIGSEGV",
        "process exited with 7",
        "killed by SIGKILL",
        "",
    ]


def test_children_of_a_dead_check_are_ended(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_child=f"""
        import subprocess
        def check_leaves_a_child():
            child = subprocess.Popen(["sleep", "300"])
            open("{tmp_path}/pid", "w").write(str(child.pid))
            os._exit(1)
        """,
    )
    supervised(tmp_path, checks)
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    assert not state.exists() or ") Z " in state.read_text()
