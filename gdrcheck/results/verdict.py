"""The verdict of a run, from its cases. Pure; nothing else decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.cases import FLEET, CaseResult

EXTRA_PREFIX = "extra:"
NOTHING_MEASURED = "nothing was measured"
PASSED = Outcome.PASSED


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict and, unless it is PASS, why: one line a reason."""

    verdict: Verdict
    reasons: tuple[str, ...]


def judge(cases: Sequence[CaseResult], *, pairs_passed: bool = False) -> Judged:
    """FAIL if anything failed; else INCOMPLETE if anything was not measured; else PASS.

    ``pairs_passed``: cases of pairs passed that are not among ``cases``.

    Nothing measured at all is INCOMPLETE. Results of other tools can fail a run, but they are
    no measurement of ours.
    """
    others = [case for case in cases if case.outcome is not PASSED]
    failed = sum(case.stands_for for case in others if case.fails)
    reasons = []
    if failed:
        reasons.append(f"{_cases(failed)} failed")
    if unmeasured := sum(case.stands_for for case in others if case.unmeasured):
        reasons.append(f"{_cases(unmeasured)} could not be measured")
    measured = pairs_passed or any(_is_measurement(case) for case in cases)
    if not measured:
        reasons.append(NOTHING_MEASURED)
    if failed:
        return Judged(Verdict.FAIL, tuple(reasons))
    if unmeasured or not measured:
        return Judged(Verdict.INCOMPLETE, tuple(reasons))
    return Judged(Verdict.PASS, ())


def _is_measurement(case: CaseResult) -> bool:
    return (
        case.suite != FLEET
        and not case.suite.startswith(EXTRA_PREFIX)
        and case.outcome in (Outcome.PASSED, Outcome.FAILED)
    )


def _cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"
