"""Rails of nodes as one number, the same for nodes whose rails have the same names. Pure."""

from __future__ import annotations

from gdrcheck.results.lists import Rendezvous

# What decides which cases a rail has, and how they are called.
RailKey = tuple[int, str | None, str, bool]


class RailKeys:
    """Numbers for the rails that lists of the rendezvous tell of nodes. The lists outlive this."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], int] = {}
        self._numbers: dict[tuple[RailKey, ...], int] = {}

    def of(self, rendezvous: Rendezvous | None, node: str) -> int:
        """The number of the node's rails; -1 when the list tells of none."""
        if rendezvous is None:
            return -1
        key = id(rendezvous), node
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._number(rendezvous, node)
        return known

    def _number(self, rendezvous: Rendezvous, node: str) -> int:
        state = rendezvous.nodes.get(node)
        if state is None or not state.rails:
            return -1
        rails = tuple(
            (rail.id, rail.gpu, rail.nic, rail.gpu_blocked_by is not None) for rail in state.rails
        )
        return self._numbers.setdefault(rails, len(self._numbers))
