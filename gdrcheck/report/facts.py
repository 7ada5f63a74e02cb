"""What the scripts of the page read, as one JSON value. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from gdrcheck.report import causes
from gdrcheck.report.matrices import OUTCOMES, Map
from gdrcheck.results.data import Data
from gdrcheck.results.summary import Summary

Json = dict[str, object]


def facts(summary: Summary, data: Data, maps: Sequence[Map]) -> Json:
    """Nodes, topologies, findings about pairs, places of rails, and the maps without their cells.

    What many nodes have alike stands once, in ``alike``, and nodes hold its number.
    """
    numbers = {node.name: number for number, node in enumerate(data.nodes)}
    places = _findings_by_node(summary, numbers)
    alike = _Alike()
    nodes = [
        {
            "name": node.name,
            "leaf": node.leaf,
            "profile": node.profile,
            "topology": node.topology,
            "rails": alike.number([rail.model_dump() for rail in node.rails]),
            "versions": alike.number(node.versions),
            "findings": places.get(node.name, ()),
            **_told(summary, node.name),
        }
        for node in data.nodes
    ]
    return {
        "nodes": nodes,
        "alike": alike.values,
        "topologies": [one.model_dump() for one in data.topologies],
        "pairs": list(causes.bad_pairs(summary, numbers)),
        "places": places_by_rail(data),
        "outcomes": OUTCOMES,
        "maps": [asdict(one) for one in maps],
    }


def places_by_rail(data: Data) -> dict[str, Json]:
    """By rail, ``null`` where nobody said which: what stands after a node's name in names of cases.

    ``usual`` is that of most nodes, ``others`` is by number of the node where it differs.
    """
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for place in data.places:
        rail = "null" if place.rail is None else str(place.rail)
        _, _, devices = place.text.partition("/")
        if devices:
            found[rail][place.node].append(devices)
    told: dict[str, Json] = {}
    for rail, by_node in found.items():
        texts = {node: " or ".join(devices) for node, devices in by_node.items()}
        usual = Counter(texts.values()).most_common(1)[0][0]
        others = {str(node): text for node, text in texts.items() if text != usual}
        told[rail] = {"usual": usual, "others": others}
    return told


class _Alike:
    """Values, each once."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._known: dict[str, int] = {}

    def number(self, value: object) -> int:
        """The number of ``value``."""
        number = self._known.setdefault(repr(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def _findings_by_node(
    summary: Summary, numbers: dict[str, int]
) -> dict[str, list[tuple[str | None, str | None, str, str]]]:
    """Of each node: the GPU, the NIC, the code, and how it counts."""
    found: dict[str, list[tuple[str | None, str | None, str, str]]] = defaultdict(list)
    for one in summary.findings:
        where = one.finding.where
        if where.node in numbers:
            told = (where.gpu, where.nic, one.finding.code, causes.kind_of(one))
            found[where.node].append(told)
    return found


def _told(summary: Summary, name: str) -> Json:
    node = summary.nodes.get(name)
    if node is None:
        return {"state": "unknown", "reason": "", "troubles": ()}
    return {"state": node.state, "reason": node.reason, "troubles": node.troubles}
