"""A wide run from its nodes' checks to the merge: it says what one in ordinary records says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.outcome import Verdict
from gdrcheck.results.merge import merge
from gdrcheck.results.summary import Summary
from tests.node.pair_troubles import Trouble
from tests.node.wide_machine import ALWAYS, NEVER, NODES, run_pairs_of, wide_spec
from tests.results.trees import NodeTree, fill, write_run

TROUBLES = {
    "none": {},
    "several": {
        "node1": [Trouble("node3", "hang", 1), Trouble("node2", "slow")],
        "node2": [Trouble("node4", "wrong data"), Trouble("node3", "no answer", 1)],
    },
}


def merged(root: Path, wide_bytes: int, troubles: dict[str, list[Trouble]]) -> Summary:
    """The summary of a run in which each node ran the checks of its pairs."""
    write_run(root, wide_spec())
    for node in NODES:
        tree = NodeTree(root, node)
        run_pairs_of(node, tree.directory, wide_bytes, *troubles.get(node, ()), case_s=15)
    fill(root)
    return merge(root, None)


@pytest.mark.parametrize("name", TROUBLES)
def test_the_merge_says_the_same(name: str, tmp_path: Path) -> None:
    ordinary = merged(tmp_path / "ordinary", NEVER, TROUBLES[name])
    wide = merged(tmp_path / "wide", ALWAYS, TROUBLES[name])
    assert (wide.verdict, wide.reasons) == (ordinary.verdict, ordinary.reasons)
    assert wide.counts == ordinary.counts
    assert wide.findings == ordinary.findings
    assert {(one.place, one.reason) for one in wide.suspects} == {
        (one.place, one.reason) for one in ordinary.suspects
    }
    assert all(one.complete for one in wide.nodes.values())
    assert wide.counts["passed"] > 6 * 80
    assert (wide.verdict is Verdict.FAIL) is (name == "several")
