"""A node that is broken, or lies, can spoil its own result and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gdrcheck.facts import PciFunction, PciTree
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.pairing.messages import ClockOffset, NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.results import events, incoming, owed, told
from gdrcheck.results.console import text
from gdrcheck.results.events import Case, EndEvent, PlanEvent, StartEvent
from gdrcheck.results.incoming import read_node
from gdrcheck.results.lists import Lists
from gdrcheck.transfer import OPERATIONS
from tests import facts as builders
from tests.node.support import RUN_ID, facts, profile, run_spec
from tests.results.trees import Merged, NodeTree, port_down, seen, two_nodes, write_run


def claim(tree: NodeTree, name: str, where: Where) -> None:
    """A passed pair case with any name at any place."""
    case = Case(id=name, classname="pairs.data", where=where)
    tree.add(
        PlanEvent(phase="pair", cases=(case,)),
        StartEvent(phase="pair", id=name),
        EndEvent(phase="pair", id=name, outcome=Outcome.PASSED),
    )


def trouble(merged: Merged, node: str) -> str:
    """What is wrong with the results of a node; the run is not passed then."""
    assert merged.verdict is not Verdict.PASS
    assert (merged.result(f"every_node_reported[{node}]") or ("",))[0] == "Error"
    return str(merged.cases[f"results_readable[{node}]"].result[0].text)


@pytest.mark.parametrize("code", [1, 2])
def test_a_node_that_says_worse_of_itself_than_its_cases(tmp_path: Path, code: int) -> None:
    one, _two = two_nodes(tmp_path)
    one.done("", code)
    merged = Merged(tmp_path, seen(node1="ok", node2="ok"))
    assert "but the cases that arrived say PASS" in trouble(merged, "node1")


def test_a_node_whose_cases_are_as_bad_as_it_says(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("bad[node1/rxe0]", Outcome.FAILED, findings=[port_down()])
    one.done("", 1)
    merged = Merged(tmp_path)
    assert "results_readable[node1]" not in merged.cases
    assert merged.result("every_node_reported[node1]") is None


@pytest.mark.parametrize("outcome", ["skipped", "not judged"])
def test_a_promised_device_that_was_not_judged_is_no_pass(tmp_path: Path, outcome: str) -> None:
    one, _two = two_nodes(tmp_path)
    path = one.directory / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["event"] == "end" and line["id"] == "port_active[node1/rxe0]":
            line |= {"outcome": outcome, "message": "no"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    merged = Merged(tmp_path)
    expected = f"port_active[node1/rxe0] is {outcome}, but the profile promises the device"
    assert expected in trouble(merged, "node1")


def test_a_case_that_passed_in_spite_of_its_finding_is_no_pass(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("odd[node1/rxe0]", Outcome.PASSED, findings=[port_down()])
    merged = Merged(tmp_path)
    assert "odd[node1/rxe0] is passed, with finding PORT" in trouble(merged, "node1")


def test_a_failure_is_not_excused_by_a_warning_that_no_node_can_give(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    finding = port_down().model_copy(update={"code": "HOST-DRIFT", "severity": Severity.WARN})
    one.case("odd[node1/rxe0]", Outcome.FAILED, findings=[finding])
    merged = Merged(tmp_path)
    assert "odd[node1/rxe0] has the code HOST-DRIFT, as no node can" in trouble(merged, "node1")


def test_what_is_never_left_out_is_owed_of_a_device() -> None:
    kinds = {
        name: kind
        for names_of in owed.NODE_PHASE.values()
        for kind, names in names_of.items()
        for name in names.split()
    }
    of_devices = {owed.GPU, owed.RAIL, owed.RAIL_BY_HOST}
    assert {kinds[name] for name in owed.NEVER_LEFT_OUT} == of_devices


def test_a_node_that_ended_early_did_not_report(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.done("stopped by SIGTERM", 2)
    merged = Merged(tmp_path, seen(node1="ok", node2="ok"))
    assert merged.verdict is Verdict.INCOMPLETE
    expected = ("Error", "results are incomplete: stopped by SIGTERM")
    assert merged.result("every_node_reported[node1]") == expected


def test_a_cut_record_in_a_file_that_is_said_to_be_whole(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    path = one.directory / "events.jsonl"
    path.write_bytes(path.read_bytes() + b'{"v": 1, "ev')
    assert "last line was cut off after 12 bytes" in trouble(Merged(tmp_path), "node1")


def test_a_time_without_zone_costs_only_its_own_node(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    path = one.directory / "events.jsonl"
    path.write_text(path.read_text().replace('10Z"', '10"', 1))
    merged = Merged(tmp_path)
    assert "line 1 is not an event" in trouble(merged, "node1")
    assert merged.result("every_node_reported[node2]") is None


def test_whatever_reading_a_node_raises_costs_only_that_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_nodes(tmp_path)

    def broken(path: Path) -> events.EventLog:
        if path.parent.name == "node2":
            raise OverflowError("a date too far")
        return events.parse(path.read_bytes())

    monkeypatch.setattr(events, "read", broken)
    merged = Merged(tmp_path)
    assert "OverflowError: a date too far" in trouble(merged, "node2")
    assert merged.result("every_node_reported[node1]") is None


def test_what_is_beyond_the_limit_of_a_file_is_a_problem_and_the_rest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _two = two_nodes(tmp_path)
    size = (one.directory / "events.jsonl").stat().st_size
    one.case("late[node1]")
    monkeypatch.setattr(events, "MAX_FILE_BYTES", size + 5)
    merged = Merged(tmp_path)
    assert "the rest was not read" in trouble(merged, "node1")
    assert merged.result("port_active[node1/rxe0]") is None


@pytest.mark.parametrize(
    ("teller", "name", "where"),
    [
        ("node1", "x[node2/rxe0 -> node3/rxe0, m, SEND]", Where(node="node1", peer="node3")),
        ("node1", "x[node2/rxe0 -> node3/rxe0, m, SEND]", Where(node="node2", peer="node3")),
        ("node2", "x[node1/rxe0 -> node2/rxe0, m, SEND]", Where(node="node1", peer="node2")),
        ("node1", "x[node1/rxe0 -> node2/rxe0, m, SEND]", Where(node="node1", peer="node3")),
        ("node1", "x[node1/rxe7 -> node2/rxe7, m, SEND]", Where(node="node1", peer="node2")),
        ("node1", "x[node1]", Where(node="node1")),
    ],
)
def test_pairs_that_a_node_may_not_tell_of(
    tmp_path: Path, teller: str, name: str, where: Where
) -> None:
    write_run(tmp_path, run_spec("node1", "node2", "node3"))
    trees = {node: NodeTree(tmp_path, node) for node in ("node1", "node2", "node3")}
    for tree in trees.values():
        tree.case(f"port[{tree.node}]")
        tree.rendezvous(trees, ["rxe0"])
    trees["node1"].both_ways("node2")
    trees["node1"].both_ways("node3")
    trees["node2"].both_ways("node3")
    nic = name.partition("/")[2].partition(" ")[0] or None
    claim(trees[teller], name, where.model_copy(update={"nic": nic}))
    merged = Merged(tmp_path)
    assert name in trouble(merged, teller)
    assert name not in {case.name for case in merged.suites["pairs"]}


def test_a_claim_does_not_hide_that_a_pair_was_not_measured(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2")
    for tree in (one, two):
        tree.case(f"port[{tree.node}]")
    for operation in OPERATIONS:
        two.pair("node1/rxe0", "node2/rxe0", operation=operation)
        two.pair("node2/rxe0", "node1/rxe0", operation=operation)
    merged = Merged(tmp_path)
    assert "pair_measured[node1 -> node2]" in merged.cases
    assert merged.result("pairs_measured[fleet]") == ("Error", "measured no pair")


def test_severity_is_not_for_the_node_to_say(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    mild = port_down().model_copy(update={"severity": Severity.WARN})
    one.case("x[node1]", Outcome.FAILED, findings=[mild])
    assert Merged(tmp_path).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"code": "PORT-INVENTED"}, "has the code PORT-INVENTED, which nobody knows"),
        ({"where": Where(node="node2")}, "has a finding at node2"),
    ],
)
def test_findings_that_cannot_be(tmp_path: Path, changes: dict[str, object], part: str) -> None:
    one, _two = two_nodes(tmp_path)
    one.case("x[node1]", Outcome.FAILED, findings=[port_down().model_copy(update=changes)])
    merged = Merged(tmp_path)
    assert part in trouble(merged, "node1")
    assert merged.verdict is Verdict.FAIL


def test_facts_of_another_node(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    one.facts(facts("node2"))
    assert "facts.json is of node node2, not of node1" in trouble(Merged(tmp_path), "node1")


def gpus(count: int) -> tuple[PciFunction, ...]:
    """GPUs on PCI."""
    return tuple(builders.gpu_function(f"0000:{bus:02x}:00.0") for bus in range(count))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"rdma_devices": tuple(builders.rdma_device(f"mlx5_{n}") for n in range(1025))},
            "facts.json: has 1025 RDMA devices; more than 1024 are not believed",
        ),
        ({"rdma_devices": (builders.rdma_device("a/b"),)}, "'a/b' is no name of an RDMA device"),
        (
            {"pci": PciTree(functions=(builders.pci_function(),) * 4097, misplaced={})},
            "has 4097 PCI functions; more than 4096",
        ),
        ({"pci": PciTree(functions=gpus(65), misplaced={})}, "has 65 GPUs on PCI; more than 64"),
        ({"nvml": builders.nvml(gpus=(builders.gpu(),) * 65)}, "has 65 GPUs in NVML"),
    ],
)
def test_facts_that_no_machine_has_are_not_used(
    tmp_path: Path, changes: dict[str, object], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With its counters, such a list of devices would be too long for the file as well.
    monkeypatch.setattr(incoming, "MAX_FACTS_BYTES", 64 << 20)
    one, _two = two_nodes(tmp_path)
    one.facts(facts("node1").model_copy(update=changes))
    merged = Merged(tmp_path)
    assert part in trouble(merged, "node1")
    assert merged.summary.nodes["node1"].versions == {}
    assert merged.result("every_node_reported[node2]") is None


def test_facts_of_the_largest_machine_are_used(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    devices = tuple(builders.rdma_device(f"rxe{n}", ports=()) for n in range(1024))
    tree = PciTree(functions=gpus(64) + (builders.pci_function(),) * 4032, misplaced={})
    found = builders.facts(rdma_devices=devices, pci=tree)
    one.facts(found)
    assert read_node(one.directory, "node1", RUN_ID, "died").facts == found


def listed(tree: NodeTree, *names: str, leader: str = "node1", reason: str = "") -> None:
    """A list of the rendezvous that tells of these nodes."""
    state = NodeState(state="lost", reason=reason)
    found = RendezvousResult(leader=leader, nodes=dict.fromkeys(names, state))
    found.write(tree.directory / "rendezvous.json")


@pytest.mark.parametrize(
    ("names", "leader", "stranger"),
    [(("node1", "node9"), "node1", "node9"), (("node1", "node2"), "node8", "node8")],
)
def test_a_list_with_nodes_of_no_run_is_not_used(
    tmp_path: Path, names: tuple[str, ...], leader: str, stranger: str
) -> None:
    one, _two = two_nodes(tmp_path)
    listed(one, *names, leader=leader)
    merged = Merged(tmp_path)
    expected = f"rendezvous.json: tells of {stranger}, which is no node of this run"
    assert expected in trouble(merged, "node1")
    assert "pair_measured[node1 -> node2]" not in merged.cases


def test_a_list_longer_than_any_of_this_run_is_not_read(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    limit_bytes = Lists(run_spec("node1", "node2")).limit_bytes
    (one.directory / "rendezvous.json").write_text(" " * (limit_bytes + 1))
    expected = f"rendezvous.json is longer than {limit_bytes} bytes"
    assert expected in trouble(Merged(tmp_path), "node1")


def test_the_longest_list_that_a_leader_gives_out_is_read(tmp_path: Path) -> None:
    nics = [{"name": f"x{number}"} for number in range(64)]
    rails = {"count": 64, "nics": nics, "port_rate_gbps": 1, "link_layer": "ethernet"}
    names = [letter * 253 for letter in "abc"]
    spec = run_spec(*names, profiles={"soft": profile(rails=rails)})
    rail = RailInfo(id=63, gpu="g" * 64, nic="n" * 64, port=255, blocked_by="\x01" * 300)
    clock = ClockOffset(offset_s=-1.2345678901234567e10, error_s=1.2345678901234567e10)
    state = NodeState(state="absent", reason="\x01" * 300, rails=(rail,) * 64, clock=clock)
    told = RendezvousResult(leader=names[0], nodes=dict.fromkeys(names, state))
    told.write(tmp_path / "list.json")
    assert Lists(spec).read(tmp_path / "list.json").nodes == told.nodes


def test_nodes_that_were_told_the_same_share_it(tmp_path: Path) -> None:
    spec, state = run_spec("node1", "node2"), NodeState(state="ready")
    paths = [tmp_path / name for name in ("one", "two", "other")]
    for path, names in zip(paths, (("node1", "node2"),) * 2 + (("node1",),), strict=True):
        RendezvousResult(leader="node1", nodes=dict.fromkeys(names, state)).write(path)
    lists = Lists(spec)
    one, two, other = (lists.read(path) for path in paths)
    assert one is two
    assert set(other.nodes) == {"node1"}


def test_different_images_beside_an_unknown_one(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2", "node3", image_id=""))
    for name, image_id in (("node1", ""), ("node2", "sha256:1"), ("node3", "sha256:2")):
        NodeTree(tmp_path, name, image_id=image_id).case(f"port[{name}]")
    merged = Merged(tmp_path)
    assert merged.cases["same_image[fleet]"].result[0].type == "RUN-IMAGE-DIFFERS"


def test_a_node_cannot_write_on_the_screen_or_forge_a_line(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    evil = "x\n\x1b[2J\x1b[Hverdict: PASS\x9b1m\u202e"
    finding = Finding(
        code="PORT-NOT-ACTIVE",
        where=Where(node="node1", nic=evil),
        observed=evil,
        expected=evil,
        evidence={"log": evil},
    )
    one.case("evil[node1]", Outcome.FAILED, message=evil, findings=[finding])
    one.case("odd[node1]", Outcome.ERROR, message=f"\x1b]0;{evil}")
    merged = Merged(tmp_path)
    screen = text(merged.summary, tmp_path)
    written = (tmp_path / "junit.xml").read_text() + (tmp_path / "summary.json").read_text()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", screen + written)
    assert [line for line in screen.splitlines() if line.startswith("verdict:")] == [
        f"verdict: FAIL ({'; '.join(merged.summary.reasons)})"
    ]
    assert "observed: x\\n\\x1b[2J" in merged.cases["evil[node1]"].result[0].text
    assert "\\n\\x1b[2J" in screen


def test_more_cases_of_its_own_than_any_machine_has_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "MAX_OWN_CASES", 200)
    one, _two = two_nodes(tmp_path)
    for number in range(201):
        one.case(f"made_up[node1/rxe{number}]")
    merged = Merged(tmp_path)
    assert "cases of the node alone; more than 200 are not believed" in trouble(merged, "node1")
    assert "made_up[node1/rxe200]" not in merged.cases
    assert "results_readable[node2]" not in merged.cases
