"""Makes ``data.json.gz`` of the cases and facts of a run: one pass over the cases. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gdrcheck import rails
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.rails import Rail
from gdrcheck.results import data
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.data import Data, NodeData, Place, RailData, Series, Topology
from gdrcheck.results.data_topology import topology, versions
from gdrcheck.results.ends import are_whole_name
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.plain import one_line
from gdrcheck.results.summary import kind_of
from gdrcheck.run import RunSpec

# More digits than these no property has, and no rate or time is that long.
NUMBER = re.compile(r"^(\d{1,9}(?:\.\d{1,6})?(?:e[+-]\d{1,2})?) (us|Gb/s)(?:$|, )")
SIZE = re.compile(r"^(\d{1,4}) (B|KiB|MiB|GiB)$")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# The properties of pair cases that are numbers, and their columns.
COLUMNS = {
    "p50": data.P50_US,
    "p99": data.P99_US,
    "min": data.MIN_US,
    "max": data.MAX_US,
    "perftest": data.GBPS,
    "perftest p50": data.P50_US,
    "perftest p99": data.P99_US,
    "perftest min": data.MIN_US,
    "perftest max": data.MAX_US,
    "expected": data.EXPECTED_GBPS,
}
# Both ways of one measurement, in each case of it: its own is the one from its source.
WAY = re.compile(r"^(?:out|back), from \S+$")
EXPECTED = "expected"
DIGITS = {kind: str(number) for number, kind in enumerate(data.KINDS)}
# A rail of which nobody said the names.
RAIL = re.compile(r"^rail(\d{1,4})$")

Kind = tuple[str, str | None, str | None, int | None]
T = TypeVar("T")


def build(spec: RunSpec, cases: Sequence[CaseResult], reports: Mapping[str, NodeReport]) -> Data:
    """Everything of the run, in time and memory by the number of its cases."""
    topologies = _Index[Topology](lambda one: one.model_dump_json())
    places = _Places(spec)
    nodes = []
    for node in spec.nodes:
        report = reports[node.name]
        found = _rails(spec, node.profile, report)
        places.know(node.name, [*found, *_listed(report)])
        nodes.append(
            NodeData(
                name=node.name,
                leaf=node.leaf,
                profile=node.profile,
                complete=report.complete,
                versions=versions(report.facts, found),
                rails=tuple(map(_rail, found)),
                topology=topologies.of(topology(report.facts)),
            )
        )
    words = _Index[str](str)
    numbers = _Numbers()
    columns: dict[Kind, _Columns] = defaultdict(lambda: _Columns(words, numbers))
    suites: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    findings: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for case in cases:
        if case.findings:
            findings[one_line(case.suite)][one_line(case.id)] = tuple(
                one_line(f"{finding.code} at {finding.where.text()}") for finding in case.findings
            )
        ends = case.ends if are_whole_name(case.id) else None
        one = places.of(ends.source) if ends else None
        other = places.of(ends.sink) if ends else None
        if ends is None or one is None or other is None:
            suites[one_line(case.suite)][kind_of(case)].append(one_line(case.id))
            continue
        rail = places.all[one].rail
        columns[ends.check, ends.mode, ends.operation, rail].add(one, other, case)
    return Data(
        run_id=spec.run_id,
        nodes=tuple(nodes),
        topologies=tuple(topologies.values),
        places=tuple(places.all),
        words=tuple(words.values),
        series=tuple(found.series(*kind) for kind, found in columns.items()),
        suites={
            suite: {kind: tuple(ids) for kind, ids in by_kind.items()}
            for suite, by_kind in suites.items()
        },
        findings=dict(findings),
    )


class _Numbers:
    """The numbers among the properties of cases. Most names and texts are those of many cases."""

    def __init__(self) -> None:
        self._columns: dict[str, str] = {}
        self._parsed: dict[str, _Parsed] = {}
        # By the properties' identity, which many cases share, and the node that they are seen from.
        self._known: dict[tuple[int, str], tuple[dict[str, float], str]] = {}

    def of(self, case: CaseResult) -> tuple[dict[str, float], str]:
        """The numbers by column, and what limits the expected rate. ``case`` outlives this.

        A property that is no number in the form in which the checks write it is left out.
        """
        key = (id(case.properties), case.where.node)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._of(case)
        return known

    def _of(self, case: CaseResult) -> tuple[dict[str, float], str]:
        found: dict[str, float] = {}
        limited_by = ""
        for name, text in case.properties.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = _column(name)
            if not column:
                continue
            parsed = self._parsed.get(text)
            if parsed is None:
                parsed = self._parsed[text] = _parse(text)
            if parsed.number is None:
                continue
            if column == data.GBPS_BACK and name.endswith(f" {case.where.node}"):
                column = data.GBPS
            found[column] = parsed.number
            if name == EXPECTED:
                limited_by = parsed.rest
        return found, limited_by


def _column(name: str) -> str:
    """The column of a property's numbers; of both ways that of the other end's. Empty: none."""
    if size := SIZE.match(name):
        return f"gbps_{int(size[1]) * UNITS[size[2]]}"
    return data.GBPS_BACK if WAY.match(name) else COLUMNS.get(name, "")


class _Parsed(NamedTuple):
    """The number at the start of a text, None if there is none; what follows it and its unit."""

    number: float | None
    rest: str


def _parse(text: str) -> _Parsed:
    match = NUMBER.match(text)
    return _Parsed(float(match[1]), one_line(text[match.end() :])) if match else _Parsed(None, "")


class _Index(Generic[T]):
    """Values in the order in which they came, each once."""

    def __init__(self, key: Callable[[T], str]) -> None:
        self.values: list[T] = []
        self._key = key
        self._known: dict[str, int] = {}

    def of(self, value: T) -> int:
        """The number of ``value``."""
        number = self._known.setdefault(self._key(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class _Places:
    """The ends of pair cases, and which rail of which node each is."""

    def __init__(self, spec: RunSpec) -> None:
        self.all: list[Place] = []
        self._nodes = {node.name: number for number, node in enumerate(spec.nodes)}
        self._rails: dict[tuple[str, str], int] = {}
        self._known: dict[str, int] = {}

    def know(self, node: str, found: Iterable[Rail | RailInfo]) -> None:
        """These are the rails of ``node``; of two of one name the last counts."""
        for rail in found:
            self._rails[node, rail.nic] = rail.id

    def of(self, text: str) -> int | None:
        """The number of the place; None when it is of no node of the run."""
        if text not in self._known:
            node, _, device = text.partition("/")
            if node not in self._nodes:
                return None
            nic = device.rpartition("/")[2]
            unknown = RAIL.match(nic)
            rail = self._rails.get((node, nic), int(unknown[1]) if unknown else None)
            self._known[text] = len(self.all)
            self.all.append(Place(text=one_line(text), node=self._nodes[node], rail=rail))
        return self._known[text]


@dataclass(slots=True)
class _Columns:
    """A series in the making."""

    words: _Index[str]
    read: _Numbers
    source: list[int] = field(default_factory=list)
    sink: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    numbers: dict[str, list[float | None]] = field(default_factory=dict)
    limited_by: list[int] = field(default_factory=list)

    def add(self, source: int, sink: int, case: CaseResult) -> None:
        """Append the row of ``case``."""
        found, limited_by = self.read.of(case)
        rows = len(self.source)
        self.source.append(source)
        self.sink.append(sink)
        self.kinds.append(DIGITS[kind_of(case)])
        self.limited_by.append(self.words.of(limited_by) if limited_by else -1)
        for name in found:
            if name not in self.numbers:
                self.numbers[name] = [None] * rows
        for name, column in self.numbers.items():
            column.append(found.get(name))

    def series(
        self, check: str, mode: str | None, operation: str | None, rail: int | None
    ) -> Series:
        """The series of these columns."""
        return Series(
            check=check,
            mode=mode,
            operation=operation,
            rail=rail,
            source=tuple(self.source),
            sink=tuple(self.sink),
            kinds="".join(self.kinds),
            numbers={name: tuple(column) for name, column in self.numbers.items()},
            limited_by=tuple(self.limited_by) if max(self.limited_by, default=-1) >= 0 else (),
        )


def _rails(spec: RunSpec, profile: str, report: NodeReport) -> tuple[Rail, ...]:
    return rails.resolve(spec.profiles[profile], report.facts) if report.facts else ()


def _listed(report: NodeReport) -> tuple[RailInfo, ...]:
    """The node's rails as the rendezvous gave them out: names of cases are made of these."""
    told = report.rendezvous.nodes.get(report.node) if report.rendezvous else None
    return tuple(told.rails) if told else ()


def _rail(rail: Rail) -> RailData:
    return RailData(
        id=rail.id,
        gpu=rail.gpu,
        nic=rail.nic,
        distance=rail.distance,
        gpu_slot=rail.gpu_slot,
        nic_slot=rail.device.slot if rail.device else None,
    )
