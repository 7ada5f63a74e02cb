"""The ends of a pair case, which its name tells. Pure."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

# <check>[<a>/gpu<N>/<nic> -> <b>/gpu<N>/<nic>, <mode>, <operation>]
NAME = re.compile(r"^(\w+)\[([^\s,\]]+) -> ([^\s,\]]+)(?:, ([a-z-]+), ([A-Z_]+))?\]")


class Ends(NamedTuple):
    """The ends of a pair case, as places: ``node1/gpu0/mlx5_0``. The data goes source to sink.

    ``check``, ``mode`` and ``operation`` say what was measured between them.
    """

    check: str
    source: str
    sink: str
    mode: str | None = None
    operation: str | None = None

    @property
    def nodes(self) -> tuple[str, str]:
        """The names of the two nodes, source first."""
        return self.source.partition("/")[0], self.sink.partition("/")[0]


def named(name: str) -> Ends | None:
    """The ends that ``name`` tells; None if it is not the name of a pair case."""
    match = NAME.match(name)
    if match is None:
        return None
    check, source, sink, mode, operation = match.groups()
    # Every word of a name is in many others.
    return Ends(
        sys.intern(check),
        sys.intern(source),
        sys.intern(sink),
        mode and sys.intern(mode),
        operation and sys.intern(operation),
    )


def are_whole_name(name: str) -> bool:
    """Whether ``named`` uses all of ``name``, so that the ends can give it back."""
    # NAME has no closing bracket but its last one.
    return name.find("]") == len(name) - 1
