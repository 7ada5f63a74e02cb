"""What a test asks of the drivers in two containers, and what they answer. Needs gdrcheck alone."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from gdrcheck.findings.model import Finding
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.run import Deadlines
from gdrcheck.transfer import DIRECTIONS, MODES, OPERATIONS, Direction, Mode, Operation

DEVICE = "rxe0"
GPU = "gpu0"
# Neither whole words nor whole pages.
SIZES_BYTES = (33, 4097)
ITERATIONS = 2
# Long enough for emulated guests that do other things as well, and short for who waits for them.
DEADLINES = Deadlines(completion_s=8, connect_s=30, check_s=60, rail_s=240)
WORKER = ("-m", "gdrcheck.memory.worker")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class End(_Model):
    """One end. ``worker``: the words after ``python3`` that start its endpoint child."""

    node: str
    address: str
    gpu: LocalGpu | None = None
    gid_index: int | None = None
    worker: tuple[str, ...] = WORKER


class Scenario(_Model):
    """One session of two ends, the first of which is the initiator.

    ``fresh``: with endpoint children of its own, whose memory is registered now. ``paced``: the
    initiator goes on after a cell when a line comes.
    """

    run_id: str
    ends: tuple[End, End]
    modes: tuple[Mode, ...] = MODES
    operations: tuple[Operation, ...] = OPERATIONS
    directions: tuple[Direction, ...] = DIRECTIONS
    sizes_bytes: tuple[int, ...] = SIZES_BYTES
    iterations: int = ITERATIONS
    deadlines: Deadlines = DEADLINES
    fresh: bool = False
    paced: bool = False

    def here(self, node: str) -> End:
        """The end on ``node``."""
        return next(end for end in self.ends if end.node == node)

    def there(self, node: str) -> End:
        """The other one."""
        return next(end for end in self.ends if end.node != node)


class Command(_Model):
    """One line of a driver's stdin."""

    do: Literal["measure", "serve"]
    scenario: Scenario


class Place(_Model):
    """A cell of the rail's table."""

    mode: Mode
    operation: Operation
    direction: Direction


class Told(_Model):
    """The ruling of one cell; with none of the last three it passed. ``raw``: what was measured."""

    place: Place
    finding: Finding | None = None
    blocked_by: str | None = None
    error: str | None = None
    raw: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is said against it."""
        return self.finding is None and self.blocked_by is None and self.error is None


class Line(_Model):
    """One line of a driver's stdout: that it is ready for more, a cell that is done, or, as the
    last one of a scenario, what came of it all.

    ``ended_by`` is what ended a responder's session other than its initiator's leave.
    """

    done: Place | None = None
    last: bool = False
    cells: tuple[Told, ...] = ()
    ended_by: str = ""
