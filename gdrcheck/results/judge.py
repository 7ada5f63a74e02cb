"""What an exception in a check means: the mapping to outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import (
    Blocked,
    CheckFailure,
    GdrcheckError,
    NotJudged,
    NotPromised,
    Outcome,
    PeerError,
    ProbeError,
)

# pytest gives no public name to what its ``skip`` raises, other than this attribute.
SKIPPED = pytest.skip.Exception


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a running case so far."""

    outcome: Outcome = Outcome.ERROR
    message: str = "the check's body did not run"
    findings: tuple[Finding, ...] = ()
    blocked_by: str | None = None
    captured: str = ""
    duration_s: float = 0


def judge_setup(
    before: Judgement, error: BaseException | None, report: pytest.TestReport
) -> Judgement:
    """After the fixtures. A CheckFailure there is trouble in acquiring: an error, not a failure."""
    now = _with_report(before, report)
    if error is None:
        return now
    if isinstance(error, CheckFailure):
        return replace(now, message=f"in setup: {error}", findings=(error.finding,))
    return _declared(now, error) or replace(now, message=_explain(error, report))


def judge_call(
    before: Judgement, error: BaseException | None, report: pytest.TestReport
) -> Judgement:
    """After the check's body."""
    now = _with_report(before, report)
    if error is None:
        # ``xfail`` and the like may turn a body without an exception into something else.
        if report.passed and not hasattr(report, "wasxfail"):
            return replace(now, outcome=Outcome.PASSED, message="")
        return replace(now, message=f"pytest says {report.outcome}: {report.longreprtext}")
    if isinstance(error, CheckFailure):
        return replace(
            now,
            outcome=Outcome.FAILED,
            message=error.finding.text(),
            findings=(error.finding,),
        )
    return _declared(now, error) or replace(now, message=_explain(error, report))


def judge_teardown(
    before: Judgement, error: BaseException | None, report: pytest.TestReport
) -> Judgement:
    """After the fixtures were given back. Trouble here spoils every outcome but ``failed``."""
    now = _with_report(before, report)
    if error is None:
        return now
    trouble = f"in teardown: {_explain(error, report)}"
    if before.outcome in (Outcome.FAILED, Outcome.ERROR):
        return replace(now, message=f"{before.message}\n{trouble}")
    return replace(now, outcome=Outcome.ERROR, message=trouble, blocked_by=None)


def _declared(now: Judgement, error: BaseException) -> Judgement | None:
    """The outcome of an exception that declares one; None for any other."""
    if isinstance(error, Blocked):
        return replace(now, outcome=Outcome.BLOCKED, message=str(error), blocked_by=error.by)
    if isinstance(error, NotPromised):
        return replace(now, outcome=Outcome.SKIPPED, message=str(error))
    if isinstance(error, NotJudged):
        return replace(now, outcome=Outcome.NOT_JUDGED, message=str(error))
    return None


def _explain(error: BaseException, report: pytest.TestReport) -> str:
    """The message of an error: one line for what was raised on purpose, else the traceback."""
    if isinstance(error, PeerError):
        return f"{error} (side {error.side}, step {error.step})"
    if isinstance(error, ProbeError):
        step = f" (step {error.step})" if error.step else ""
        number = f" (errno {error.error_number})" if error.error_number is not None else ""
        return f"{error}{step}{number}"
    if isinstance(error, GdrcheckError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, SKIPPED):
        return f"skip without declaration: {error}"
    if isinstance(error, AssertionError) and not isinstance(error, CheckFailure):
        return f"check raised a bare AssertionError\n{report.longreprtext}"
    return f"{type(error).__name__}: {error}\n{report.longreprtext}"


def _with_report(before: Judgement, report: pytest.TestReport) -> Judgement:
    # Each report repeats the sections of the earlier ones.
    captured = "\n".join(f"--- {title} ---\n{text}" for title, text in report.sections)
    return replace(
        before, captured=captured, duration_s=before.duration_s + max(0.0, report.duration)
    )
