"""What a waiver excuses, and what it leaves unmeasured."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.profile import Waiver
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, NodeTree, port_down, two_nodes


def accepted(code: str, where: str) -> Waiver:
    """The owner accepts findings with this code there."""
    return Waiver(code=code, where=where, reason="known", until=date(2027, 1, 1))


def nodes(root: Path, *waivers: Waiver) -> dict[str, NodeTree]:
    """Two nodes on which everything passed, with these waivers in their profile."""
    trees = two_nodes(root)
    spec = run_spec("node1", "node2", profiles={"soft": profile(waivers=waivers)})
    (root / "run.json").write_text(spec.model_dump_json())
    return {tree.node: tree for tree in trees}


def module_missing(tree: NodeTree, *modules: str) -> None:
    """Modules that must be loaded on the node, and are not."""
    for module in modules:
        finding = Finding(
            code="DRV-MODULE-MISSING",
            where=Where(node=tree.node),
            observed=f"{module} is not loaded",
            expected=f"{module} is loaded",
        )
        id_ = f"module_loaded[{tree.node}, {module}]"
        tree.case(id_, Outcome.FAILED, message=finding.text(), findings=[finding])


@pytest.mark.parametrize(
    ("where", "waived"),
    [
        ("node1, gdrdrv", ["gdrdrv"]),
        ("node*, gdr*", ["gdrdrv"]),
        ("node1, *", ["gdrdrv", "ib_uverbs"]),
        ("node1", []),
        ("*", []),
        ("node2, gdrdrv", []),
        ("node1, rdrv", []),
    ],
)
def test_one_of_several_that_a_node_has_must_be_named(
    tmp_path: Path, where: str, waived: list[str]
) -> None:
    module_missing(
        nodes(tmp_path, accepted("DRV-MODULE-MISSING", where))["node1"], "gdrdrv", "ib_uverbs"
    )
    merged = Merged(tmp_path)
    kinds = {
        name: (merged.result(f"module_loaded[node1, {name}]") or ("",))[0]
        for name in ("gdrdrv", "ib_uverbs")
    }
    assert kinds == {name: "Skipped" if name in waived else "Failure" for name in kinds}
    assert merged.verdict is (Verdict.PASS if len(waived) == 2 else Verdict.FAIL)


def test_what_a_waived_finding_of_the_whole_node_blocks_stays_unmeasured(tmp_path: Path) -> None:
    tree = nodes(tmp_path, accepted("DRV-MODULE-MISSING", "node*, *"))["node1"]
    module_missing(tree, "ib_uverbs")
    blocker = "DRV-MODULE-MISSING at node1"
    for name in ("device_present", "gid_usable"):
        where = Where(node="node1", nic="rxe0")
        tree.case(f"{name}[node1/rxe0]", Outcome.BLOCKED, where=where, blocked_by=blocker)
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert merged.summary.counts["waived"] == 1
    assert {entry.case for entry in merged.summary.unmeasured} == {
        "device_present[node1/rxe0]",
        "gid_usable[node1/rxe0]",
    }


@pytest.mark.parametrize("where", ["node1", "node*", "*"])
def test_rails_that_nothing_tells_apart_stay_unmeasured(tmp_path: Path, where: str) -> None:
    tree = nodes(tmp_path, accepted("PORT-DEVICE-EXTRA", where))["node1"]
    finding = Finding(
        code="PORT-DEVICE-EXTRA", where=Where(node="node1"), observed="2", expected="1"
    )
    tree.case("no_extra_device[node1]", Outcome.FAILED, message="2", findings=[finding])
    tree.case(
        "device_present[node1/rxe0]",
        Outcome.BLOCKED,
        where=Where(node="node1", nic="rxe0"),
        blocked_by="PORT-DEVICE-EXTRA at node1",
    )
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert merged.result("no_extra_device[node1]") == (
        "Skipped",
        "waived until 2027-01-01: known (2)",
    )


@pytest.mark.parametrize(
    ("where", "blocker", "place", "verdict"),
    [
        ("node1/rxe0", "PORT-NOT-ACTIVE at node1/rxe0", "node1/rxe0", Verdict.PASS),
        ("node1/*", "PORT-NOT-ACTIVE at node1/rxe0", "node1/rxe0", Verdict.PASS),
        # Another NIC of which nobody said that it need not be measured, or of which somebody did.
        ("node1/rxe0", "PORT-NOT-ACTIVE at node1/rxe0", "node1/rxe1", Verdict.INCOMPLETE),
        ("node1/*", "PORT-NOT-ACTIVE at node1/rxe0", "node1/rxe1", Verdict.PASS),
        # What concerns the node as a whole.
        ("*", "PORT-NOT-ACTIVE at node1/rxe0", "node1", Verdict.INCOMPLETE),
        ("*", "PORT-NOT-ACTIVE at node1/rxe1", "node1/rxe1", Verdict.INCOMPLETE),
        ("*", "PORT-NOT-ACTIVE at node1/rxe0", "node2/rxe0", Verdict.INCOMPLETE),
    ],
)
def test_what_a_waived_finding_of_a_nic_blocks_there_is_waived_too(
    tmp_path: Path, where: str, blocker: str, place: str, verdict: Verdict
) -> None:
    trees = nodes(tmp_path, accepted("PORT-NOT-ACTIVE", where))
    trees["node1"].case("bad[node1/rxe0]", Outcome.FAILED, findings=[port_down()])
    node, _, nic = place.partition("/")
    trees[node].case(
        f"rate[{place}]",
        Outcome.BLOCKED,
        message="blocked",
        where=Where(node=node, nic=nic or None),
        blocked_by=blocker,
    )
    merged = Merged(tmp_path)
    assert merged.verdict is verdict
    if verdict is Verdict.PASS:
        expected = ("Skipped", "waived until 2027-01-01: known (blocked)")
        assert merged.result(f"rate[{place}]") == expected
        assert merged.summary.counts["waived"] == 2
        assert merged.summary.unmeasured == ()


@pytest.mark.parametrize(
    ("source", "sink", "verdict"),
    [
        ("node1/rxe0", "node2/rxe0", Verdict.PASS),
        ("node2/rxe0", "node1/rxe0", Verdict.PASS),
        ("node1/gpu0/rxe0", "node2/rxe0", Verdict.PASS),
        ("node1/rxe1", "node2/rxe1", Verdict.INCOMPLETE),
    ],
)
def test_pairs_with_the_waived_nic_at_either_end_are_waived_too(
    tmp_path: Path, source: str, sink: str, verdict: Verdict
) -> None:
    tree = nodes(tmp_path, accepted("PORT-NOT-ACTIVE", "node1/rxe0"))["node1"]
    tree.case("bad[node1/rxe0]", Outcome.FAILED, findings=[port_down()])
    blocker = "PORT-NOT-ACTIVE at node1/rxe0"
    tree.pair(source, sink, Outcome.BLOCKED, operation="TIMED", blocked_by=blocker)
    assert Merged(tmp_path).verdict is verdict


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("gpu0", "gpu1", Verdict.PASS),
        ("gpu1", "gpu2", Verdict.PASS),
        ("gpu0", "gpu2", Verdict.INCOMPLETE),
    ],
)
def test_two_gpus_of_which_one_is_waived_are_waived_too(
    tmp_path: Path, one: str, other: str, verdict: Verdict
) -> None:
    tree = nodes(tmp_path, accepted("GPU-LOST", "node1/gpu1"))["node1"]
    lost = Finding(
        code="GPU-LOST", where=Where(node="node1", gpu="gpu1"), observed="gone", expected="there"
    )
    tree.case("gpu_answers[node1/gpu1]", Outcome.FAILED, where=lost.where, findings=[lost])
    tree.case(
        f"gpu_peers[node1/{one} -> node1/{other}]",
        Outcome.BLOCKED,
        where=Where(node="node1", gpu=one, peer=f"node1/{other}"),
        blocked_by="GPU-LOST at node1/gpu1",
    )
    assert Merged(tmp_path).verdict is verdict


def test_a_waiver_of_one_of_two_equal_findings_excuses_nothing_that_both_block(
    tmp_path: Path,
) -> None:
    tree = nodes(tmp_path, accepted("PORT-NOT-ACTIVE", "node1/rxe0, host"))["node1"]
    place = Where(node="node1", nic="rxe0")
    tree.case("a[node1/rxe0, host]", Outcome.FAILED, where=place, findings=[port_down()])
    tree.case("a[node1/rxe0, other]", Outcome.FAILED, where=place, findings=[port_down()])
    blocker = "PORT-NOT-ACTIVE at node1/rxe0"
    tree.case("b[node1/rxe0]", Outcome.BLOCKED, where=place, blocked_by=blocker)
    merged = Merged(tmp_path)
    assert merged.summary.counts["waived"] == 1
    assert (merged.result("b[node1/rxe0]") or ("",))[0] == "Error"
