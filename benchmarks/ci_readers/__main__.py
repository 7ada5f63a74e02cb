"""Reads a JUnit file by the libraries with which Jenkins, GitLab and GitHub read it, and compares.

python -m benchmarks.ci_readers FILE

Debian: ruby-activesupport, ruby-nokogiri, libdom4j-java, a JDK. npm: xml2js, xml-js and
fast-xml-parser, in FOLDER/node_modules that NODE_PATH names. Ends with 1 if a library reads the
file otherwise than Python's parser does, with 2 if one is not there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
DOM4J = "/usr/share/java/dom4j.jar"
READERS = {
    "GitLab": ("ruby", str(HERE / "gitlab.rb")),
    "Jenkins": ("java", "-cp", DOM4J, str(HERE / "Jenkins.java")),
    "GitHub, dorny/test-reporter": ("node", str(HERE / "github.cjs"), "xml2js"),
    "GitHub, mikepenz/action-junit-report": ("node", str(HERE / "github.cjs"), "xml-js"),
    "Datadog and others": ("node", str(HERE / "github.cjs"), "fast-xml-parser"),
}
LIMIT_S = 300
# Class name, name, element, text.
Case = tuple[str | None, str | None, str | None, str | None]


def expected(root: ElementTree.Element) -> Iterator[Case]:
    """The cases of a file of ours."""
    for case in root.iter("testcase"):
        found = next(iter(case), None)
        kind = found.tag if found is not None else None
        text = found.text if found is not None else None
        yield case.get("classname"), case.get("name"), kind, text


def difference(wanted: list[Case], got: list[Case]) -> str:
    """The first thing that a reader sees otherwise; empty if there is none."""
    for one, other in zip(wanted, got, strict=False):
        if one != other:
            return f"{other} instead of {one}"
    return "" if len(wanted) == len(got) else f"{len(got)} cases instead of {len(wanted)}"


def read(command: tuple[str, ...], file: Path) -> tuple[str, list[Case]]:
    """What a reader says of itself and of the cases. RuntimeError, in its words, if it fails."""
    done = subprocess.run([*command, file], capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    version, *lines = done.stdout.decode().split("\n")[:-1]
    return version, [tuple(json.loads(line)) for line in lines]


def main() -> int:
    """Prints a line for each reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    wanted = list(expected(ElementTree.parse(file).getroot()))
    print(f"{file}: {file.stat().st_size} bytes, {len(wanted)} cases")
    worst = 0
    for name, command in READERS.items():
        start = time.monotonic()
        try:
            version, got = read(command, file)
        except (OSError, RuntimeError) as error:
            print(f"{name}: did not run: {str(error)[-300:]}")
            worst = max(worst, 2)
            continue
        problem = difference(wanted, got)
        worst = max(worst, 1 if problem else 0)
        print(f"{name}: {version}: {problem or 'the same'}, {time.monotonic() - start:.1f} s")
    return worst


if __name__ == "__main__":
    sys.exit(main())
