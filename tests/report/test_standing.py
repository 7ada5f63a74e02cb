"""What stands under the verdict: which nodes are good, bad, or neither, as ``lists`` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.cli import main
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.report import page
from gdrcheck.report.causes import Slots
from gdrcheck.report.standing import BAD, GOOD, MAX_GROUPS, MEANINGS, NEITHER, standing
from gdrcheck.results.data import KINDS, Data, RailData
from gdrcheck.results.summary import NodeSummary, Summary, SummaryFinding
from tests.report.test_page import HOSTILE, Read, data, finding, summary
from tests.results.trees import Merged, port_down, two_nodes


def run(
    count: int, findings: tuple[SummaryFinding, ...] = (), **states: tuple[str, str]
) -> tuple[Summary, Data]:
    """A run of ``node1`` to ``node<count>``, all measured; ``states`` are those not ok."""
    names = [f"node{number}" for number in range(1, count + 1)]
    nodes = {
        name: NodeSummary(state=state, reason=reason, complete=True, troubles=())
        for name in names
        for state, reason in [states.get(name, ("ok", ""))]
    }
    suites = {name: {"passed": ("x",)} for name in names}
    return summary(findings, nodes=nodes), data(count).model_copy(update={"suites": suites})


def test_it_is_what_gdrcheck_lists_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = two_nodes(tmp_path)
    one.case("port_active[node1/rxe1]", Outcome.FAILED, findings=[port_down()])
    Merged(tmp_path)
    text = Read(page.write(tmp_path).read_text()).text
    capsys.readouterr()
    assert main(["lists", str(tmp_path)]) == 0
    counted, *told = capsys.readouterr().out.splitlines()
    assert f"Nodes: {counted.rpartition(': ')[2]}" in text
    reasons = [line.split(": ", 2)[2] for line in told if line.startswith(("bad: ", "neither: "))]
    assert reasons
    assert all(reason.partition(", and ")[0] in text for reason in reasons)


def test_the_bad_stand_first_and_each_node_is_in_one_group() -> None:
    found = (finding(Where(node="node2", nic="mlx5_0")),)
    told = standing(*run(5, found, node4=("unreachable", "no route to host")))
    assert told is not None
    assert (told.good, told.bad, told.neither) == (3, 1, 1)
    assert [(group.state, group.names, group.reason) for group in told.groups] == [
        (BAD, ("node2",), "PORT-NOT-ACTIVE at node2/mlx5_0"),
        (NEITHER, ("node4",), "unreachable: no route to host"),
        (GOOD, ("node[1,3,5]",), ""),
    ]


def test_nodes_that_differ_only_by_name_are_one_group_and_others_are_not() -> None:
    found = (
        *(finding(Where(node=f"node{number}", nic="mlx5_0")) for number in (1, 2, 3, 11)),
        finding(Where(node="node5", nic="mlx5_1")),
    )
    told = standing(*run(12, found))
    assert told is not None
    assert [(group.count, group.names, group.reason) for group in told.groups[:-1]] == [
        (4, ("node[1-3,11]",), "PORT-NOT-ACTIVE at node[1-3,11]/mlx5_0"),
        (1, ("node5",), "PORT-NOT-ACTIVE at node5/mlx5_1"),
    ]


def test_what_has_more_reasons_says_so() -> None:
    found = tuple(
        finding(Where(node=node, nic=nic))
        for node, nic in (("node1", "mlx5_0"), ("node1", "mlx5_1"), ("node2", "mlx5_0"))
    )
    told = standing(*run(3, found))
    assert told is not None
    assert told.groups[0].reason == ("PORT-NOT-ACTIVE at node[1-2]/mlx5_0; and up to 1 more reason")


def test_many_groups_are_cut_and_no_node_is_lost() -> None:
    count = MAX_GROUPS + 5
    found = tuple(
        finding(Where(node=f"node{number}", nic=f"mlx5_{number}")) for number in range(1, count + 1)
    )
    told = standing(*run(count, found))
    assert told is not None
    assert [group.count for group in told.groups] == [1] * MAX_GROUPS + [5]
    assert told.groups[-1].names == (f"node[{MAX_GROUPS + 1}-{count}]",)
    assert "gdrcheck lists" in told.groups[-1].reason


def test_in_check_mode_no_node_is_called_good() -> None:
    made, measured = run(2)
    assert standing(made.model_copy(update={"check_mode": True}), measured) is None
    text = Read(page.render(made.model_copy(update={"check_mode": True}), measured)).text
    assert "2 good" not in text
    assert "node[1-2]" in text


def test_a_reason_is_text() -> None:
    read = Read(page.render(*run(2, node1=("unreachable", HOSTILE))))
    assert f"unreachable: {HOSTILE}" in read.text
    assert not any(tag == "img" for tag, _ in read.elements)


def test_every_count_says_what_it_means() -> None:
    assert MEANINGS.keys() == set(KINDS)
    counts = dict.fromkeys(KINDS, 1)
    read = Read(page.render(summary(counts=counts), data()))
    titles = {at.get("title") for tag, at in read.elements if tag == "li"}
    assert set(MEANINGS.values()) <= titles


@pytest.mark.parametrize(("error", "blocked"), [(276, 252), (1, 0), (0, 1), (0, 0)])
def test_what_was_not_measured_is_a_sum(error: int, blocked: int) -> None:
    counts = dict.fromkeys(KINDS, 0) | {"error": error, "blocked": blocked}
    text = Read(page.render(summary(counts=counts), data())).text
    assert ("not measured: " in text) == bool(error or blocked)
    if error or blocked:
        assert f"not measured: {error} error (" in text
        assert f") + {blocked} blocked (" in text


def test_the_slot_stands_with_the_place() -> None:
    rail = RailData(id=0, gpu="gpu5", nic="mlx5_0", gpu_slot="0000:9b:00.0", nic_slot=None)
    plain = data(2)
    nodes = (plain.nodes[0].model_copy(update={"rails": (rail,)}), plain.nodes[1])
    known = plain.model_copy(update={"nodes": nodes})
    place = Where(node="node1", gpu="gpu5", nic="mlx5_0")
    assert Slots(known).of(place) == [("gpu5", "0000:9b:00.0")]
    assert Slots(known).of(Where(node="node2", gpu="gpu5")) == []
    assert "gpu5 · 0000:9b:00.0" in Read(page.render(summary((finding(place),)), known)).text
