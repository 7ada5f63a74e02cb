"""What is measured of a rail beyond its exchanges: plans, and what both ends reported. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from gdrcheck.transfer import Direction, Mode
from gdrcheck.verbs import protocol

R = TypeVar("R")

LOOP = "RTT/2 of our Python SEND loop"


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """One measurement. ``seconds`` and ``iterations`` are both the least."""

    kind: Literal["latency", "bandwidth"]
    mode: Mode
    size_bytes: int
    iterations: int
    seconds: float = 0
    depth: int = 32
    queue_pairs: int = 1
    both_ways: bool = False


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """The comparison of copying through host memory with the direct way, GPU to GPU."""

    size_bytes: int
    iterations: int


@dataclass(frozen=True, slots=True)
class End(Generic[R]):
    """What one end said: its report, or why it has none."""

    node: str
    report: R | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TimedReport:
    """Both ends of one measurement. The source's report has the numbers (with ``both_ways`` each
    end's has those of the way from it); the sink's tells whether the data was right.
    """

    plan: TimedPlan
    direction: Direction
    source: End[protocol.TimedResult]
    sink: End[protocol.TimedResult]

    @property
    def completed(self) -> bool:
        """Whether both ends completed with right data."""
        return all(
            end.report is not None and end.report.completed for end in (self.source, self.sink)
        )


@dataclass(frozen=True, slots=True)
class StagedReport:
    """Both ends of one comparison; the numbers are the source's."""

    plan: StagedPlan
    direction: Direction
    source: End[protocol.StagedResult]
    sink: End[protocol.StagedResult]

    @property
    def completed(self) -> bool:
        """Whether both ends completed with right data."""
        return all(
            end.report is not None and end.report.completed for end in (self.source, self.sink)
        )
