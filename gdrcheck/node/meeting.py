"""What the supervisor needs of the rendezvous."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.run import RunSpec


class MeetingResult(Protocol):
    """The list that every ready node gets."""

    @property
    def nodes(self) -> dict[str, NodeState]: ...


class Meeting(Protocol):
    """The rendezvous of all nodes: started early, since the others want to see this node live."""

    def start(self) -> None: ...

    def ready(self, rails: Sequence[RailInfo]) -> MeetingResult: ...

    def __enter__(self) -> Meeting: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class MeetingFactory(Protocol):
    """Makes a Meeting for ``node``.

    ``present`` are the nodes to expect, in the run's order; the list is written to ``path``.
    """

    def __call__(
        self, run: RunSpec, node: str, secret: bytes, present: Sequence[str], *, path: Path
    ) -> Meeting: ...
