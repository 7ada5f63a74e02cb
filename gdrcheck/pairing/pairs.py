"""The pairs that a node owns, and what came of an exchange. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gdrcheck.findings.model import Where
from gdrcheck.pairing.items import rail_has_gpu
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.schedule import Pair, partner, rounds
from gdrcheck.registration import Method
from gdrcheck.run import RunSpec
from gdrcheck.transfer import Direction, EndLimits, Mode, Operation
from gdrcheck.verbs import protocol

UNKNOWN = EndLimits()


@dataclass(frozen=True, slots=True)
class RailEnd:
    """One end of a rail. ``methods``: those by which memory of its GPU is registered here."""

    node: str
    gpu: str | None
    nic: str
    methods: tuple[Method, ...] = ()
    limits: EndLimits = UNKNOWN

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
    """The same rail on both nodes of a pair. ``blocked_by`` says why it cannot be measured.

    ``gpu_blocked_by`` says why GPU memory of the rail cannot be, None also for a rail that has no
    GPUs: then ``has_gpus`` is False, and there are no cases of GPU memory.
    """

    rail_id: int
    local: RailEnd
    remote: RailEnd
    blocked_by: str | None = None
    has_gpus: bool = False
    gpu_blocked_by: str | None = None

    def end(self, node: str) -> RailEnd:
        """The end on ``node``."""
        return self.local if node == self.local.node else self.remote

    def source(self, direction: Direction) -> RailEnd:
        """The end that the data comes from."""
        return self.local if direction == "out" else self.remote

    def sink(self, direction: Direction) -> RailEnd:
        """The end that the data goes to."""
        return self.remote if direction == "out" else self.local


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """The GPU of a rail of this node, and how its memory is to be registered.

    ``emulated``, ``bar1_bytes``: as the facts say. ``far``: reach beyond 2 GiB if its memory and
    its BAR1 allow. ``exclusive``: it takes one process at a time (compute mode).
    """

    slot: str
    uuids: tuple[str, ...] = ()
    methods: tuple[Method, ...] = ()
    emulated: bool = False
    bar1_bytes: int | None = None
    far: bool = False
    exclusive: bool = False


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
        """Whether this end says that it did its part of every message."""
        return self.report is not None and self.report.completed

    @property
    def clean(self) -> bool:
        """Whether this end had nothing to complain about."""
        said = self.report
        return said is not None and not any(
            complaint is not None
            for complaint in (
                *(said.mismatch, said.guard_broken, said.verdicts_differ),
                *(said.source_changed, said.completion_error),
            )
        )


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """Both ends' reports of one exchange; blame depends on which end said what.

    The endpoints are what each end told the other one before they were connected.
    """

    mode: Mode
    operation: Operation
    direction: Direction
    plan: protocol.ExchangePlan
    path_mtu: int
    source_report: EndReport
    sink_report: EndReport
    source_endpoint: protocol.EndpointInfo | None = None
    sink_endpoint: protocol.EndpointInfo | None = None

    @property
    def unverified(self) -> str:
        """What of the plan the sink did not verify, in words; empty when it verified all."""
        report = self.sink_report.report
        wanted = self.plan.iterations * len(self.plan.variants)
        done = {} if report is None else {s.size_bytes: s.iterations_verified for s in report.sizes}
        missing = [
            f"{done.get(size, 0)} of {wanted} messages of {size} bytes"
            for size in self.plan.sizes_bytes
            if done.get(size, 0) < wanted
        ]
        return f"verified only {', '.join(missing)}" if missing else ""

    @property
    def completed(self) -> bool:
        """Whether both ends completed, neither complains of anything, and the sink verified every
        message of the plan.
        """
        ends = (self.source_report, self.sink_report)
        return all(end.completed and end.clean for end in ends) and not self.unverified


def owned_pairs(run: RunSpec, node: str, result: RendezvousResult) -> tuple[OwnedPair, ...]:
    """The pairs that ``node`` initiates, in round order, without those whose peer is not ready.

    A pair is measured only if the profiles of both its nodes ask for pairs.
    """
    if not result.is_ready(node):
        return ()
    return tuple(
        OwnedPair(number, pair.responder, _rails(run, result, pair))
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


def _rails(run: RunSpec, result: RendezvousResult, pair: Pair) -> tuple[RailPair, ...]:
    there = {rail.id: rail for rail in result.nodes[pair.responder].rails}
    return tuple(
        _rail(run, pair, rail, there[rail.id])
        for rail in result.nodes[pair.initiator].rails
        if rail.id in there
    )


def _rail(run: RunSpec, pair: Pair, here: RailInfo, there: RailInfo) -> RailPair:
    ends = ((pair.initiator, here), (pair.responder, there))
    has_gpus = all(rail_has_gpu(run.profile_of(node), rail) for node, rail in ends)
    blockers = (_named(node, rail.blocked_by) for node, rail in ends)
    gpu_blockers = (_named(node, _gpu_blocker(rail)) for node, rail in ends) if has_gpus else ()
    local, remote = (
        RailEnd(node, rail.gpu, rail.nic, rail.methods, rail.limits) for node, rail in ends
    )
    return RailPair(
        rail_id=here.id,
        local=local,
        remote=remote,
        blocked_by=next(filter(None, blockers), None),
        has_gpus=has_gpus,
        gpu_blocked_by=next(filter(None, gpu_blockers), None),
    )


def _gpu_blocker(rail: RailInfo) -> str | None:
    if rail.gpu_blocked_by is None and not rail.methods:
        return "nothing was said of how memory of the rail's GPU registers"
    return rail.gpu_blocked_by


def _named(node: str, reason: str | None) -> str | None:
    """The reason, with the node unless it names it already."""
    return reason if reason is None or node in reason else f"{node}: {reason}"
