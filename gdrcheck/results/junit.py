"""Writing JUnit XML: one file, suites for nodes, pairs, the fleet and other tools' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from gdrcheck.findings import show
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.plain import first_line, one_line, visible

NO_CODE = "failed"
WIDTH = 100


def document(
    suites: Mapping[str, Sequence[CaseResult]],
    *,
    hosts: Mapping[str, str],
    properties: Mapping[str, str],
    timestamp: str,
) -> bytes:
    """The JUnit file for ``suites``; ``hosts`` gives the host name of those that have one.

    ``properties`` (run id, verdict, EMULATED) are repeated in every suite, since readers show
    suites one by one.
    """
    root = ElementTree.Element("testsuites", name="gdrcheck")
    for name, cases in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", name=one_line(name))
        if name in hosts:
            suite.set("hostname", one_line(hosts[name]))
        suite.set("timestamp", timestamp)
        _count(suite, cases)
        _properties(suite, properties)
        for case in cases:
            _case(suite, case)
    _count(root, [case for cases in suites.values() for case in cases])
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def kind(case: CaseResult) -> str | None:
    """The JUnit element that stands for the case's outcome; None for a passed one."""
    match case.outcome:
        case Outcome.PASSED:
            return None
        case Outcome.FAILED:
            return "failure" if case.fails else "skipped"
        case Outcome.ERROR | Outcome.BLOCKED:
            return "error" if case.unmeasured else "skipped"
        case Outcome.SKIPPED | Outcome.NOT_JUDGED:
            return "skipped"


def _count(element: ElementTree.Element, cases: Sequence[CaseResult]) -> None:
    kinds = [kind(case) for case in cases]
    element.set("tests", str(len(cases)))
    element.set("failures", str(kinds.count("failure")))
    element.set("errors", str(kinds.count("error")))
    element.set("skipped", str(kinds.count("skipped")))
    element.set("time", f"{sum(case.duration_s for case in cases):.3f}")


def _properties(parent: ElementTree.Element, properties: Mapping[str, str]) -> None:
    if not properties:
        return
    element = ElementTree.SubElement(parent, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(element, "property", name=one_line(name), value=one_line(value))


def _case(suite: ElementTree.Element, case: CaseResult) -> None:
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=one_line(case.classname),
        name=one_line(case.id),
        time=f"{case.duration_s:.3f}",
    )
    _properties(element, case.properties)
    tag = kind(case)
    if tag is None:
        return
    result = ElementTree.SubElement(element, tag, message=one_line(headline(case)))
    if tag != "skipped":
        result.set("type", one_line(_type(case)))
    if text := visible(details(case)):
        result.text = text


def _type(case: CaseResult) -> str:
    if case.outcome is not Outcome.FAILED:
        return str(case.outcome)
    if case.foreign_type is not None:
        return case.foreign_type
    return case.findings[0].code if case.findings else NO_CODE


def headline(case: CaseResult) -> str:
    """What became of a case that did not pass, in one line."""
    first = first_line(case.message) or str(case.outcome)
    if case.waived:
        until = max(waiver.until for waiver in case.waivers)
        reasons = "; ".join(waiver.reason for waiver in case.waivers)
        return f"waived until {until}: {reasons} ({first})"
    if case.only_warns:
        return f"warning, does not fail the run: {first}"
    if case.outcome is Outcome.NOT_JUDGED:
        return f"not judged: {first}"
    return first


def details(case: CaseResult) -> str:
    """The whole message, and each finding with what the catalogue knows of it."""
    parts = [case.message.strip()] if "\n" in case.message.strip() else []
    parts += [explain(finding) for finding in case.findings]
    return "\n\n".join(parts)


def explain(finding: Finding) -> str:
    """A finding in full: what was seen, where, the likely causes and the repair, in this order."""
    unit = f" {finding.unit}" if finding.unit else ""
    seen = (
        f"code: {finding.code}",
        f"where: {finding.where.text()}",
        f"observed: {finding.observed}{unit}",
        f"expected: {finding.expected}{unit}",
        *(f"{name}: {value}" for name, value in finding.evidence.items() if value),
    )
    lines = [one_line(line) for line in seen]
    entry = ENTRIES_BY_CODE.get(finding.code)
    if entry is None:
        return "\n".join([*lines, "this version knows no more about this code"])
    return "\n".join(
        [
            *lines,
            f"meaning: {entry.title}",
            "likely causes, most likely first:",
            *show.numbered(entry.causes, WIDTH),
            "repair, in this order:",
            *show.numbered(entry.repair, WIDTH),
        ]
    )
