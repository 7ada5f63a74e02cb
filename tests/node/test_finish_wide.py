"""What a node of a wide run says of itself at its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from junitparser import JUnitXml

from gdrcheck.findings.model import Where
from gdrcheck.node.finish import finish
from gdrcheck.outcome import Outcome
from gdrcheck.results.events import Case, EndEvent, EventWriter, PlanEvent, RunEvent
from gdrcheck.results.pair_journal import PairJournal
from tests.node.support import RUN_ID, run_spec
from tests.results.test_pair_journal import cases, ended


def write(out: Path, outcome: Outcome) -> None:
    """node1's file: a case of its own that passed, and a pair whose last case has ``outcome``."""
    with EventWriter(out / "events.jsonl") as writer:
        writer.write(
            RunEvent(
                phase="run",
                run_id=RUN_ID,
                node="node1",
                gdrcheck_version="0.1.0",
                image_id="",
                emulated=False,
            )
        )
        own = Case(id="os[node1]", classname="node1.host", where=Where(node="node1"))
        writer.write(PlanEvent(phase="node", cases=(own,)))
        writer.write(EndEvent(phase="node", id=own.id, outcome=Outcome.PASSED))
        journal = PairJournal("node1", out / "events.jsonl", writer)
        journal.open("node2")
        journal.begin(cases("node2"))
        for case in cases("node2")[:-1]:
            journal.write(ended(case))
        journal.write(ended(cases("node2")[-1], outcome, "why"))


@pytest.mark.parametrize(
    ("outcome", "exit_code", "bad"),
    [
        (Outcome.PASSED, 0, 0),
        (Outcome.ERROR, 2, 1),
        (Outcome.BLOCKED, 2, 1),
        (Outcome.FAILED, 1, 1),
    ],
)
def test_the_exit_code_and_the_junit_file_count_pairs(
    outcome: Outcome, exit_code: int, bad: int, tmp_path: Path
) -> None:
    write(tmp_path, outcome)
    spec = run_spec("node1", "node2")
    assert finish(tmp_path, spec, "node1", "") == exit_code
    assert json.loads((tmp_path / "done.json").read_text())["exit_code"] == exit_code
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml"))}
    pairs = suites["pairs"]
    assert pairs.tests > 0
    assert (pairs.failures + pairs.errors + pairs.skipped > 0) is bool(bad)
