"""The pytest plugin that names cases, maps exceptions to outcomes and writes events.

Loaded by ``-p gdrcheck.results.plugin``; does nothing unless ``--gdrcheck-events`` is given.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal

import pytest

from gdrcheck import steps
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS, class_name
from gdrcheck.results.events import (
    MAX_PLANNED,
    Case,
    EndEvent,
    EventWriter,
    NoteEvent,
    PlanEvent,
    StartEvent,
    StepEvent,
    clip,
)
from gdrcheck.results.judge import Judgement, judge_call, judge_setup, judge_teardown

CHECK_PREFIX = "check_"
# The marker of a check that runs in the pair phase and judges the node, not a pair.
NODE_CASE = "node_case"
# More captured output than this stays in the log of the pytest process.
MAX_CAPTURED_CHARS = 8_000
MAX_STEP_CHARS = 500
# The reason that pytest gives to the placeholder of a parametrization without values.
EMPTY_PARAMETERS = "got empty parameter set"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gdrcheck")
    group.addoption("--gdrcheck-run", type=Path, help="the run document")
    group.addoption("--gdrcheck-node", help="this node's name in the run")
    group.addoption("--gdrcheck-events", type=Path, help="file to append events to")
    group.addoption("--gdrcheck-phase", choices=("node", "pair"))
    group.addoption("--gdrcheck-select", type=Path, help="JSON list of the ids still to run")
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
    recorder = Recorder(
        writer=EventWriter(config.option.gdrcheck_events),
        node=config.option.gdrcheck_node,
        phase=config.option.gdrcheck_phase,
        selected=_read_selection(config.option.gdrcheck_select),
    )
    config.pluginmanager.register(recorder, "gdrcheck-recorder")
    config.add_cleanup(recorder.close)


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
    ) -> None:
        self._writer = writer
        self._node = node
        self._phase = phase
        self._selected = selected
        self._collected: list[pytest.Item] = []
        self._cases: dict[pytest.Item, Case] = {}
        self._judgement = Judgement()

    def close(self) -> None:
        """Close the file of events."""
        steps.set_sink(None)
        self._writer.close()

    # --- collection ------------------------------------------------------------------------------

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
        named = {item: self._case(item) for item in items if not self._owns_no_pair(item)}
        _refuse_duplicates(named)
        kept = {
            item: case
            for item, case in named.items()
            if self._selected is None or case.id in self._selected
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
        self._cases = kept

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
        self._writer.write(StartEvent(phase=self._phase, id=case.id))
        steps.set_sink(lambda text: self._step(case.id, text))
        # Whatever leaves here as an exception ends the process; its supervisor ends the case.
        result = yield
        steps.set_sink(self._step_outside)
        self._writer.write(self._end(item, case))
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

    def _step(self, id_: str, text: str) -> None:
        self._writer.write(StepEvent(phase=self._phase, id=id_, text=clip(text, MAX_STEP_CHARS)))

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
