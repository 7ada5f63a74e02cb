"""A finding in lines: what, where, the evidence, the likeliest cause, the first repair."""

from __future__ import annotations

from collections.abc import Iterator

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding, Severity
from gdrcheck.show.words import wrapped


def finding_lines(finding: Finding) -> list[str]:
    """The lines, for a terminal or a page of text."""
    return list(_lines(finding))


def _lines(finding: Finding) -> Iterator[str]:
    entry = ENTRIES_BY_CODE.get(finding.code)
    title = f": {entry.title}" if entry else ""
    warning = " (a warning)" if finding.severity is Severity.WARN else ""
    unit = f" {finding.unit}" if finding.unit else ""
    yield f"{finding.code}{warning} at {finding.where.text()}{title}"
    yield from wrapped(f"observed: {finding.observed}{unit}")
    yield from wrapped(f"expected: {finding.expected}{unit}")
    for name, value in finding.evidence.items():
        yield from wrapped(f"{name}: {value}", "    ")
    if entry:
        yield from wrapped(f"likely cause: {entry.causes[0]}")
        yield from wrapped(f"first: {entry.repair[0]}")
        yield f"  all causes and repairs: gdrcheck explain {finding.code}"
