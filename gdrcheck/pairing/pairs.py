"""The pairs that a node owns, and what came of an exchange. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gdrcheck.findings.model import Where
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.schedule import Pair, partner, rounds
from gdrcheck.run import RunSpec
from gdrcheck.verbs import protocol

# Seen from the initiator: the data leaves it, or comes to it.
Direction = Literal["out", "in"]


@dataclass(frozen=True, slots=True)
class RailEnd:
    """One end of a rail."""

    node: str
    gpu: str | None
    nic: str

    @property
    def where(self) -> Where:
        """The place of this end."""
        return Where(node=self.node, gpu=self.gpu, nic=self.nic)

    @property
    def port(self) -> Where:
        """The place of its port, of which all is true whatever GPU the rail has."""
        return Where(node=self.node, nic=self.nic)


@dataclass(frozen=True, slots=True)
class RailPair:
    """The same rail on both nodes of a pair. ``blocked_by`` says why it cannot be measured."""

    rail_id: int
    local: RailEnd
    remote: RailEnd
    blocked_by: str | None = None

    def source(self, direction: Direction) -> RailEnd:
        """The end that the data comes from."""
        return self.local if direction == "out" else self.remote

    def sink(self, direction: Direction) -> RailEnd:
        """The end that the data goes to."""
        return self.remote if direction == "out" else self.local


@dataclass(frozen=True, slots=True)
class OwnedPair:
    """A pair in which this node is the initiator. ``rails``: those that both nodes have."""

    round: int
    peer: str
    rails: tuple[RailPair, ...]


@dataclass(frozen=True, slots=True)
class EndReport:
    """What one end said of an exchange: its report, or the error that its child gave instead.

    ``binding`` says which cores its endpoint child ran on.
    """

    node: str
    report: protocol.ExchangeResult | None
    error: protocol.ErrorInfo | None = None
    binding: str = ""

    @property
    def completed(self) -> bool:
        """Whether this end had nothing to complain about."""
        return self.report is not None and self.report.completed


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """Both ends' reports of one exchange; blame depends on which end said what."""

    operation: protocol.Operation
    direction: Direction
    plan: protocol.ExchangePlan
    path_mtu: int
    source_report: EndReport
    sink_report: EndReport

    @property
    def unverified(self) -> str:
        """What of the plan the sink did not verify, in words; empty when it verified all."""
        report = self.sink_report.report
        done = {} if report is None else {s.size_bytes: s.iterations_verified for s in report.sizes}
        missing = [
            f"{done.get(size, 0)} of {self.plan.iterations} messages of {size} bytes"
            for size in self.plan.sizes_bytes
            if done.get(size, 0) < self.plan.iterations
        ]
        return f"verified only {', '.join(missing)}" if missing else ""

    @property
    def completed(self) -> bool:
        """Whether both ends completed and the sink verified every message of the plan."""
        sink = self.sink_report.report
        clean = sink is not None and sink.mismatch is None and sink.guard_broken is None
        ends = self.source_report.completed and self.sink_report.completed
        return clean and ends and not self.unverified


def owned_pairs(run: RunSpec, node: str, result: RendezvousResult) -> tuple[OwnedPair, ...]:
    """The pairs that ``node`` initiates, in round order, without those whose peer is not ready.

    A pair is measured only if the profiles of both its nodes ask for pairs.
    """
    if not result.is_ready(node):
        return ()
    return tuple(
        OwnedPair(number, pair.responder, _rails(result, node, pair.responder))
        for number, pair in _pairs_of(run, node)
        if pair.initiator == node and result.is_ready(pair.responder)
    )


def served_rounds(run: RunSpec, node: str, result: RendezvousResult) -> dict[int, str]:
    """The initiator by round, for the rounds in which ``node`` responds to one that is ready."""
    if not result.is_ready(node):
        return {}
    return {
        number: pair.initiator
        for number, pair in _pairs_of(run, node)
        if pair.responder == node and result.is_ready(pair.initiator)
    }


def _pairs_of(run: RunSpec, node: str) -> Iterator[tuple[int, Pair]]:
    schedule = rounds(run.nodes, run.rounds)
    for number in range(len(schedule)):
        pair = partner(schedule, node, number)
        if pair is not None and all(run.profile_of(end).pairs == "required" for end in pair):
            yield number, pair


def _rails(result: RendezvousResult, local: str, remote: str) -> tuple[RailPair, ...]:
    there = {rail.id: rail for rail in result.nodes[remote].rails}
    return tuple(
        RailPair(
            rail_id=rail.id,
            local=RailEnd(local, rail.gpu, rail.nic),
            remote=RailEnd(remote, there[rail.id].gpu, there[rail.id].nic),
            blocked_by=_blocker(local, rail) or _blocker(remote, there[rail.id]),
        )
        for rail in result.nodes[local].rails
        if rail.id in there
    )


def _blocker(node: str, rail: RailInfo) -> str | None:
    """The reason, with the node unless it names it already."""
    if rail.blocked_by is None or node in rail.blocked_by:
        return rail.blocked_by
    return f"{node}: {rail.blocked_by}"
