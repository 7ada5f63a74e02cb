"""Many places in few words: ``node[1-2,4]/rxe0``. Pure."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

# A number in the first label of a name, or the last of an address; with what is around it.
NUMBERED = re.compile(
    r"(?P<address>(?:[0-9]+\.){3})(?P<last>[0-9]+)"
    r"|(?P<prefix>[^.]*?)(?P<digits>[0-9]+)(?P<suffix>[^.0-9]*(?:\..*)?)"
)
# More than that is no number of a node.
MAX_DIGITS = 18
WITH_PEER = re.compile(r"(.*) \(with ([^()]+)\)", re.DOTALL)

# Before the number, after it, the digits.
_Parts = tuple[str, str, str]


def fold(places: Iterable[str]) -> list[str]:
    """``node1/rxe0, node2/rxe0, node4/rxe0`` as ``node[1-2,4]/rxe0``, in order of appearance.

    Only numbers of nodes are folded, and peers: ``node7/rxe0 (with node[1-6])``. Numbers with
    leading zeros fold with those of as many digits: node01 with node10, never with node1.
    """
    by_peer: dict[str, list[str]] = defaultdict(list)
    for place in dict.fromkeys(places):
        match = WITH_PEER.fullmatch(place)
        body, peer = match.groups() if match else (place, "")
        by_peer[peer].append(body)
    peers: dict[str, list[str]] = defaultdict(list)
    for peer, bodies in by_peer.items():
        for body in _folded(bodies):
            peers[body].append(peer)
    folded = []
    for body, found in peers.items():
        # The empty name stands for the place without a peer.
        folded += [body] if "" in found else []
        named = [peer for peer in found if peer]
        folded += [f"{body} (with {', '.join(_folded(named))})"] if named else []
    return folded


def listed(places: Iterable[str], width: int) -> str:
    """The folded places in one line of ``width`` characters at most, if the first one fits:
    ``node[1-2], node7 and 4 more places``.
    """
    folded = fold(places)
    ends = itertools.accumulate(len(text) + len(", ") for text in folded)
    fitting = sum(1 for _ in itertools.takewhile(lambda end: end - len(", ") <= width, ends))
    for count in range(fitting, 1, -1):
        text = _first(folded, count)
        if len(text) <= width:
            return text
    return _first(folded, 1) if folded else ""


def _first(folded: Sequence[str], count: int) -> str:
    text, left = ", ".join(folded[:count]), len(folded) - count
    return f"{text} and {left} more place{'s' if left > 1 else ''}" if left else text


def _folded(places: Iterable[str]) -> list[str]:
    split = [(place, _parts(place)) for place in places]
    padded = {
        (before, after, len(digits))
        for _, (before, after, digits) in split
        if len(digits) > 1 and digits.startswith("0")
    }
    groups: dict[tuple[str, str, int], dict[int, None]] = {}
    for place, (before, after, digits) in split:
        if not digits:
            groups[place, "", -1] = {}
            continue
        width = len(digits) if (before, after, len(digits)) in padded else 0
        groups.setdefault((before, after, width), {})[int(digits)] = None
    return [
        before if width < 0 else f"{before}{_ranges(sorted(numbers), width)}{after}"
        for (before, after, width), numbers in groups.items()
    ]


def _parts(place: str) -> _Parts:
    """What is before and after the node's number, and its digits; none for a name without."""
    node, slash, rest = place.partition("/")
    match = NUMBERED.fullmatch(node)
    if match is None or len(match["last"] or match["digits"]) > MAX_DIGITS:
        return place, "", ""
    if match["last"]:
        return match["address"], slash + rest, match["last"]
    return match["prefix"], f"{match['suffix']}{slash}{rest}", match["digits"]


def _ranges(numbers: Sequence[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:0{width}d}"
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = (
        f"{part[0]:0{width}d}" + (f"-{part[-1]:0{width}d}" if len(part) > 1 else "")
        for part in parts
    )
    return f"[{','.join(texts)}]"
