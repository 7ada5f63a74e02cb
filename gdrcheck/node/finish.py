"""The end of a node's run: its own JUnit file, its exit code, ``done.json``."""

from __future__ import annotations

import logging
import socket
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck.outcome import Verdict
from gdrcheck.results import junit, junit_limits, waivers
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.files import write_atomic
from gdrcheck.results.incoming import DONE_FILE, JUNIT_FILE, Done, read_node, report_of
from gdrcheck.results.told import tell
from gdrcheck.results.verdict import judge
from gdrcheck.results.wide import WidePairs
from gdrcheck.results.wide_rails import WideRails
from gdrcheck.run import RunSpec

LOG = logging.getLogger(__name__)


def own_cases(out: Path, spec: RunSpec, node: str, death: str) -> tuple[CaseResult, ...]:
    """The cases of this node so far, waivers applied; ``death`` is the reason of missing ones."""
    report = read_node(out, node, spec.run_id, death)
    return tuple(waivers.apply(spec, report.cases))


def finish(out: Path, spec: RunSpec, node: str, reason: str) -> int:
    """Write junit.xml and done.json; returns the exit code by this node's own results.

    ``reason`` says why the run of this node ended early, empty when it did not.
    """
    told = tell(out, node, spec.run_id, reason or "the supervisor ended without a result")
    report = report_of(out, node, told, None)
    cases = waivers.apply(spec, report.cases)
    wide = WidePairs(spec)
    if told.pairs is not None:
        # Whether it may tell of them is for the merge to say.
        list(wide.add(node, told.pairs, lambda *_: ""))
    judged = judge(cases, pairs_passed=wide.passed)
    verdict = judged.verdict
    if reason and verdict is Verdict.PASS:
        verdict = Verdict.INCOMPLETE
    emulated = report.run is not None and report.run.emulated
    suites = {
        name: [case for case in cases if case.suite == name]
        for name in (node, PAIRS)
        if name == node or wide or any(case.suite == name for case in cases)
    }
    xml = junit.document(
        junit_limits.fit(suites, WideRails(wide)) if wide else suites,
        hosts={node: node},
        properties={
            "run_id": spec.run_id,
            "machine": socket.gethostname(),
            "verdict_of_this_node": str(verdict),
            **({"EMULATED": "true"} if emulated else {}),
        },
        timestamp=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}",
    )
    write_atomic(out / JUNIT_FILE, xml)
    for line in judged.reasons:
        LOG.info("%s: %s", verdict, line)
    write_done(out, verdict.exit_code, reason)
    return verdict.exit_code


def write_done(out: Path, exit_code: int, reason: str) -> None:
    """Write done.json: whoever finds it knows that nothing more will come."""
    done = Done.model_validate({"exit_code": exit_code, "reason": reason})
    write_atomic(out / DONE_FILE, done.model_dump_json().encode() + b"\n")
