"""Pytest plugin of `make test-gpu`: writes what ran into docs/evidence.md (``--evidence FILE``).

Only a whole run is written, passed or failed: one that was interrupted, filtered or cut short says
nothing of the machine, and says so. A failure to write fails the run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cuda import bindings

import gdrcheck
from gdrcheck import probes
from tests.gpu.evidence import MEASURED, PAIRED, EvidenceError, Machine, Run, machine_of, updated

KEPT = (*MEASURED, *PAIRED)
WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--evidence", type=Path, required=True, help="the page that keeps what ran on which GPU"
    )


def pytest_configure(config: pytest.Config) -> None:
    # The machine is read first: its probes start child processes, and later CUDA is open.
    recorder = Recorder(config.getoption("--evidence"), _machine())
    config.pluginmanager.register(recorder, "gdrcheck-evidence")


def _machine() -> Machine | EvidenceError:
    try:
        return machine_of(probes.collect("here"))
    except EvidenceError as error:
        return error


class Recorder:
    """Counts the tests of a session, and writes them down at its end."""

    def __init__(self, page: Path, machine: Machine | EvidenceError) -> None:
        self._page = page
        self._machine = machine
        self._finished: set[str] = set()
        self._passed: set[str] = set()
        self._failed: dict[str, None] = {}
        self._skipped: set[str] = set()
        self._measured: dict[str, str] = {}
        self._deselected = 0
        self._said = ""

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[2]
        if report.failed:
            self._failed[name] = None
        elif report.skipped:
            self._skipped.add(report.nodeid)
        elif report.when == "call":
            self._passed.add(name)
        if report.when == "teardown":
            self._finished.add(report.nodeid)
            # The same name twice is one value: that of the last test.
            self._measured |= {key: str(value) for key, value in report.user_properties}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        try:
            run = self._run(session, exitstatus)
            text = updated(self._page.read_text(encoding="utf-8"), run)
            write(self._page, text)
            self._said = f"{self._page}: {run.machine.gpus}, {run.machine.driver}: {run.result}"
        except (EvidenceError, OSError) as error:
            self._said = f"nothing was written to {self._page}: {error}"
            if exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("evidence")
        terminalreporter.write_line(self._said)
        for name, value in self._measured.items():
            terminalreporter.write_line(f"{name}: {value}")

    def _run(self, session: pytest.Session, exitstatus: int) -> Run:
        if isinstance(self._machine, EvidenceError):
            raise self._machine
        missing = session.testscollected - len(self._finished)
        if exitstatus not in WHOLE or missing or self._deselected:
            raise EvidenceError(
                f"this was not a whole run: pytest ended with status {int(exitstatus)}, "
                f"{missing} tests did not run, {self._deselected} were deselected"
            )
        return Run(
            machine=self._machine,
            python=platform.python_version(),
            bindings=bindings.__version__,
            gdrcheck=gdrcheck.__version__,
            date=datetime.now(UTC).date().isoformat(),
            passed=len(self._passed - set(self._failed)),
            failed=tuple(self._failed),
            skipped=len(self._skipped),
            measured={name: self._measured[name] for name in KEPT if name in self._measured},
        )


def write(page: Path, text: str) -> None:
    """Replace ``page`` as a whole, so that a full disk leaves the old one."""
    new = page.with_name(f".{page.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, page)
