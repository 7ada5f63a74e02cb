"""The lists that the rendezvous gave out, as the nodes sent them. Nothing in there is trusted."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gdrcheck.pairing.messages import NodeName, NodeState
from gdrcheck.results.files import holds, read_limited
from gdrcheck.run import RunSpec

# What a list may hold of each node of the run, and of each rail that its profile promises: more
# than the longest names and reasons take, every character of them escaped.
BYTES_PER_NODE = 4096
BYTES_PER_RAIL = 16384


class Rendezvous(BaseModel):
    """What the rendezvous agreed on, as far as a report needs it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    leader: NodeName
    nodes: dict[NodeName, NodeState]


class Lists:
    """The lists of one run. Nodes that sent the same bytes share one object.

    A list tells of every node, and every node has one: without sharing, a merge would need memory
    by the square of the number of nodes.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._names = frozenset(node.name for node in spec.nodes)
        promised = (spec.profiles[node.profile].rails for node in spec.nodes)
        rails = sum(one.count for one in promised if one is not None)
        self.limit_bytes = len(spec.nodes) * BYTES_PER_NODE + rails * BYTES_PER_RAIL
        self._known: list[tuple[bytes, Rendezvous]] = []

    def read(self, path: Path) -> Rendezvous:
        """The list in the file at ``path``.

        OSError if that cannot be opened; ValueError if it is longer than a list of this run can
        be, is none, or tells of nodes that are not in the run.
        """
        # Lists are megabytes, nearly always the same: to compare them is cheaper than any digest,
        # and while they are read cheaper than after that.
        if self._known and holds(path, self._known[0][0]):
            return self._known[0][1]
        data = read_limited(path, self.limit_bytes)
        for known, found in self._known:
            if data == known:
                return found
        parsed = self._parsed(data)
        self._known.append((data, parsed))
        return parsed

    def _parsed(self, data: bytes) -> Rendezvous:
        found = Rendezvous.model_validate_json(data)
        for name in (found.leader, *found.nodes):
            if name not in self._names:
                raise ValueError(f"tells of {name}, which is no node of this run")
        return found
