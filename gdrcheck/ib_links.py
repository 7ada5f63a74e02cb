"""Which switch port each port of an InfiniBand fabric is cabled to, from a list of its links. Pure.

The list is what ibnetdiscover(8) or iblinkinfo(8) prints, the latter also with ``--line``. Both are
run once, at a node or at the subnet manager: no node of a run sends management datagrams.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrcheck.facts import Neighbour
from gdrcheck.outcome import InputError

MAX_BYTES = 64 << 20
MAX_PROBLEMS = 5
# A link is told in less than 300: a node's name has 64 at most.
MAX_LINE_CHARACTERS = 1000
EXPECTED = "expected what ibnetdiscover or iblinkinfo prints, whole and unchanged"

# ibnetdiscover: a switch, its LID among it; then a channel adapter, and its ports as
# [1](a1)  "S-b1"[5]  # lid 17 lmc 0 "leaf-1" lid 3 4xNDR
ADAPTER = re.compile(r'Ca\s+\d+ "H-[0-9a-f]{16}"')
OTHER_NODE = re.compile(r'(?:Switch|Rt)\s+\d+ "[SR]-[0-9a-f]{16}"')
ADAPTER_PORT = re.compile(
    r"\[\d+\]\((?P<guid>[0-9a-f]{1,16})\)\s*"
    r'"(?P<kind>[SHR])-(?P<switch>[0-9a-f]{16})"\[(?P<port>\d+)\](?:\[ext \d+\])?'
    r'(?:\s*\([0-9a-f]{1,16}\))?\s+# lid \d+ lmc \d+ "(?P<name>.*)" lid \d+ '
)
# iblinkinfo: "Switch: 0x… NAME:" or "CA: NAME:", then its ports as
#   0x…  17  1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  3  5[  ] "leaf-1" ( )
# where a switch's ports have no GUID of their own. With --line both ends have it, and the name.
SWITCH_HEADER = re.compile(r"Switch: (?P<switch>0x[0-9a-f]{16}) (?P<name>.*):$")
ADAPTER_HEADER = re.compile(r"(?:CA|Router): .*:$")
ARROW = re.compile(r" ==\(.*?\)==>  ")
OWN_END = re.compile(
    r'(?:(?P<guid>0x[0-9a-f]{16}) )?(?:"(?P<name>.*)" )?\s*(?P<lid>\d+)\s+\d+\[[ \d]*\]$'
)
OTHER_END = re.compile(
    r"(?:(?P<guid>0x[0-9a-f]{16}) )?\s*(?P<lid>\d+)\s+(?P<port>\d+)\[[ \d]*\] "
    r'"(?P<name>.*)" \(.*\)$'
)
NO_OTHER_END = ("[", '"Port not available"')

IbLinks = Mapping[int, Neighbour]


def parse(text: str, place: str) -> IbLinks:
    """GUID of an adapter's port → the switch port at the other end of its cable.

    InputError, naming ``place`` and the lines, for a list of another form or without such a port.
    """
    lines = text.splitlines()
    problems = [
        f"line {number}: has {len(line)} characters"
        for number, line in enumerate(lines, start=1)
        if len(line) > MAX_LINE_CHARACTERS
    ]
    if problems:
        lines = []
    of_iblinkinfo = any("==>" in line for line in lines)
    found: dict[int, Neighbour] = {}
    for guid, one in (_iblinkinfo if of_iblinkinfo else _ibnetdiscover)(lines, problems):
        if found.setdefault(guid, one) != one:
            problems.append(
                f"port GUID {guid:#018x} is cabled to {found[guid].text()} and to {one.text()}, as "
                "in lists of two days"
            )
    if not found and not problems:
        problems.append("names no port of an adapter that is cabled to a switch")
    if problems:
        more = len(problems) - MAX_PROBLEMS
        told = problems[:MAX_PROBLEMS] + ([f"and {more} more lines"] if more > 0 else [])
        raise InputError(*(f"{place}: {line}; {EXPECTED}" for line in told))
    return found


def _ibnetdiscover(lines: list[str], problems: list[str]) -> Iterator[tuple[int, Neighbour]]:
    of_adapter = False
    for number, line in enumerate(lines, start=1):
        if ADAPTER.match(line) or OTHER_NODE.match(line):
            of_adapter = line.startswith("Ca")
        if not of_adapter or not line.startswith("["):
            continue
        port = ADAPTER_PORT.match(line)
        if port is None:
            problems.append(f"line {number}: is no port of an adapter: {line[:60]!r}")
        elif port["kind"] == "S":
            yield int(port["guid"], 16), _neighbour(port["switch"], port["name"], port["port"])


def _iblinkinfo(lines: list[str], problems: list[str]) -> Iterator[tuple[int, Neighbour]]:
    """An adapter's line gives its switch's LID; by that the switch's own lines tell its GUID."""
    switches: dict[str, tuple[str, str]] = {}
    adapters: list[tuple[int, re.Match[str]]] = []
    header: re.Match[str] | None = None
    for number, line in enumerate(lines, start=1):
        if switch := SWITCH_HEADER.match(line):
            header = switch
        elif ADAPTER_HEADER.match(line):
            header = None
        if "==>" not in line:
            continue
        own_text, *rest = ARROW.split(line, maxsplit=1)
        own = OWN_END.match(own_text.lstrip())
        other = OTHER_END.match(rest[0]) if rest else None
        uncabled = bool(rest) and rest[0].lstrip().startswith(NO_OTHER_END)
        if own is None or (other is None and not uncabled):
            problems.append(f"line {number}: is no link: {line.strip()[:60]!r}")
        elif header is not None and own["guid"] is None:
            switch_of_lid = header["switch"], header["name"]
            if switches.setdefault(own["lid"], switch_of_lid) != switch_of_lid:
                problems.append(
                    f"line {number}: LID {own['lid']} is of two switches, as before a subnet "
                    "manager ran, or of two fabrics: take the list when one runs, and of each "
                    "fabric by ibnetdiscover: such lists may be joined to one file"
                )
        elif own["guid"] is not None and other is not None:
            adapters.append((int(own["guid"], 16), other))
    if switches and not adapters and not problems:
        problems.append("shows the ports of switches alone")
    yield from _joined(adapters, switches)


def _joined(
    adapters: list[tuple[int, re.Match[str]]], switches: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[int, Neighbour]]:
    for guid, other in adapters:
        switch, name = switches.get(other["lid"], (other["guid"], other["name"]))
        if switch is not None:
            yield guid, _neighbour(switch.removeprefix("0x"), name, other["port"])


def _neighbour(switch: str, name: str, port: str) -> Neighbour:
    # A node may be called anything; a terminal would obey what is not printable.
    plain = "".join(letter if letter.isprintable() else " " for letter in name)
    return Neighbour(
        switch=f"0x{switch}", switch_name=" ".join(plain.split()), port=port, source="file"
    )
