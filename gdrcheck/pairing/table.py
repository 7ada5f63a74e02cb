"""What was measured of one rail of a pair: a cell for each mode, operation and direction. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gdrcheck.pairing.pairs import ExchangeResult, RailPair
from gdrcheck.transfer import Direction, Mode, Operation
from gdrcheck.verbs import protocol

# The step of a ``Failure`` whose ``side`` told of a region in which the messages have no room.
ANNOUNCED = "announce the memory regions"


@dataclass(frozen=True, slots=True)
class CellKey:
    """One exchange of a rail."""

    mode: Mode
    operation: Operation
    direction: Direction


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an exchange could not be measured: ``side`` is the node that could not do ``step``.

    ``error`` is what its endpoint child reported, None when the child or the channel is lost.
    ``endpoints``, by node: what the ends told each other before ``step``, as far as they came.
    """

    side: str
    step: str
    text: str
    error: protocol.ErrorInfo | None = None
    endpoints: Mapping[str, protocol.EndpointInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of one exchange. One of the first three says it; ``repeat`` is the same exchange
    measured once more, alone.

    ``blocked_by``: it was not tried, as ``CODE at place`` or the name of a case in words.
    """

    result: ExchangeResult | None = None
    failure: Failure | None = None
    blocked_by: str | None = None
    repeat: Cell | None = None

    @property
    def passed(self) -> bool:
        """Whether every byte was right."""
        return self.result is not None and self.result.completed


@dataclass(frozen=True, slots=True)
class RailTable:
    """All cells of one rail of one pair, in the order in which they were measured."""

    rail: RailPair
    cells: Mapping[CellKey, Cell]

    def of_mode(self, mode: Mode) -> Iterator[tuple[CellKey, Cell]]:
        """The cells of a mode."""
        return ((key, cell) for key, cell in self.cells.items() if key.mode == mode)
