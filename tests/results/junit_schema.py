"""What the schema of Jenkins' xUnit plugin (junit-10.xsd) demands of a JUnit file, in our words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Rule:
    """What may stand in an element: names apart by spaces. ``needed`` attributes must be there."""

    attributes: str = ""
    needed: str = ""
    children: str = ""
    text: bool = False


RESULT = Rule("type message", text=True)
# Reruns and flaky tests, which the schema has as well, are none of ours.
RULES = {
    "testsuites": Rule("name time tests failures errors", children="testsuite"),
    "testsuite": Rule(
        "name tests failures errors group time skipped timestamp hostname id package file log url "
        "version",
        needed="name tests failures errors",
        children="testsuite properties testcase system-out system-err",
    ),
    "properties": Rule(children="property"),
    "property": Rule("name value", needed="name value"),
    "testcase": Rule(
        "name time classname group",
        needed="name",
        children="skipped error failure system-out system-err",
    ),
    "skipped": RESULT,
    "error": RESULT,
    "failure": RESULT,
    "system-out": Rule(text=True),
    "system-err": Rule(text=True),
}
# Of suites; the time of a case is any text.
TIME = re.compile(r"(\d{0,3},)*\d*(\.\d{0,3})?")


def complaints(root: ElementTree.Element) -> list[str]:
    """Where the document is not as the schema says; nothing for a valid one."""
    if root.tag not in ("testsuites", "testsuite"):
        return [f"root {root.tag}"]
    found = []
    for element in root.iter():
        rule = RULES.get(element.tag)
        if rule is None:
            found.append(f"unknown element {element.tag}")
            continue
        names = set(element.attrib)
        found += [f"{element.tag}: attribute {one}" for one in names - {*rule.attributes.split()}]
        found += [f"{element.tag}: no {one}" for one in {*rule.needed.split()} - names]
        allowed = rule.children.split()
        found += [f"{element.tag}: {one.tag}" for one in element if one.tag not in allowed]
        texts = [element.text, *(one.tail for one in element)]
        if not rule.text and any(text and text.strip() for text in texts):
            found.append(f"{element.tag}: text")
        if element.tag != "testcase" and not TIME.fullmatch(element.get("time", "")):
            found.append(f"{element.tag}: time {element.get('time')}")
    return found
