"""What the rails of one pair owe, and which of it no case tells of. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gdrcheck.outcome import Outcome
from gdrcheck.pairing.items import Item, items, rail_has_gpu
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.schedule import Pair
from gdrcheck.profile import Profile
from gdrcheck.results.ends import Ends
from gdrcheck.results.incoming import NodeReport
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction

# Only these say what became of a promised measurement: passed over is not measured.
TELLING = (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)


@dataclass(frozen=True, slots=True)
class Owed:
    """What the rails of ``pair`` owe. ``rails``: how many both profiles promise.

    ``listed``: for both nodes the rails that the rendezvous tells of, by id; empty when it does
    not. ``gpus_of``: the rails on which a node owes memory of a GPU.
    """

    pair: Pair
    profiles: tuple[Profile, Profile]
    rails: int
    listed: Mapping[str, Mapping[int, RailInfo]]
    gpus_of: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, spec: RunSpec, pair: Pair, report: NodeReport) -> Owed:
        """What ``pair`` owes by both profiles; ``report`` is the initiator's."""
        listed = listed_rails(report, pair)
        return cls(
            pair=pair,
            profiles=(spec.profile_of(pair.initiator), spec.profile_of(pair.responder)),
            rails=min(rail_count(spec, node) for node in pair),
            listed=listed,
            gpus_of={
                node: _gpu_rails(spec.profile_of(node), listed.get(node, {})) for node in pair
            },
        )

    @property
    def gpu_rails(self) -> frozenset[int]:
        """The rails that owe GPU memory: those with a GPU at both ends."""
        return self.gpus_of[self.pair.initiator] & self.gpus_of[self.pair.responder]

    def place(self, node: str, rail: int) -> str:
        """The place of a rail, or its number where the list does not hold it."""
        found = self.listed.get(node, {}).get(rail)
        return f"{node}/rail{rail}" if found is None else place_of(node, found)

    def lacking(
        self, direction: Direction, found: Mapping[Ends, Outcome]
    ) -> Iterator[tuple[str, str, str]]:
        """Both places of each rail that lacks a case in this direction, and the words for it.

        Without the rendezvous's list nobody knows which rail a name means: then they are counted.
        """
        source, sink = self.pair if direction == "out" else self.pair[::-1]
        gpu_rails = self.gpu_rails
        owed = {gpus: items(*self.profiles, gpus=gpus) for gpus in (False, True)}
        for rail in range(self.rails):
            one, other = self.place(source, rail), self.place(sink, rail)
            lacking = [
                item
                for item in owed[rail in gpu_rails]
                if direction in item.directions
                and (
                    not _tells(item, found.get(_ends(item, one, other)))
                    if self.listed
                    else _count(item, found) <= rail
                )
            ]
            if lacking:
                yield one, other, f"no result of {_words(lacking)}"


def listed_rails(report: NodeReport, pair: Pair) -> dict[str, dict[int, RailInfo]]:
    """For both nodes of ``pair`` the rails, by id, as the rendezvous that ``report`` holds says;
    empty when it does not."""
    nodes = report.rendezvous.nodes if report.rendezvous else {}
    listed = {name: {rail.id: rail for rail in nodes[name].rails} for name in pair if name in nodes}
    return listed if len(listed) == len(pair) and all(listed.values()) else {}


def place_of(node: str, rail: RailInfo) -> str:
    """The place of a rail, as names of cases have it."""
    return "/".join(filter(None, (node, rail.gpu, rail.nic)))


def rail_count(spec: RunSpec, node: str) -> int:
    """How many rails the node's profile promises."""
    rails = spec.profile_of(node).rails
    return rails.count if rails else 0


def _gpu_rails(profile: Profile, listed: Mapping[int, RailInfo]) -> frozenset[int]:
    """The rails with a GPU. A node that tells of fewer than its profile promises owes all."""
    rails = profile.rails.count if profile.rails else 0
    promised = min(profile.gpus.count if profile.gpus else 0, rails)
    if not listed:
        return frozenset(range(promised))
    told = frozenset(id_ for id_, rail in listed.items() if rail_has_gpu(profile, rail))
    return told if len(told) >= promised else frozenset(range(rails))


def _ends(item: Item, source: str, sink: str) -> Ends:
    return Ends(item.check, source, sink, item.mode, item.operation)


def _tells(item: Item, outcome: Outcome | None) -> bool:
    """Whether a case with this outcome is all that ``item`` owes."""
    if outcome in TELLING:
        return True
    if outcome is Outcome.NOT_JUDGED:
        return not item.proof
    return outcome is Outcome.SKIPPED and not item.promised


def _count(item: Item, found: Mapping[Ends, Outcome]) -> int:
    """How many rails have a case of ``item``: as many as there are different places for it."""
    kind = (item.check, item.mode, item.operation)
    ends = [
        one
        for one, outcome in found.items()
        if (one.check, one.mode, one.operation) == kind and _tells(item, outcome)
    ]
    return min(len({one.source for one in ends}), len({one.sink for one in ends}))


def _words(lacking: Iterable[Item]) -> str:
    """``pingpong host-host SEND/READ, latency gpu-gpu SEND``: all that is missing of a rail."""
    operations: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in lacking:
        operations[item.check, item.mode].append(item.operation)
    return ", ".join(
        f"{check} {mode} {'/'.join(names)}" for (check, mode), names in operations.items()
    )
