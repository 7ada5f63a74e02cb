"""Makes ``data.json.gz`` of the cases and facts of a run: one pass over the cases. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gdrcheck import rails
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.rails import Rail
from gdrcheck.results import data
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.data import Data, NodeData, Place, RailData, Series, Topology
from gdrcheck.results.data_build_wide import blocks, expectations, places_of
from gdrcheck.results.data_topology import topology, versions
from gdrcheck.results.ends import are_whole_name
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.measured import Numbers
from gdrcheck.results.plain import one_line
from gdrcheck.results.summary import kind_of
from gdrcheck.results.wide import WidePairs
from gdrcheck.run import RunSpec

# A rail of which nobody said the names.
RAIL = re.compile(r"^rail(\d{1,4})$")

Kind = tuple[str, str | None, str | None, int | None]
T = TypeVar("T")


def build(
    spec: RunSpec,
    cases: Sequence[CaseResult],
    reports: Mapping[str, NodeReport],
    wide: WidePairs | None = None,
) -> Data:
    """Everything of the run, in time and memory by the number of its cases; of ``wide``, whose
    cases are not among ``cases``, of its pairs."""
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
    numbers = Numbers()
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
    if wide:
        for text in places_of(wide):
            places.of(text)
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
        blocks=blocks(wide, cases, places.rail) if wide else (),
        expectations=expectations(wide) if wide else (),
    )


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

    def rail(self, node: str, nic: str) -> int | None:
        """The rail of a node that has this NIC; None when nobody said."""
        unknown = RAIL.match(nic)
        return self._rails.get((node, nic), int(unknown[1]) if unknown else None)

    def of(self, text: str) -> int | None:
        """The number of the place; None when it is of no node of the run."""
        if text not in self._known:
            node, _, device = text.partition("/")
            if node not in self._nodes:
                return None
            nic = device.rpartition("/")[2]
            self._known[text] = len(self.all)
            rail = self.rail(node, nic)
            self.all.append(Place(text=one_line(text), node=self._nodes[node], rail=rail))
        return self._known[text]


@dataclass(slots=True)
class _Columns:
    """A series in the making."""

    words: _Index[str]
    read: Numbers
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
        self.kinds.append(data.DIGITS[kind_of(case)])
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
