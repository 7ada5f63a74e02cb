"""JUnit files of other tools, taken as suites of their own. Nothing in them is trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.events import clip
from gdrcheck.results.files import read_limited
from gdrcheck.results.verdict import EXTRA_PREFIX

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 50
# A file of that size can hold so many empty elements that they would fill the memory.
MAX_ELEMENTS = 500_000
# Best known first: what a case with several of them is.
OUTCOMES = {
    "failure": Outcome.FAILED,
    "error": Outcome.ERROR,
    "skipped": Outcome.SKIPPED,
}
# What some writers say in an attribute of the case instead (googletest: a test that is disabled).
STATUSES = {
    **dict.fromkeys(("failed", "failure", "fail"), Outcome.FAILED),
    **dict.fromkeys(("error", "errored", "broken", "aborted"), Outcome.ERROR),
    **dict.fromkeys(("notrun", "skipped", "disabled", "ignored", "suppressed"), Outcome.SKIPPED),
}
# Earlier tries of a case, whose last try counts.
TRIES = frozenset({"rerunFailure", "rerunError", "flakyFailure", "flakyError"})


def read_directories(directories: Iterable[Path]) -> list[CaseResult]:
    """The cases of every ``*.xml`` in ``directories``, by file name; each folder counts once.

    A broken file, or one of another kind, is an error case, so that none is passed over. A folder
    that is not there is empty; hidden files are nobody's results.
    """
    cases = []
    for directory in dict.fromkeys(one.resolve() for one in directories):
        if directory.exists() and not directory.is_dir():
            cases.append(_trouble(directory, f"{directory.name} is no folder"))
            continue
        for path in sorted(directory.glob("[!.]*")):
            if path.suffix.lower() == ".xml":
                cases += read_file(path)
            else:
                cases.append(_trouble(path, f"{path.name} is no *.xml file: it is not read"))
    return _unique(cases)


def read_file(path: Path) -> list[CaseResult]:
    """The cases of one file. Unreadable, empty, or fewer than it says: an error case more."""
    suite = _suite(path)
    try:
        data = read_limited(path, MAX_BYTES)
        _refuse_tricks(data)
        root = ElementTree.fromstring(data)
    # LookupError: an encoding that nobody knows.
    except (OSError, ValueError, LookupError, expat.ExpatError, ElementTree.ParseError) as error:
        return [_trouble(path, f"{path.name} cannot be read as JUnit: {error}")]
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag not in ("testsuites", "testsuite"):
        return [_trouble(path, f"{path.name} is not JUnit: its root is <{root.tag}>")]
    cases = _unique([_case(suite, path, element) for element in root.iter("testcase")])
    if not cases:
        return [_trouble(path, f"{path.name} holds no test case")]
    if problem := _of_suites(root) or _disagreement(root, cases):
        cases.append(_trouble(path, f"{path.name}: {problem}"))
    return cases


def _refuse_tricks(data: bytes) -> None:
    """Refuse document types, which can make a small file huge, bottomless nesting and floods."""
    depth = elements = 0

    def start(_name: str, _attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        if elements > MAX_ELEMENTS:
            raise ValueError(f"has more than {MAX_ELEMENTS} elements")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise ValueError("has a document type declaration")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(data, True)


def _case(suite: str, path: Path, element: ElementTree.Element) -> CaseResult:
    outcome, message = _said(element)
    kind = None
    for child in element:
        found = _outcome(child)
        # A case with several keeps the worst: failure, then error, then skipped.
        if found and (outcome is Outcome.PASSED or _rank(found) < _rank(outcome)):
            outcome = found
            kind = child.get("type")
            message = "\n".join(filter(None, (child.get("message"), (child.text or "").strip())))
    return CaseResult(
        suite=suite,
        id=clip(element.get("name") or "(no name)", 900),
        classname=clip(".".join(filter(None, (_prefix(path), element.get("classname")))), 400),
        where=Where(node=suite),
        outcome=outcome,
        duration_s=_seconds(element.get("time")),
        message=clip(message),
        foreign_type=clip(kind, 200) if kind else None,
    )


def _said(element: ElementTree.Element) -> tuple[Outcome, str]:
    """What the attributes of a case say of it: the worst of them."""
    said = [
        (STATUSES[value.lower()], f'{name}="{value}"')
        for name, value in element.items()
        if name in ("status", "result") and value.lower() in STATUSES
    ]
    return min(said, key=lambda one: _rank(one[0]), default=(Outcome.PASSED, ""))


def _outcome(child: ElementTree.Element) -> Outcome | None:
    found = OUTCOMES.get(child.tag)
    if found is None and child.tag not in (*TRIES, "system-err"):
        word = child.tag.lower()
        if "fail" in word or "error" in word:
            # No JUnit, and nothing good: to pass it over could hide a failure.
            return Outcome.ERROR
    return found


def _rank(outcome: Outcome) -> int:
    return list(OUTCOMES.values()).index(outcome)


def _seconds(text: str | None) -> float:
    try:
        # Some writers group thousands.
        seconds = float((text or "0").replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < 1e9 else 0.0


def _unique(cases: list[CaseResult]) -> list[CaseResult]:
    """Readers of our file merge cases of the same name, so repeated ones are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    unique = []
    for case in cases:
        key = case.classname, case.id
        seen[key] += 1
        if seen[key] > 1:
            case = replace(case, id=f"{case.id} (#{seen[key]})")
        unique.append(case)
    return unique


def _of_suites(root: ElementTree.Element) -> str:
    """What went wrong outside of every case: before the first, or while they were collected."""
    for suite in root.iter():
        if suite.tag in ("testsuites", "testsuite"):
            for child in suite:
                if child.tag in ("failure", "error"):
                    said = child.get("message") or (child.text or "").strip() or child.tag
                    return f"a suite failed as a whole: {said}"
    return ""


def _disagreement(root: ElementTree.Element, cases: list[CaseResult]) -> str:
    """How the file's own totals say more trouble, or more cases, than it holds."""
    suites = [] if root.tag == "testsuite" else root.findall("testsuite")
    elements = sum(len(root.findall(f".//testcase/{tag}")) for tag in ("failure", "error"))
    bad = max(elements, sum(case.outcome in (Outcome.FAILED, Outcome.ERROR) for case in cases))
    # The root's own totals and the sum of its suites: the worse word counts.
    said_bad = max(_bad(root), sum(map(_bad, suites)))
    said_all = max(_number(root, "tests"), sum(_number(suite, "tests") for suite in suites))
    if said_all > len(cases):
        return f"says {said_all} tests, holds {len(cases)}"
    if said_bad > bad:
        return f"says {said_bad} failures and errors, holds {bad}"
    return ""


def _bad(element: ElementTree.Element) -> int:
    return _number(element, "failures") + _number(element, "errors")


def _number(element: ElementTree.Element, name: str) -> int:
    text = element.get(name, "0")
    # More digits than that are more than any file holds.
    return int(text[:18]) if text.isascii() and text.isdecimal() else 0


def _trouble(path: Path, message: str) -> CaseResult:
    suite = _suite(path)
    return CaseResult(
        suite=suite,
        id=f"extra_junit_read[{clip(path.name)}]",
        classname=_prefix(path),
        where=Where(node=suite),
        outcome=Outcome.ERROR,
        message=clip(message),
    )


def _prefix(path: Path) -> str:
    return f"extra.{clip(path.stem).replace('.', '_')}"


def _suite(path: Path) -> str:
    # clip: the name of a file need not be text.
    return f"{EXTRA_PREFIX}{clip(path.name)}"
