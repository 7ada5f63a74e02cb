"""The words for results, and the exceptions by which code reports them.

GdrcheckError
├── InputError      what a person wrote is wrong: profile, inventory, file, option
├── ProbeError      something could not be read or measured (outcome ``error``)
├── PeerError       the other node, or the way to it, did not do its part (outcome ``error``)
├── Blocked         a need failed elsewhere; names the finding (outcome ``blocked``)
├── NotPromised     the profile does not promise the subject (outcome ``skipped``)
└── NotJudged       measured, but there is no expected value (outcome ``not judged``)
CheckFailure        measured and wrong (outcome ``failed``); an AssertionError holding the finding
"""

from __future__ import annotations

from enum import StrEnum

from gdrcheck.findings.model import Finding


class Outcome(StrEnum):
    """What became of one case."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    NOT_JUDGED = "not judged"


class Verdict(StrEnum):
    """What became of the run as a whole."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"

    @property
    def exit_code(self) -> int:
        """0 for PASS, 1 for FAIL, 2 for INCOMPLETE."""
        return {"PASS": 0, "FAIL": 1, "INCOMPLETE": 2}[self.value]

    @property
    def rank(self) -> int:
        """How bad it is: PASS, INCOMPLETE, FAIL."""
        return {"PASS": 0, "INCOMPLETE": 1, "FAIL": 2}[self.value]

    @classmethod
    def of_exit_code(cls, code: int) -> Verdict:
        """The verdict that ``code`` stands for. ValueError if none does."""
        return cls({0: "PASS", 1: "FAIL", 2: "INCOMPLETE"}.get(code, ""))


class GdrcheckError(Exception):
    """Base of every error that gdrcheck raises on purpose."""


class InputError(GdrcheckError):
    """What a person wrote is wrong. ``problems`` holds one line each, all of them at once."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class ProbeError(GdrcheckError):
    """Something could not be read or measured. ``step`` says what was being done."""

    def __init__(self, message: str, *, step: str = "", error_number: int | None = None) -> None:
        self.step = step
        self.error_number = error_number
        super().__init__(message)


class PeerError(GdrcheckError):
    """The other end did not do its part. ``side`` is a node name, ``step`` what was awaited."""

    def __init__(self, message: str, *, side: str, step: str) -> None:
        self.side = side
        self.step = step
        super().__init__(message)


class Blocked(GdrcheckError):
    """A need failed elsewhere. ``by`` is the finding's code and place, or the reason in words."""

    def __init__(self, by: str) -> None:
        self.by = by
        super().__init__(f"blocked by {by}")


class NotPromised(GdrcheckError):
    """The profile does not promise the subject of the check; the message says so."""


class NotJudged(GdrcheckError):
    """Measured, but the profile holds no expected value; the message holds the measurement."""


class CheckFailure(AssertionError):
    """Measured and wrong. The finding says what, where, and what was expected."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.text())
