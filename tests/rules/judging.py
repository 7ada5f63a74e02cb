"""How the tests of rules read what a rule said."""

from __future__ import annotations

from collections.abc import Callable

from gdrcheck.facts import Facts
from gdrcheck.findings import catalogue
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile

Rule = Callable[[Profile, Facts], Finding | None]
SAID = {
    NotJudged: "not judged",
    NotPromised: "skipped",
    Blocked: "blocked",
    ProbeError: "error",
}


def said(rule: Rule, profile: Profile, facts: Facts) -> str:
    """``passed``, the code, ``blocked by CODE at node``, ``error``, ``skipped`` or ``not judged``.

    AssertionError for a finding that its entry in the catalogue contradicts.
    """
    try:
        finding = rule(profile, facts)
    except Blocked as error:
        return str(error)
    except (NotJudged, NotPromised, ProbeError) as error:
        return SAID[type(error)]
    if finding is None:
        return "passed"
    assert finding.severity == catalogue.entry(finding.code).severity
    assert finding.where.node == facts.node
    return finding.code
