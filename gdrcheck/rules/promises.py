"""Promised values that are compared in one way: a text with a shell pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrcheck import gates
from gdrcheck.facts import Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged


def differs(
    value: str | Unreadable, promised: str | None, *, code: str, where: Where, what: str
) -> Finding | None:
    """A finding when ``value`` does not match the pattern that the profile promises.

    NotJudged, with the reading, when it promises none; ProbeError when a promised value is
    unreadable.
    """
    if promised is None:
        raise NotJudged(f"{what} is {shown(value)}; the profile promises none")
    found = gates.readable(value, where, what)
    if fnmatchcase(found, promised):
        return None
    return Finding(code=code, where=where, observed=found, expected=promised)


def shown(value: object) -> str:
    """A value of the facts in words."""
    if isinstance(value, Unreadable):
        return f"unreadable ({value.unreadable})"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
