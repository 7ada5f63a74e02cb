"""What each node owes: every case of the checks, by its own profile and its own facts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdrcheck import probes
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.node.process import PACKAGE_ROOT, CheckProcess, pytest_argv
from gdrcheck.node.supervisor import LOOKING_BACK
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.pairing.items import promises_gpus
from gdrcheck.profile import Profile
from gdrcheck.results import events
from gdrcheck.results.console import text
from gdrcheck.results.events import PlanEvent
from gdrcheck.results.owed import GPU, PAIR_PHASE, RAIL, owed_cases
from gdrcheck.results.plugin import NODE_CASE
from tests import facts as builders
from tests.captured.machines import MACHINES
from tests.node.support import facts, profile, run_spec
from tests.results.trees import Merged, NodeTree, fill, two_nodes, write_run

CHECKS = PACKAGE_ROOT / "checks"
COLLECT_S = 60
NO_SUCH_CASE = ("Error", "the node reported no such case")
MUCH = builders.profile(
    gpus={"count": 2, "model": "NVIDIA H200"},
    rails={"count": 2, "nics": [{"name": "mlx5_*"}]},
    registration="peermem",
    expect={"modules": ["gdrdrv"]},
)


def planned(promises: Profile, found: Facts, out: Path) -> set[tuple[str, str, str]]:
    """Name, class and place of the cases that a node without pairs is about to run."""
    spec = run_spec(profiles={"soft": promises})
    (out / "facts.json").write_text(found.model_dump_json())
    (out / "run.json").write_text(spec.model_dump_json())
    collect("node", "", out)
    if promises_gpus(promises):
        collect("pair", LOOKING_BACK, out)
    plans = [one for one in events.read(out / "events.jsonl").events if isinstance(one, PlanEvent)]
    cases = [case for plan in plans for case in plan.cases]
    return {(case.id, case.classname, case.where.text()) for case in cases}


def collect(phase: str, file: str, out: Path) -> None:
    """Have the checks of a phase, or those in ``file``, planned."""
    options = [
        *("-p", "tests.results.without_pyverbs", "--collect-only"),
        *("--gdrcheck-node=node1", f"--gdrcheck-phase={phase}"),
        f"--gdrcheck-run={out / 'run.json'}",
        f"--gdrcheck-events={out / 'events.jsonl'}",
        f"--gdrcheck-out={out}",
    ]
    argv, log = pytest_argv(CHECKS, phase, options, file), out / "pytest.log"
    with CheckProcess(argv, log, cwd=PACKAGE_ROOT) as process:
        assert process.wait(COLLECT_S) == 0, log.read_text()


def a_rail() -> Facts:
    """A machine with one Soft-RoCE device."""
    return builders.facts(rdma_devices=(builders.rdma_device("rxe0"),))


@pytest.mark.parametrize(
    ("promises", "found"),
    [(profile(), a_rail()), (profile(), facts()), (Profile(), a_rail()), (MUCH, builders.facts())],
    ids=["a rail", "its device missing", "nothing promised", "more promised than there"],
)
def test_a_node_owes_what_the_checks_plan(promises: Profile, found: Facts, tmp_path: Path) -> None:
    spec = run_spec(profiles={"soft": promises})
    owed = {(one.id, one.classname, one.where.text()) for one in owed_cases(spec, "node1", found)}
    assert owed == planned(promises, found, tmp_path)


def test_the_rails_of_a_whole_machine_are_owed_by_the_names_of_the_checks(tmp_path: Path) -> None:
    machine = MACHINES["dgx"]()
    found = probes.collect("node1", machine.write(tmp_path / "root"))
    spec = run_spec(profiles={"soft": machine.profile})
    owed = {(one.id, one.classname, one.where.text()) for one in owed_cases(spec, "node1", found)}
    assert owed == planned(machine.profile, found, tmp_path)


def test_the_pair_phase_owes_the_checks_that_judge_the_node() -> None:
    marked = re.compile(
        rf'^@pytest\.mark\.{NODE_CASE}\("(\w+)"\)\ndef check_(\w+)\(\s*(\w+):', re.MULTILINE
    )
    subjects = {"active_rail": RAIL, "gpu": GPU}
    found = {
        area: {subjects[subject]: name}
        for path in sorted((CHECKS / "pair").glob("check_*.py"))
        for area, name, subject in marked.findall(path.read_text())
    }
    assert found == PAIR_PHASE


def test_a_node_that_reports_a_part_of_its_cases_does_not_pass(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2")
    for tree in (one, two):
        tree.facts(builders.facts(node=tree.node, rdma_devices=(builders.rdma_device("rxe0"),)))
        tree.case(f"os[{tree.node}]")
    one.both_ways("node2")
    merged = Merged(tmp_path, whole=False)
    assert merged.verdict is Verdict.INCOMPLETE
    for node in ("node1", "node2"):
        for name in (
            f"device_present[{node}/rxe0]",
            f"host_memory_registers[{node}/rxe0, host]",
            f"port_counters[{node}/rxe0]",
            f"module_loaded[{node}, ib_uverbs]",
            f"kernel[{node}]",
        ):
            assert merged.result(name) == NO_SUCH_CASE
        assert merged.result(f"os[{node}]") is None
    assert "the node reported no such case" in text(merged.summary, tmp_path)


@pytest.mark.parametrize("name", ["gid_usable[node1/rail0]", "port_counters[node1/rail0]"])
def test_each_single_case_is_missed(tmp_path: Path, name: str) -> None:
    two_nodes(tmp_path)
    fill(tmp_path)
    path = tmp_path / "nodes/node1/events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    renamed = "".join(lines).replace(f'"{name}"', '"other[node1]"')
    assert renamed != "".join(lines)
    path.write_text(renamed)
    merged = Merged(tmp_path, whole=False)
    assert merged.verdict is Verdict.INCOMPLETE
    assert [entry.case for entry in merged.summary.unmeasured] == [name]
    assert merged.result(name) == NO_SUCH_CASE


@pytest.mark.parametrize("nodes", [("node1",), ("node1", "node2")])
def test_without_a_pair_phase_no_counters_are_owed(nodes: tuple[str, ...]) -> None:
    promises = profile(pairs="none") if len(nodes) > 1 else profile()
    spec = run_spec(*nodes, profiles={"soft": promises})
    names = [one.id for one in owed_cases(spec, "node1", a_rail())]
    assert "port_active[node1/rxe0]" in names
    assert not [name for name in names if name.startswith("port_counters")]


def test_a_node_without_pairs_owes_a_look_back_at_its_gpus(tmp_path: Path) -> None:
    name = "gpu_errors_grew[node1/gpu0]"
    promises = profile(gpus={"count": 1, "model": "NVIDIA H200"}, pairs="none")
    write_run(tmp_path, run_spec("node1", profiles={"soft": promises}))
    tree = NodeTree(tmp_path, "node1")
    tree.case("os[node1]")
    fill(tmp_path)
    path = tree.directory / "events.jsonl"
    path.write_text(path.read_text().replace(f'"{name}"', '"other[node1]"'))
    merged = Merged(tmp_path, whole=False)
    assert merged.verdict is Verdict.INCOMPLETE
    assert [entry.case for entry in merged.summary.unmeasured] == [name]
    assert merged.result(name) == NO_SUCH_CASE


def test_what_a_node_did_not_come_to_is_blocked_by_the_reason(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    fill(tmp_path)
    path = one.directory / "events.jsonl"
    path.write_text(path.read_text().replace("port_counters[node1/rail0]", "other[node1]"))
    one.case("rendezvous_completed[node1]", Outcome.ERROR, message="nobody came\nmore")
    merged = Merged(tmp_path, whole=False)
    kind, message = merged.result("port_counters[node1/rail0]") or ("", "")
    assert (kind, message) == ("Error", "blocked by rendezvous_completed[node1]: nobody came")
    assert two.node == "node2"


def test_a_node_that_died_owes_the_rest(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.died()
    merged = Merged(tmp_path)
    kind, message = merged.result("os[node1]") or ("", "")
    assert kind == "Error"
    assert message.startswith("blocked by every_node_reported[node1]: node1: results are incomple")
    assert merged.cases["os[node1]"].classname == "node1.host"


def test_a_node_that_sent_nothing_is_one_case(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    merged = Merged(tmp_path)
    assert [case.name for case in merged.suites["node1"]] == ["node_reported[node1]"]


def test_a_case_is_owed_at_its_own_place() -> None:
    places = {one.id: one.where for one in owed_cases(run_spec(), "node1", a_rail())}
    assert places["port_rate[node1/rxe0]"] == Where(node="node1", nic="rxe0")
