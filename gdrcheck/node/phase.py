"""One phase of a node: pytest processes, one after the other, until every case has a result."""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gdrcheck.node.clock import CaseLimit, Elapsed, Stop
from gdrcheck.node.excerpt import excerpt
from gdrcheck.node.process import POLL_S, CheckProcess, describe, pytest_argv
from gdrcheck.node.record import Record
from gdrcheck.outcome import Outcome
from gdrcheck.results.events import ExitEvent, NoteEvent, PlanEvent, StepEvent
from gdrcheck.results.hung import HUNG, Hung
from gdrcheck.results.pair_records import PairPlanEvent

LOG = logging.getLogger(__name__)
# pytest's codes for: all passed, some failed, nothing collected.
ORDERLY = (0, 1, 5)
# The check that starts CUDA, and how the steps begin in which whoever needs it first starts it and
# asks for all of its devices: what goes wrong there concerns no single GPU.
CUDA_STARTS = "cuda_starts"
CUDA_STEPS = re.compile(
    r"cuDriverGetVersion|cuInit|cuDeviceGetCount|cuDeviceGet(PCIBusId)? of "
    r"|cuDevice(GetUuid|GetName|TotalMem|GetAttribute \d+) on "
)


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """What to run in one phase, and how long it may take. ``file``: nothing but this, if given."""

    phase: Literal["node", "pair"]
    checks: Path
    out: Path
    options: tuple[str, ...]
    start_s: float
    case_limit: CaseLimit
    phase_s: float
    file: str = ""


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a pytest process ended. ``final``: none may follow. ``hung``: its devices are suspect.

    ``log_offset`` is where its output begins in the log of the phase.
    """

    reason: str
    returncode: int | None
    planned: bool
    final: bool = False
    hung: bool = False
    log_offset: int = 0


def run_phase(plan: PhasePlan, record: Record, stop: Stop) -> None:
    """Run the phase; afterwards every case that was planned has a result.

    A process that hangs or dies costs the case that it was in; the next process takes the rest.
    In the pair phase there is a next one even without a rest: other nodes want to be served.
    """
    record.say(f"{plan.phase} phase, only {plan.file}" if plan.file else f"{plan.phase} phase")
    elapsed = Elapsed()
    selection: list[str] | None = None
    hung: list[Hung] = []
    while True:
        before = record.progress
        ending = _run_process(plan, record, stop, elapsed, selection, hung)
        victims = record.running(plan.phase)
        hung += _end_victims(plan, record, ending, victims)
        remaining, pairs_left = record.remaining(plan.phase), record.pairs_left
        is_left = bool(remaining or pairs_left)
        stuck = record.progress == before
        if ending.reason and not victims and (stuck or not is_left) and not ending.final:
            _phase_error(plan, record, ending)
        if ending.final or stuck:
            for id_ in remaining:
                record.end(plan.phase, id_, Outcome.ERROR, f"not run: {ending.reason}")
            if pairs_left:
                _pairs_error(plan, record, ending, pairs_left)
            return
        if not is_left and (plan.phase == "node" or not ending.reason):
            return
        LOG.info("%s phase: %d cases remain, starting pytest again", plan.phase, len(remaining))
        selection = remaining


def _run_process(
    plan: PhasePlan,
    record: Record,
    stop: Stop,
    elapsed: Elapsed,
    selection: list[str] | None,
    hung: list[Hung],
) -> _Ending:
    options = [*plan.options, f"--gdrcheck-phase={plan.phase}"]
    if selection is not None:
        path = plan.out / f"select-{plan.phase}.json"
        path.write_text(json.dumps(selection))
        options.append(f"--gdrcheck-select={path}")
    if hung and record.is_wide:
        path = plan.out / f"hung-{plan.phase}.json"
        path.write_bytes(HUNG.dump_json(tuple(hung)))
        options.append(f"--gdrcheck-hung={path}")
    argv = pytest_argv(plan.checks, plan.phase, options, plan.file)
    log = _log(plan)
    log_offset = log.stat().st_size if log.exists() else 0
    with CheckProcess(argv, log, cwd=plan.checks.parent) as process:
        ending, stuck = _watch(plan, record, stop, elapsed, process)
    ending = replace(ending, log_offset=log_offset)
    record.follow()
    if cut := record.drop_partial():
        record.write(NoteEvent(phase=plan.phase, text=f"cut off a partial record of {cut} bytes"))
    if stuck:
        record.write(NoteEvent(phase=plan.phase, text=stuck))
        ending = replace(ending, reason="; ".join(filter(None, (ending.reason, stuck))))
    if not ending.reason:
        ending = _judge_exit(plan, record, ending)
    record.write(ExitEvent(phase=plan.phase, reason=ending.reason, returncode=ending.returncode))
    return ending


def _watch(
    plan: PhasePlan, record: Record, stop: Stop, elapsed: Elapsed, process: CheckProcess
) -> tuple[_Ending, str]:
    """Follow ``process`` to its end, which is ours at a deadline.

    Returns how it ended, and why it could not be ended if that is so.
    """
    last_sign = time.monotonic()
    planned = False
    while True:
        returncode = process.poll()
        for event in record.follow():
            planned = planned or (
                isinstance(event, PlanEvent | PairPlanEvent) and event.phase == plan.phase
            )
            # Steps are not always signs of life: a check could announce them for ever.
            if plan.case_limit.from_step or not isinstance(event, StepEvent):
                last_sign = time.monotonic()
        if returncode is not None:
            return _Ending("", returncode, planned), process.end()
        if stop.reason:
            return _Ending(stop.reason, None, planned, final=True), process.end()
        if elapsed.seconds > plan.phase_s:
            reason = f"phase deadline of {plan.phase_s:g} s"
            return _Ending(reason, None, planned, final=True), process.end(dump_stacks=True)
        limit_s = plan.case_limit.seconds if planned else plan.start_s
        if time.monotonic() - last_sign > limit_s:
            reason = f"killed after {limit_s:g} s without a result"
            return _Ending(reason, None, planned, hung=True), process.end(dump_stacks=True)
        process.wait(POLL_S)


def _judge_exit(plan: PhasePlan, record: Record, ending: _Ending) -> _Ending:
    """The reason to give for an exit that nobody forced; empty when there is nothing to explain."""
    code = ending.returncode
    assert code is not None
    is_left = record.remaining(plan.phase) or record.pairs_left
    orderly = code in ORDERLY and ending.planned and not is_left
    return ending if orderly else replace(ending, reason=describe(code))


def _end_victims(
    plan: PhasePlan, record: Record, ending: _Ending, victims: list[str]
) -> list[Hung]:
    """Give the running case its result, and block what needs the device that it hung in.

    Returns what cases that are planned later are blocked by.
    """
    found = []
    for id_ in victims:
        ledger = record.ledger_of(id_)
        step, started = ledger.last_step.get(id_), ledger.started[id_]
        where = ledger.planned[id_][1].where
        doing = f", while: {step}" if step else ""
        message = (
            f"{ending.reason} on {where.text()}{doing}\n{excerpt(_log(plan), ending.log_offset)}"
        )
        record.end(plan.phase, id_, Outcome.ERROR, message, started=started)
        if _while_cuda_started(id_, step):
            why = f"which {'hung' if ending.hung else 'died'} while CUDA was started"
            found.append(Hung(id=id_, why=why, where=where, every_gpu=True))
        elif ending.hung:
            found.append(Hung(id=id_, why="which hung on the same device", where=where))
    for hung in found:
        _block(plan, record, hung)
    return found


def _while_cuda_started(id_: str, step: str | None) -> bool:
    return id_.startswith(f"{CUDA_STARTS}[") or bool(CUDA_STEPS.match(step or ""))


def _block(plan: PhasePlan, record: Record, hung: Hung) -> None:
    """Block those of the remaining cases whose place needs what is in doubt."""
    for id_ in record.remaining(plan.phase):
        if hung.blocks(record.ledger_of(id_).planned[id_][1].where):
            record.end(plan.phase, id_, Outcome.BLOCKED, hung.message, blocked_by=hung.id)


def _phase_error(plan: PhasePlan, record: Record, ending: _Ending) -> None:
    """pytest failed as a whole, with no case to blame: a case of its own says so."""
    id_ = f"{plan.phase}_phase_completed[{record.node}]"
    if id_ in record.ledger.ended:
        return
    when = "outside of any case" if ending.planned else "before it planned any case"
    text = f"pytest: {ending.reason} {when}\n{excerpt(_log(plan), ending.log_offset)}"
    record.error(id_, text)


def _pairs_error(plan: PhasePlan, record: Record, ending: _Ending, pairs_left: list[str]) -> None:
    """Say, unless it is said why the phase ended, how many pairs of a wide run it cost."""
    id_ = f"{plan.phase}_phase_completed[{record.node}]"
    if id_ not in record.ledger.ended:
        left, planned = len(pairs_left), len(record.pairs_planned)
        record.error(id_, f"{ending.reason}: {left} of {planned} pairs were not measured")


def _log(plan: PhasePlan) -> Path:
    return plan.out / f"pytest-{plan.phase}.log"
