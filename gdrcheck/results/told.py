"""What the events of one node tell. Nothing in there is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gdrcheck.findings import differences
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Severity
from gdrcheck.outcome import Outcome
from gdrcheck.results import events
from gdrcheck.results.cases import PAIRS, CaseResult, Ledger
from gdrcheck.results.events import EventLog, RunEvent, clip
from gdrcheck.results.journal import told_twice, unfinished
from gdrcheck.results.pair_ledger import PairLedger
from gdrcheck.results.pair_records import JOURNAL_FILE
from gdrcheck.results.pair_told import ToldPairs

EVENTS_FILE = "events.jsonl"
MAX_ERROR_CHARS = 4000
# Of a node with 8 GPUs and 8 NICs there are about 550. What a node makes up costs all others time.
MAX_OWN_CASES = 10_000
# Warnings that come of comparing nodes: in a node's own case they would excuse its failure.
FLEET_ONLY = frozenset(
    entry.code for entry in differences.ENTRIES if entry.severity is Severity.WARN
)
# Outcomes that say that nothing is wrong.
NO_FAULT = (Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class Told:
    """What a node told by events. ``problems`` are things in them that cannot be right, in words.

    ``first`` and ``last`` are the times of its first and last event, by its own clock;
    ``cut_bytes`` is the length of a last line that has no end. ``broken`` says why nothing of the
    node can be read at all, else it is empty. ``pairs``: of a wide run, what its records of whole
    pairs tell.
    """

    cases: tuple[CaseResult, ...] = ()
    run: RunEvent | None = None
    first: datetime | None = None
    last: datetime | None = None
    problems: tuple[str, ...] = ()
    cut_bytes: int = 0
    broken: str = ""
    pairs: ToldPairs | None = None


def tell(directory: Path, node: str, run_id: str, death: str) -> Told:
    """What the events in ``directory`` tell; ``death`` says why there are cases without a result.

    A directory, or a file, that does not exist tells nothing.
    """
    if directory.is_symlink():
        return Told(broken=f"{directory.name} is a link, not a directory")
    try:
        return _tell(directory, node, run_id, death)
    # The outermost hook of what one node sent: whatever is in there costs no other node its result.
    except Exception as error:
        return Told(broken=why_broken(error))


def why_broken(error: Exception) -> str:
    """The words for an error that what a node sent has caused."""
    return f"cannot be read: {type(error).__name__}: {clip(str(error), MAX_ERROR_CHARS)}"


def _tell(directory: Path, node: str, run_id: str, death: str) -> Told:
    problems: list[str] = []
    ledger, pairs = Ledger(), PairLedger(node)
    log = _events(directory / EVENTS_FILE, problems)
    journal = _events(directory / JOURNAL_FILE, problems)
    ledger.feed(log.events)
    pairs.feed(log.events, {id_: end.outcome for id_, end in ledger.ended.items()})
    ledger.feed(unfinished(journal.events, ledger, pairs))
    problems += [f"{EVENTS_FILE}: {problem}" for problem in pairs.problems[: events.MAX_PROBLEMS]]
    problems += ledger.problems
    cases = _believed(ledger.results(node, death), problems)
    problems += told_twice(cases, pairs)
    cases += pairs.cases
    problems += _foreign(node, run_id, ledger.run, cases)
    times = [event.time for event in (*log.events[:1], *log.events[-1:], *journal.events[-1:])]
    return Told(
        cases=tuple(cases),
        run=ledger.run,
        first=times[0] if times else None,
        last=times[-1] if times else None,
        problems=tuple(problems),
        cut_bytes=log.cut_bytes,
        pairs=pairs.told,
    )


def _believed(cases: list[CaseResult], problems: list[str]) -> list[CaseResult]:
    """``cases`` without those of the node alone that are beyond what any machine has."""
    own = [case for case in cases if case.suite != PAIRS]
    if len(own) <= MAX_OWN_CASES:
        return cases
    problems.append(
        f"{EVENTS_FILE} has {len(own)} cases of the node alone; more than {MAX_OWN_CASES} are not "
        "believed"
    )
    return [*own[:MAX_OWN_CASES], *(case for case in cases if case.suite == PAIRS)]


def _events(path: Path, problems: list[str]) -> EventLog:
    try:
        log = events.read(path)
    except FileNotFoundError:
        return EventLog((), ())
    except (OSError, ValueError) as error:
        problems.append(f"{path.name}: {error}")
        return EventLog((), ())
    problems += [f"{path.name}: {problem}" for problem in log.problems]
    return log


def _foreign(
    node: str, run_id: str, run: RunEvent | None, cases: Sequence[CaseResult]
) -> list[str]:
    """Results that are not this node's, or not of this run."""
    problems = []
    if run is not None and (run.node, run.run_id) != (node, run_id):
        problems.append(
            f"{EVENTS_FILE} is of node {run.node} in run {run.run_id}, not of {node} in {run_id}"
        )
    problems += [
        f"case {case.id} is about {case.where.text()}, not about {node}"
        for case in cases
        if node not in (case.where.node, case.where.peer)
    ]
    for case in cases:
        for finding in case.findings:
            if finding.code not in ENTRIES_BY_CODE:
                problems.append(f"case {case.id} has the code {finding.code}, which nobody knows")
            if finding.where.node not in (case.where.node, case.where.peer):
                problems.append(f"case {case.id} has a finding at {finding.where.text()}")
            if finding.code in FLEET_ONLY:
                problems.append(f"case {case.id} has the code {finding.code}, as no node can")
            if case.outcome in NO_FAULT and finding.severity is Severity.FAIL:
                problems.append(f"case {case.id} is {case.outcome}, with finding {finding.code}")
    return problems[: events.MAX_PROBLEMS]
