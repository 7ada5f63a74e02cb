"""The pairs of a wide run that are told of by records of whole pairs: columns over all nodes.

Nothing here has the size of the number of cases: what became of all cases of a pair is one text,
which most pairs share, and of their numbers there are a few bytes each.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gdrcheck.outcome import Outcome
from gdrcheck.results.pair_records import OUTCOMES
from gdrcheck.results.pair_told import Expectation, Rows, Template, ToldPairs
from gdrcheck.run import RunSpec

T = TypeVar("T")
# Values beyond these take four bytes a number.
MAX_SHORT = (1 << 16) - 1


class Alike(NamedTuple):
    """How many pairs of a node follow this template with these outcomes, and on which side."""

    node: str
    initiates: bool
    template: int
    kinds: int
    pairs: int


class _Tables(NamedTuple):
    """From the indices of one node's tables to those of all nodes."""

    kinds: Sequence[int]
    wanted: Sequence[int]
    codes: Sequence[int]


@dataclass(slots=True)
class Block:
    """The pairs of one template, a row each. ``codes``: its numbers, ``width`` a row: 0 for none,
    else an index into the values plus 1. The other columns are indices into nodes and tables.
    """

    number: int
    template: Template
    width: int
    initiators: array[int] = field(default_factory=lambda: array("I"))
    responders: array[int] = field(default_factory=lambda: array("I"))
    kinds: array[int] = field(default_factory=lambda: array("I"))
    wanted: array[int] = field(default_factory=lambda: array("I"))
    codes: array[int] = field(default_factory=lambda: array("H"))


class Table(Generic[T]):
    """Values in the order in which they came, each once."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._known: dict[T, int] = {}

    def of(self, value: T) -> int:
        """The number of ``value``."""
        number = self._known.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class WidePairs:
    """Takes in what one node after the other tells of its pairs."""

    def __init__(self, spec: RunSpec) -> None:
        self.names = tuple(node.name for node in spec.nodes)
        self.blocks: list[Block] = []
        self.kinds = Table[str]()
        self.wanted = Table[tuple[int, ...]]()
        self.expectations = Table[Expectation]()
        self.values = Table[float]()
        self._templates = Table[Template]()
        self._by_identity: dict[int, int] = {}
        # What is known by its identity must not end.
        self._kept: list[Template] = []
        self._numbers = {name: number for number, name in enumerate(self.names)}
        # For each initiator and responder the number of the row plus 1, behind that of its block.
        self._rows = array("Q")

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def add(
        self, node: str, told: ToldPairs, refusal: Callable[[str, Template], str]
    ) -> Iterator[str]:
        """Take in the pairs of ``node``. Yields why rows are left out: what ``refusal`` says, of
        the responder and the template of a row; empty when the node may tell of it.
        """
        if not self._rows:
            self._rows.frombytes(bytes(self._rows.itemsize * len(self.names) ** 2))
        expectations = [*map(self.expectations.of, told.expectations), -1]
        tables = _Tables(
            kinds=[self.kinds.of(one) for one in told.kinds],
            wanted=[self.wanted.of(tuple(map(expectations.__getitem__, o))) for o in told.wanted],
            codes=[0, *(self.values.of(value) + 1 for value in told.values)],
        )
        for number, rows in told.rows.items():
            block = self._block(told.templates[number])
            refused = set()
            for at, responder in enumerate(rows.responders):
                if why := refusal(responder, block.template):
                    refused.add(at)
                    yield f"the record of the pair with {responder} {why}"
            self._append(block, node, rows.without(refused, block.width), tables)

    def _block(self, template: Template) -> Block:
        # Those of nodes that are alike are one object: to compare them by value takes long.
        number = self._by_identity.get(id(template))
        if number is None:
            number = self._templates.of(template)
            if number == len(self.blocks):
                width = sum(len(case.columns) for case in template)
                self.blocks.append(Block(number, template, width))
            self._kept.append(template)
            self._by_identity[id(template)] = number
        return self.blocks[number]

    def _append(self, block: Block, node: str, rows: Rows, tables: _Tables) -> None:
        source, first = self._numbers[node], len(block.initiators)
        sinks = [self._numbers[responder] for responder in rows.responders]
        for at, sink in enumerate(sinks, start=first + 1):
            self._rows[source * len(self.names) + sink] = block.number << 32 | at
        block.initiators.extend([source] * len(sinks))
        block.responders.extend(sinks)
        block.kinds.extend(map(tables.kinds.__getitem__, rows.kinds))
        block.wanted.extend(map(tables.wanted.__getitem__, rows.wanted))
        if len(self.values.values) > MAX_SHORT and block.codes.typecode == "H":
            block.codes = array("I", block.codes)
        block.codes.extend(map(tables.codes.__getitem__, rows.codes))

    def row(self, initiator: str, responder: str) -> tuple[int, int] | None:
        """The numbers of the block and of the outcomes of a pair; None when none tells of it."""
        if not self._rows:
            return None
        at = self._rows[self._numbers[initiator] * len(self.names) + self._numbers[responder]]
        block = at >> 32
        return (block, self.blocks[block].kinds[(at & 0xFFFFFFFF) - 1]) if at else None

    def alike(self) -> Iterator[Alike]:
        """All pairs, seen from either end."""
        for number, block in enumerate(self.blocks):
            for initiates, nodes in ((True, block.initiators), (False, block.responders)):
                for (node, kinds), count in Counter(zip(nodes, block.kinds, strict=True)).items():
                    yield Alike(self.names[node], initiates, number, kinds, count)

    @property
    def passed(self) -> bool:
        """Whether any of their cases passed."""
        return self.counts()[Outcome.PASSED] > 0

    def counts(self) -> Counter[Outcome]:
        """How many cases have each outcome, of those that no other case tells of."""
        found: Counter[Outcome] = Counter()
        for block in self.blocks:
            for kinds, count in Counter(block.kinds).items():
                text = self.kinds.values[kinds]
                for digit, outcome in OUTCOMES.items():
                    found[outcome] += count * text.count(digit)
        return found
