"""XIDs that were seen while a run went: the file that the watcher of a node writes. Pure.

One JSON object a line: first what is watched, then each XID, and what went wrong with watching.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gdrcheck.facts.base import Slot

# A GPU in a loop of faults reports thousands in a second; one says as much.
MAX_XIDS = 1000
# The slot of a GPU of which the driver reports an XID, and that nobody knows.
UNKNOWN = "unknown"


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime


class WatchBegun(_Line):
    """GPUs that are watched from ``time`` on, and those that are not, each with NVML's words."""

    watched: tuple[Slot, ...]
    refused: dict[str, str] = Field(default_factory=dict)


class XidSeen(_Line):
    """An XID of the GPU at ``slot``, when the watcher heard of it."""

    slot: str
    xid: int = Field(ge=0)


class WatchTrouble(_Line):
    """Why XIDs from ``time`` on may have been missed."""

    problem: str


Line = WatchBegun | XidSeen | WatchTrouble
_LINE: TypeAdapter[Line] = TypeAdapter(Line)


@dataclass(frozen=True, slots=True)
class XidWatch:
    """What the watcher told. ``begun`` None: it never began. ``problems``: why it missed some."""

    begun: WatchBegun | None
    seen: tuple[XidSeen, ...]
    problems: tuple[str, ...]

    def of(self, slot: str) -> tuple[XidSeen, ...]:
        """The XIDs of the GPU at ``slot``, in the order in which they came."""
        return tuple(one for one in self.seen if one.slot == slot)

    def refused(self, slot: str) -> str | None:
        """Why the driver does not let anybody watch the GPU at ``slot``; None when it does."""
        return self.begun.refused.get(slot) if self.begun is not None else None

    def doubt(self, slot: str) -> str | None:
        """Why silence about the GPU at ``slot`` proves nothing; None when it does."""
        if self.begun is None:
            return "; ".join(self.problems) or "the watcher told nothing"
        if slot not in self.begun.watched:
            return self.refused(slot) or "it was not among the GPUs that were watched"
        unplaced = ("an XID of a GPU that has no slot",) if self.of(UNKNOWN) else ()
        return "; ".join((*self.problems, *unplaced)) or None


def written(line: Line) -> str:
    """``line`` as the file has it."""
    return line.model_dump_json() + "\n"


def parsed(text: str, *problems: str) -> XidWatch:
    """The watch that wrote ``text``. A line that is none is one of the ``problems``."""
    begun: WatchBegun | None = None
    seen: list[XidSeen] = []
    troubles = list(problems)
    # Not splitlines, which splits inside of strings too.
    for number, raw in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            line = _LINE.validate_json(raw)
        except ValidationError:
            troubles.append(f"line {number} of the watcher is not readable")
            continue
        match line:
            case WatchBegun():
                begun = begun or line
            case XidSeen():
                seen.append(line)
            case WatchTrouble():
                troubles.append(line.problem)
    return XidWatch(begun, tuple(seen), tuple(troubles))
