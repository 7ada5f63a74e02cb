"""The pair phase of a supervised run: rendezvous, serving, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdrcheck.outcome import Outcome, PeerError
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.run import Deadlines, NodeSpec
from tests.node.support import (
    Agreed,
    FakeMeeting,
    profile,
    run_spec,
    short_waits,
    supervised,
    write_checks,
)


def test_rails_are_told_with_what_blocks_them(tmp_path: Path) -> None:
    meetings: list[FakeMeeting] = []

    def meet(*args: object, **kwargs: object) -> FakeMeeting:
        meetings.append(FakeMeeting(*args, **kwargs))  # type: ignore[arg-type]
        return meetings[-1]

    checks = write_checks(
        tmp_path, node_a="def check_a(): pass", pair_data="def check_data(): pass"
    )
    spec = run_spec("node1", "node2", waits=short_waits())
    ran = supervised(tmp_path, checks, spec=spec, meet=meet)
    (rail,) = meetings[0].told
    assert rail.blocked_by == (
        "no RDMA device for rail 0: 0 devices match, and 1 rails are promised"
    )
    assert ran.cases["data[node1]"].suite == "pairs"
    assert ran.exit_code == 0


def test_nodes_that_owe_no_pairs_are_not_waited_for(tmp_path: Path) -> None:
    meetings: list[FakeMeeting] = []

    def meet(*args: object, **kwargs: object) -> FakeMeeting:
        meetings.append(FakeMeeting(*args, **kwargs))  # type: ignore[arg-type]
        return meetings[-1]

    nodes = tuple(
        NodeSpec(name=name, address="127.0.0.1", profile=profile_name)
        for name, profile_name in (("node1", "pairs"), ("node2", "none"), ("node3", "pairs"))
    )
    profiles = {"pairs": profile(), "none": profile(pairs="none")}
    checks = write_checks(tmp_path, node_a="def check_a(): pass", pair_b="def check_b(): pass")
    spec = run_spec(nodes=nodes, profiles=profiles, waits=short_waits())
    supervised(tmp_path, checks, spec=spec, meet=meet)
    assert [meeting.present for meeting in meetings] == [("node1", "node3")]


def test_a_node_that_owes_no_pairs_has_no_pair_phase(tmp_path: Path) -> None:
    nodes = tuple(
        NodeSpec(name=name, address="127.0.0.1", profile=name)
        for name in ("node1", "node2", "node3")
    )
    profiles = {"node1": profile(pairs="none"), "node2": profile(), "node3": profile()}
    checks = write_checks(tmp_path, node_a="def check_a(): pass", pair_b="def check_b(): pass")
    spec = run_spec(nodes=nodes, profiles=profiles, waits=short_waits())
    ran = supervised(tmp_path, checks, spec=spec)
    assert set(ran.cases) == {"a[node1]"}
    assert ran.exit_code == 0


def test_failed_rendezvous_is_an_error_and_no_pair_runs(tmp_path: Path) -> None:
    class Lonely(FakeMeeting):
        def ready(self, rails: Sequence[RailInfo]) -> Agreed:  # noqa: ARG002
            raise PeerError("nobody came", side="node2", step="rendezvous")

    checks = write_checks(tmp_path, node_a="def check_a(): pass", pair_b="def check_b(): pass")
    spec = run_spec("node1", "node2", waits=short_waits())
    ran = supervised(tmp_path, checks, spec=spec, meet=Lonely)
    assert "nobody came" in ran.cases["rendezvous_completed[node1]"].message
    assert set(ran.cases) == {"a[node1]", "rendezvous_completed[node1]"}
    assert ran.exit_code == 2


SERVING = """
import time
import pytest
from pathlib import Path
from gdrcheck.steps import step

@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    result = yield
    for number in range(12):
        with step(f"serve round {number}"):
            time.sleep(0.25)
    Path(__file__).with_name("served").touch()
    return result
"""


def test_serving_after_the_last_case_is_not_a_hang(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_a="def check_a(): pass")
    (checks / "pair" / "conftest.py").write_text(SERVING)
    waits = Deadlines(
        completion_s=0.1, connect_s=0.2, check_s=0.8, rail_s=0.9, rendezvous_s=1, phase_s=60
    )
    # The pair phase's limit is 2 s here; serving takes longer, with a step every quarter.
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=waits))
    assert (checks / "pair" / "served").exists()
    assert "pair_phase_completed[node1]" not in ran.cases


def test_a_node_whose_last_pair_case_dies_serves_the_others_all_the_same(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path, node_a="def check_a(): pass", pair_b="def check_b(): os._exit(3)"
    )
    (checks / "pair" / "conftest.py").write_text(SERVING)
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=short_waits()))
    assert ran.cases["b[node1]"].outcome is Outcome.ERROR
    assert (checks / "pair" / "served").exists()
    assert set(ran.cases) == {"a[node1]", "b[node1]"}


def test_a_phase_that_cannot_begin_says_why(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_a="def check_a(): pass", pair_b="def check_b(): pass")
    (checks / "pair" / "conftest.py").write_text(
        "def pytest_runtestloop(session): raise OSError('port 18600 is taken')"
    )
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=short_waits()))
    assert ran.cases["b[node1]"].message == "not run: process exited with 3"
    assert "port 18600 is taken" in ran.cases["pair_phase_completed[node1]"].message


def test_a_node_that_owns_no_pair_has_no_error_of_it(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_a="def check_a(): pass",
        pair_b="""
        @pytest.mark.parametrize("pair", [])
        def check_b(pair): pass
        """,
    )
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=short_waits()))
    assert set(ran.cases) == {"a[node1]"}
    assert ran.exit_code == 0


NODE_CASE = """
@pytest.mark.node_case("ports")
def check_counters(): pass
"""


def test_a_case_of_the_node_in_the_pair_phase_is_no_pair_and_survives_a_dead_worker(
    tmp_path: Path,
) -> None:
    checks = write_checks(
        tmp_path,
        node_a="def check_a(): pass",
        pair_b="def check_b(): os._exit(3)",
        pair_c=NODE_CASE,
    )
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=short_waits()))
    case = ran.cases["counters[node1]"]
    assert (case.suite, case.classname) == ("node1", "node1.ports")
    assert case.outcome is Outcome.PASSED
    assert ran.cases["b[node1]"].suite == "pairs"


def test_a_case_of_the_node_that_never_ran_is_an_error_in_its_own_suite(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_a="def check_a(): pass", pair_c=NODE_CASE)
    (checks / "pair" / "conftest.py").write_text(
        "def pytest_runtestloop(session): raise OSError('port 18600 is taken')"
    )
    ran = supervised(tmp_path, checks, spec=run_spec("node1", "node2", waits=short_waits()))
    case = ran.cases["counters[node1]"]
    assert (case.suite, case.outcome) == ("node1", Outcome.ERROR)
    assert case.message == "not run: process exited with 3"
