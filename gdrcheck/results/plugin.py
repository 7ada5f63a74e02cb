"""The pytest plugin that names cases, maps exceptions to outcomes and writes events.

Loaded by ``-p gdrcheck.results.plugin``; does nothing unless ``--gdrcheck-events`` is given.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal

import pytest

from gdrcheck import run, steps
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.plan import is_wide
from gdrcheck.results.cases import PAIRS, class_name
from gdrcheck.results.events import (
    MAX_PLANNED,
    Case,
    EndEvent,
    Event,
    EventWriter,
    NoteEvent,
    PlanEvent,
    StartEvent,
    StepEvent,
    clip,
)
from gdrcheck.results.hung import HUNG, Hung
from gdrcheck.results.judge import Judgement, judge_call, judge_setup, judge_teardown
from gdrcheck.results.pair_journal import PairJournal

CHECK_PREFIX = "check_"
# The marker of a check that runs in the pair phase and judges the node, not a pair.
NODE_CASE = "node_case"
# More captured output than this stays in the log of the pytest process.
MAX_CAPTURED_CHARS = 8_000
MAX_STEP_CHARS = 500
# The reason that pytest gives to the placeholder of a parametrization without values.
EMPTY_PARAMETERS = "got empty parameter set"
# There in the pair phase of a wide run: the checks are then collected for one pair after the other.
PAIR_JOURNAL = pytest.StashKey[PairJournal]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gdrcheck")
    group.addoption("--gdrcheck-run", type=Path, help="the run document")
    group.addoption("--gdrcheck-node", help="this node's name in the run")
    group.addoption("--gdrcheck-events", type=Path, help="file to append events to")
    group.addoption("--gdrcheck-phase", choices=("node", "pair"))
    group.addoption("--gdrcheck-select", type=Path, help="JSON list of the ids still to run")
    group.addoption("--gdrcheck-hung", type=Path, help="JSON list of what later pairs must not use")
    group.addoption("--gdrcheck-secret", type=Path, help="file with the run's secret")
    group.addoption(
        "--gdrcheck-out", type=Path, help="directory with facts.json and rendezvous.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{NODE_CASE}(area): the case is one of the node's own, also in the pair phase; area is "
        "the last part of its class name",
    )
    if config.option.gdrcheck_events is None:
        return
    if not config.option.gdrcheck_node or not config.option.gdrcheck_phase:
        raise pytest.UsageError("--gdrcheck-events needs --gdrcheck-node and --gdrcheck-phase")
    writer = EventWriter(config.option.gdrcheck_events)
    journal = _journal(config, writer)
    if journal is not None:
        config.stash[PAIR_JOURNAL] = journal
    recorder = Recorder(
        writer=writer,
        node=config.option.gdrcheck_node,
        phase=config.option.gdrcheck_phase,
        selected=_read_selection(config.option.gdrcheck_select),
        journal=journal,
    )
    config.pluginmanager.register(recorder, "gdrcheck-recorder")
    config.add_cleanup(recorder.close)


def _journal(config: pytest.Config, writer: EventWriter) -> PairJournal | None:
    """None unless this is the pair phase of a wide run."""
    options = config.option
    if options.gdrcheck_phase != "pair" or options.gdrcheck_run is None:
        return None
    try:
        if not is_wide(run.load(options.gdrcheck_run)):
            return None
        hung = _read_hung(options.gdrcheck_hung)
        return PairJournal(options.gdrcheck_node, options.gdrcheck_events, writer, hung)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"the pair phase cannot begin: {error}") from error


def _read_hung(path: Path | None) -> tuple[Hung, ...]:
    return () if path is None else HUNG.validate_json(path.read_bytes())


def _read_selection(path: Path | None) -> frozenset[str] | None:
    if path is None:
        return None
    try:
        ids = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--gdrcheck-select {path}: {error}") from error
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
        raise pytest.UsageError(f"--gdrcheck-select {path}: not a JSON list of ids")
    return frozenset(ids)


class Recorder:
    """Writes the events of one pytest process."""

    def __init__(
        self,
        *,
        writer: EventWriter,
        node: str,
        phase: Literal["node", "pair"],
        selected: frozenset[str] | None,
        journal: PairJournal | None = None,
    ) -> None:
        self._writer = writer
        self._journal = journal
        self._node = node
        self._phase = phase
        self._selected = selected
        self._collected: list[pytest.Item] = []
        self._cases: dict[pytest.Item, Case] = {}
        # Of a wide run: those of the node, which come after all pairs.
        self._own_cases: dict[pytest.Item, Case] = {}
        self._judgement = Judgement()

    def close(self) -> None:
        """Close the files."""
        steps.set_sink(None)
        if self._journal is not None:
            self._journal.close()
        self._writer.close()

    # --- collection ------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """A wide run has too many cases for what pytest itself writes and keeps of each."""
        if self._journal is not None:
            session.config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A process that was started again has the first one's record of this already.
        if self._selected is not None:
            return
        if report.passed:
            if report.result or not report.nodeid.endswith(".py"):
                return
            what = f"holds no check: expected a function named {CHECK_PREFIX}..."
        elif report.failed:
            what = "could not be collected"
        else:
            what = "was skipped without declaration"
        text = f"{report.nodeid} {what}\n{report.longreprtext}"
        self._error_outside_cases(f"checks_collected[{self._node}, {report.nodeid}]", text)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self._collected.append(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left = set(items)
        if taken := [item.nodeid for item in self._collected if item not in left]:
            text = "taken out by something else than gdrcheck:\n" + "\n".join(taken)
            self._error_outside_cases(f"checks_collected[{self._node}, all]", text)
        self._collected = []
        named = {item: self._case(item) for item in items if not self._owns_no_pair(item)}
        _refuse_duplicates(named)
        kept = self._kept(named)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
        self._cases = {**self._own_cases, **kept}
        if self._journal is not None and self._journal.responder is None:
            self._own_cases = kept

    def _kept(self, named: dict[pytest.Item, Case]) -> dict[pytest.Item, Case]:
        """What is to be run now."""
        if self._journal is not None and self._journal.responder is not None:
            of_pair = [case for case in named.values() if not case.of_node]
            left = self._journal.begin(of_pair)
            return {item: case for item, case in named.items() if case.id in left}
        return {
            item: case
            for item, case in named.items()
            if self._selected is None or case.id in self._selected
        }

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if any(item not in self._cases for item in session.items):
            # The names were refused; pytest calls this all the same while it gives up.
            return
        # The items, not self._cases: another plugin may have put them in another order.
        cases = tuple(self._cases[item] for item in session.items)
        for first in range(0, max(1, len(cases)), MAX_PLANNED):
            part = cases[first : first + MAX_PLANNED]
            self._writer.write(PlanEvent(phase=self._phase, cases=part))
        steps.set_sink(self._step_outside)
        if not cases and self._phase == "node" and self._selected is None:
            self._error_outside_cases(
                f"checks_collected[{self._node}]", "nothing to run: no check was collected"
            )

    def _owns_no_pair(self, item: pytest.Item) -> bool:
        """A node that initiates no pair has pair checks without parameters: that is no error."""
        return self._phase == "pair" and any(
            str(mark.kwargs.get("reason", "")).startswith(EMPTY_PARAMETERS)
            for mark in item.iter_markers("skip")
        )

    def _case(self, item: pytest.Item) -> Case:
        name = getattr(item, "originalname", None) or item.name
        call = getattr(item, "callspec", None)
        area = item.path.stem.removeprefix(CHECK_PREFIX)
        mark = item.get_closest_marker(NODE_CASE)
        of_pairs = self._phase == "pair" and mark is None
        return Case(
            id=f"{name.removeprefix(CHECK_PREFIX)}[{call.id if call else self._node}]",
            classname=f"{PAIRS}.{area}"
            if of_pairs
            else class_name(self._node, mark.args[0] if mark else area),
            where=self._where(call.params.values() if call else ()),
            of_node=mark is not None,
        )

    def _where(self, parameters: Iterator[object] | tuple[()]) -> Where:
        for parameter in parameters:
            where = getattr(parameter, "where", None)
            if isinstance(where, Where):
                return where
        return Where(node=self._node)

    def _error_outside_cases(self, id_: str, message: str) -> None:
        """Record as a case of its own what is wrong before, or apart from, any check."""
        case = Case(id=id_, classname=class_name(self._node, "run"), where=Where(node=self._node))
        self._writer.write(PlanEvent(phase="run", cases=(case,)))
        self._writer.write(
            EndEvent(phase="run", id=id_, outcome=Outcome.ERROR, message=clip(message))
        )

    # --- running ---------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        case = self._cases[item]
        self._judgement = Judgement()
        self._write(case, StartEvent(phase=self._phase, id=case.id))
        steps.set_sink(lambda text: self._step(case, text))
        # Whatever leaves here as an exception ends the process; its supervisor ends the case.
        result = yield
        steps.set_sink(self._step_outside)
        self._write(case, self._end(item, case))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        error = call.excinfo.value if call.excinfo else None
        judge = {"setup": judge_setup, "call": judge_call, "teardown": judge_teardown}[call.when]
        self._judgement = judge(self._judgement, error, report)
        return report

    def _write(self, case: Case, record: Event) -> None:
        """A record of ``case``, to where it belongs."""
        if self._journal is None or case.of_node:
            self._writer.write(record)
        else:
            self._journal.write(record)

    def _step(self, case: Case, text: str) -> None:
        text = clip(text, MAX_STEP_CHARS)
        self._write(case, StepEvent(phase=self._phase, id=case.id, text=text))

    def _step_outside(self, text: str) -> None:
        """Between cases and after the last one: a sign of life while other nodes are served."""
        self._writer.write(NoteEvent(phase=self._phase, text=clip(text, MAX_STEP_CHARS)))

    def _end(self, item: pytest.Item, case: Case) -> EndEvent:
        judgement = self._judgement
        message = judgement.message
        if judgement.outcome is not Outcome.PASSED and judgement.captured:
            message += "\n\n" + clip(judgement.captured, MAX_CAPTURED_CHARS)
        return EndEvent(
            phase=self._phase,
            id=case.id,
            outcome=judgement.outcome,
            duration_s=judgement.duration_s,
            message=clip(message),
            findings=judgement.findings,
            blocked_by=judgement.blocked_by,
            properties={
                clip(str(name), 200): clip(str(value), 2000) for name, value in item.user_properties
            },
        )


def _refuse_duplicates(named: dict[pytest.Item, Case]) -> None:
    first: dict[str, pytest.Item] = {}
    clashes = []
    for item, case in named.items():
        other = first.setdefault(case.id, item)
        if other is not item:
            clashes.append(f"{case.id}: both {other.nodeid} and {item.nodeid}")
    if clashes:
        raise pytest.UsageError("case names must be unique:\n" + "\n".join(clashes))
