"""Writing JUnit XML: one file, suites for nodes, pairs, the fleet and other tools' results.

It is valid by the schema of Jenkins' xUnit plugin (junit-10.xsd), the strictest of its readers.
That knows properties of suites only: those of a case stand in its suite, as ``<case>: <property>``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from gdrcheck.findings import show
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.events import clip
from gdrcheck.results.plain import first_line, one_line, visible

NO_CODE = "failed"
# GitLab's reader takes these for the type of the text: it drops it, or refuses the whole file.
DATA_TYPES = frozenset(
    {
        *("array", "base64", "base64binary", "boolean", "date", "datetime", "decimal", "double"),
        *("duration", "file", "float", "integer", "string", "symbol", "yaml"),
    }
)
WIDTH = 100
# A node may send far more in one case than anybody reads, and readers limit the file.
MAX_ATTRIBUTE_CHARS = 2000
MAX_TEXT_CHARS = 16_000
MAX_TIME_S = 1e9


def document(
    suites: Mapping[str, Sequence[CaseResult]],
    *,
    hosts: Mapping[str, str],
    properties: Mapping[str, str],
    timestamp: str,
    versions: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> bytes:
    """The JUnit file for ``suites``; ``hosts`` gives the host name of those that have one.

    ``properties`` (run id, verdict, EMULATED) are repeated in every suite, since readers show
    suites one by one; ``versions`` are further ones of single suites.
    """
    lines = ["<?xml version='1.0' encoding='utf-8'?>", ""]
    for name, cases in suites.items():
        host = {"hostname": hosts[name]} if name in hosts else {}
        totals = _totals(cases)
        lines.append(_tag("  ", "testsuite", name=name, **host, timestamp=timestamp, **totals))
        lines.append("    <properties>")
        lines += _properties({**properties, **versions.get(name, {})})
        ids = _ids(cases)
        for case, id_ in zip(cases, ids, strict=True):
            lines += _properties({f"{id_}: {key}": value for key, value in told(case).items()})
        lines.append("    </properties>")
        for case, id_ in zip(cases, ids, strict=True):
            lines += _case(case, id_)
        lines.append("  </testsuite>")
    totals = _totals([case for cases in suites.values() for case in cases])
    # The schema has no total of skipped cases here, but in each suite.
    del totals["skipped"]
    lines[1] = _tag("", "testsuites", name="gdrcheck", **totals)
    lines.append("</testsuites>\n")
    return "\n".join(lines).encode()


def size(case: CaseResult) -> tuple[int, int]:
    """How many XML elements and characters the case takes in the file."""
    properties = list(_properties({f"{case.id}: {key}": one for key, one in told(case).items()}))
    lines = [*properties, *_case(case, case.id)]
    elements = 1 + (kind(case) is not None) + len(properties)
    return elements, sum(map(len, lines)) + len(lines)


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


def _totals(cases: Sequence[CaseResult]) -> dict[str, str]:
    kinds = Counter(map(kind, cases))
    return {
        "tests": str(len(cases)),
        "failures": str(kinds["failure"]),
        "errors": str(kinds["error"]),
        "skipped": str(kinds["skipped"]),
        "time": _time(sum(case.duration_s for case in cases)),
    }


def _time(duration_s: float) -> str:
    # A node may say anything, and the sum of it has to be a number.
    return f"{min(duration_s, MAX_TIME_S):.3f}"


def _ids(cases: Sequence[CaseResult]) -> list[str]:
    """The names of the cases as they are shown. Of equal ones readers take only the first, or mix
    them up, so the second gets a number.
    """
    taken: set[tuple[str, str]] = set()
    numbers: Counter[tuple[str, str]] = Counter()
    ids = []
    for case in cases:
        name = id_ = one_line(case.id)
        while (case.classname, id_) in taken:
            numbers[case.classname, name] += 1
            id_ = f"{name} (#{numbers[case.classname, name] + 1})"
        taken.add((case.classname, id_))
        ids.append(id_)
    return ids


def _tag(indent: str, tag: str, end: str = ">", /, **attributes: str) -> str:
    told = "".join(f' {key}="{_quoted(value)}"' for key, value in attributes.items())
    return f"{indent}<{tag}{told}{end}"


def _quoted(text: str) -> str:
    # Most of a million of them are short and plain.
    if len(text) > MAX_ATTRIBUTE_CHARS or not (text.isascii() and text.isprintable()):
        text = one_line(clip(text, MAX_ATTRIBUTE_CHARS))
    return _escaped(text).replace('"', "&quot;")


def _escaped(text: str) -> str:
    """As few entities as XML allows: readers limit their number, and each arrow would be one."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")


def _properties(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        yield _tag("      ", "property", " />", name=name, value=value)


def _case(case: CaseResult, id_: str) -> Iterator[str]:
    names = {"classname": case.classname, "name": id_, "time": _time(case.duration_s)}
    tag = kind(case)
    if tag is None:
        yield _tag("    ", "testcase", " />", **names)
        return
    type_ = {"type": _type(case)} if tag != "skipped" else {}
    start = _tag("      ", tag, "", message=headline(case), **type_)
    text = _escaped(visible(clip(details(case), MAX_TEXT_CHARS)))
    yield _tag("    ", "testcase", **names)
    yield f"{start}>{text}</{tag}>"
    yield "    </testcase>"


def told(case: CaseResult) -> dict[str, str]:
    """What was measured and found, as properties; of a second finding ``code 2`` and so on."""
    properties = dict(case.properties)
    for number, finding in enumerate(case.findings, 1):
        suffix = f" {number}" if number > 1 else ""
        properties[f"code{suffix}"] = finding.code
        properties[f"where{suffix}"] = finding.where.text()
        properties[f"observed{suffix}"] = finding.observed
        properties[f"expected{suffix}"] = finding.expected
        if finding.unit:
            properties[f"unit{suffix}"] = finding.unit
    return properties


def _type(case: CaseResult) -> str:
    if case.outcome is not Outcome.FAILED:
        return str(case.outcome)
    if case.foreign_type is not None:
        taken = case.foreign_type.lower() in DATA_TYPES
        return f"{case.foreign_type} (type)" if taken else case.foreign_type
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
    """All that is known of a case that did not pass: what became of it, its whole message, each
    finding with what the catalogue knows, and what was measured.
    """
    # GitLab shows the text alone, so the headline is repeated in it.
    parts = [headline(case)]
    parts += [case.message.strip()] if "\n" in case.message.strip() else []
    parts += [explain(finding) for finding in case.findings]
    measured = [one_line(f"{name}: {value}") for name, value in case.properties.items()]
    parts += ["\n".join(["measured:", *measured])] if measured else []
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
