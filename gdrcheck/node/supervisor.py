"""The supervisor: PID 1 of the node's container.

It takes the node's lock, reads facts, runs the phases in processes of their own and ends whatever
outlives its deadline. It loads neither cuda nor pyverbs, so no driver can take it along.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gdrcheck import __version__, probes
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Where
from gdrcheck.node.background import Background
from gdrcheck.node.clock import (
    CaseLimit,
    Elapsed,
    Stop,
    node_case_limit,
    pair_case_limit,
    rendezvous_wait_s,
    start_limit_s,
)
from gdrcheck.node.finish import finish, own_cases
from gdrcheck.node.lock import NodeLocked, node_lock
from gdrcheck.node.meeting import Meeting, MeetingFactory
from gdrcheck.node.phase import PhasePlan, run_phase
from gdrcheck.node.rails import ready_rails
from gdrcheck.node.record import Record
from gdrcheck.node.xids import watching_xids
from gdrcheck.outcome import GdrcheckError
from gdrcheck.pairing.items import promises_gpus
from gdrcheck.pairing.plan import is_wide
from gdrcheck.probes.addresses import ipv4_addresses
from gdrcheck.profile import Profile
from gdrcheck.results.events import RunEvent, clip
from gdrcheck.results.files import write_atomic
from gdrcheck.results.incoming import FACTS_FILE, RENDEZVOUS_FILE
from gdrcheck.results.pair_records import JOURNAL_FILE
from gdrcheck.results.pairs import nodes_with_pairs
from gdrcheck.results.plain import one_line
from gdrcheck.results.told import EVENTS_FILE
from gdrcheck.run import RunSpec

LOG = logging.getLogger(__name__)
IMAGE_ID_VARIABLE = "GDRCHECK_IMAGE_ID"
# The check of the pair phase that a node without pairs runs as well: of each promised GPU.
LOOKING_BACK = "check_gpu_after.py"
DEFAULT_CHECKS = Path(__file__).resolve().parents[2] / "checks"


class Collect(Protocol):
    """Reads the facts of the node that it is given the name of."""

    def __call__(self, node: str, /, *, within_s: float) -> Facts: ...


@dataclass(frozen=True, slots=True)
class Assignment:
    """What this node is to do: the run, who it is in it, and where its files are.

    ``present`` are the nodes whose preflight passed, in the run's order.
    """

    spec: RunSpec
    run_file: Path
    node: str
    secret: bytes
    secret_file: Path
    out: Path
    lock: Path | None
    present: tuple[str, ...]
    checks: Path = DEFAULT_CHECKS

    @property
    def profile(self) -> Profile:
        """What the owner promises of this node."""
        return self.spec.profile_of(self.node)

    @property
    def measures_pairs(self) -> bool:
        """Whether this node has a pair phase: it and another one owe pairs."""
        return self.node in nodes_with_pairs(self.spec)

    @property
    def companions(self) -> tuple[str, ...]:
        """Those of ``present``, this node included, that have a pair phase."""
        return tuple(name for name in self.present if name in nodes_with_pairs(self.spec))


def supervise(
    assignment: Assignment,
    stop: Stop,
    meet: MeetingFactory,
    collect: Collect = probes.collect,
) -> int:
    """Run everything on this node; returns the exit code by its own results.

    Whatever happens, each planned case has a result afterwards, and ``done.json`` is there.
    """
    reason = ""
    journal = assignment.out / JOURNAL_FILE if is_wide(assignment.spec) else None
    with Record(assignment.out / EVENTS_FILE, assignment.node, Elapsed(), journal) as record:
        try:
            with node_lock(assignment.lock):
                _phases(assignment, record, stop, meet, collect)
                reason = stop.reason
        except NodeLocked as error:
            reason = f"RUN-LOCKED: {error}"
            _run_event(assignment, record, None)
            record.error(
                f"node_locked[{assignment.node}]", str(error), (_locked(assignment, str(error)),)
            )
        # The outermost hook of the phases: what they had measured is still to be delivered.
        except Exception as error:
            LOG.exception("the supervisor failed")
            reason = f"the supervisor failed: {type(error).__name__}: {one_line(clip(str(error)))}"
            record.error(f"supervisor_completed[{assignment.node}]", reason)
    return finish(assignment.out, assignment.spec, assignment.node, reason)


def _phases(
    assignment: Assignment,
    record: Record,
    stop: Stop,
    meet: MeetingFactory,
    collect: Collect,
) -> None:
    spec, node = assignment.spec, assignment.node
    with ExitStack() as whole_run:
        with ExitStack() as stack:
            meeting: Meeting | None = None
            if assignment.measures_pairs:
                # Before everything else: the others want to see that this node lives.
                path = assignment.out / RENDEZVOUS_FILE
                meeting = meet(spec, node, assignment.secret, assignment.companions, path=path)
                stack.enter_context(meeting)
                meeting.start()
            facts = _facts(assignment, record, stop, collect)
            whole_run.enter_context(watching_xids(facts, assignment.out))
            run_phase(_plan(assignment, "node", node_case_limit(spec.waits)), record, stop)
            if meeting is None:
                _look_back(assignment, record, stop)
                return
            if not _agree(assignment, record, stop, meeting, facts):
                return
        rails = assignment.profile.rails
        limit = pair_case_limit(spec.waits, rails.count if rails else 1)
        run_phase(_plan(assignment, "pair", limit), record, stop)


def _look_back(assignment: Assignment, record: Record, stop: Stop) -> None:
    """The end of a node without pairs: what became of its promised GPUs during the run."""
    if promises_gpus(assignment.profile) and not stop.reason:
        limit = node_case_limit(assignment.spec.waits)
        run_phase(_plan(assignment, "pair", limit, LOOKING_BACK), record, stop)


def _facts(assignment: Assignment, record: Record, stop: Stop, collect: Collect) -> Facts | None:
    """Read the facts and write the file. Trouble is recorded, and the run goes on without."""
    facts = None
    trouble = ""
    within_s = assignment.spec.waits.check_s
    probing = Background("probes", lambda: collect(assignment.node, within_s=within_s))
    try:
        facts = probing.result(within_s, stop)
    except GdrcheckError as error:
        trouble = str(error)
    _run_event(assignment, record, facts)
    if facts is None:
        record.error(f"facts_read[{assignment.node}]", f"facts could not be read: {trouble}")
    else:
        write_atomic(assignment.out / FACTS_FILE, facts.model_dump_json(indent=1).encode())
    return facts


def _agree(
    assignment: Assignment, record: Record, stop: Stop, meeting: Meeting, facts: Facts | None
) -> bool:
    """Tell the others that this node is ready; returns whether it takes part in the pairs."""
    if stop.reason:
        return False
    node, waits = assignment.node, assignment.spec.waits
    cases = own_cases(assignment.out, assignment.spec, node, "not run")
    rails = ready_rails(assignment.profile, facts, cases, ipv4_addresses())
    for rail in rails:
        record.say(f"rail {rail.id} ({rail.nic}): {rail.blocked_by or 'ready'}")
    record.say("waiting for the other nodes")
    waiting = Background("rendezvous", lambda: meeting.ready(rails))
    try:
        states = waiting.result(rendezvous_wait_s(waits), stop).nodes
    except GdrcheckError as error:
        record.error(f"rendezvous_completed[{node}]", str(error))
        return False
    for name, state in states.items():
        record.say(f"{name}: {state.state} {state.reason}".rstrip())
    if node not in states or states[node].state != "ready":
        why = states[node].reason if node in states else "not in the list"
        record.error(f"rendezvous_completed[{node}]", f"this node was struck off: {why}")
        return False
    return True


def _plan(
    assignment: Assignment,
    phase: Literal["node", "pair"],
    case_limit: CaseLimit,
    file: str = "",
) -> PhasePlan:
    waits = assignment.spec.waits
    return PhasePlan(
        phase=phase,
        checks=assignment.checks,
        out=assignment.out,
        options=_options(assignment),
        start_s=start_limit_s(waits),
        case_limit=case_limit,
        phase_s=waits.phase_s,
        file=file,
    )


def _options(assignment: Assignment) -> tuple[str, ...]:
    return (
        f"--gdrcheck-run={assignment.run_file}",
        f"--gdrcheck-node={assignment.node}",
        f"--gdrcheck-events={assignment.out / EVENTS_FILE}",
        f"--gdrcheck-secret={assignment.secret_file}",
        f"--gdrcheck-out={assignment.out}",
    )


def _run_event(assignment: Assignment, record: Record, facts: Facts | None) -> None:
    record.write(
        RunEvent(
            phase="run",
            run_id=assignment.spec.run_id,
            node=assignment.node,
            gdrcheck_version=__version__,
            # What this container was really started from: the run document says what it should be.
            image_id=os.environ.get(IMAGE_ID_VARIABLE, ""),
            emulated=facts is not None and facts.emulated,
        )
    )


def _locked(assignment: Assignment, reason: str) -> Finding:
    return Finding(
        code="RUN-LOCKED",
        where=Where(node=assignment.node),
        observed=reason,
        expected="no other run on this node",
    )
