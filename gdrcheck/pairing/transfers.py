"""What is done with the endpoints of a rail: exchanges, measurements, comparisons of ways."""

from __future__ import annotations

from collections.abc import Callable

from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.link import Link, RailLink
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, RailPair
from gdrcheck.pairing.rail import RailError
from gdrcheck.pairing.reports import End, R, StagedPlan, StagedReport, TimedPlan, TimedReport
from gdrcheck.pairing.serve import worker_request
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.session_messages import (
    Arm,
    Armed,
    Go,
    Result,
    Staged,
    StagedDone,
    Timed,
    TimedDone,
)
from gdrcheck.pairing.table import ANNOUNCED, CellKey
from gdrcheck.transfer import FAR_BYTES, Direction, Mode, RegionKey, Role, Variant
from gdrcheck.verbs import protocol

# What an exchange is to move, by the path MTU.
Messages = Callable[[int], protocol.ExchangePlan]


class RailTransfers:
    """Transfers on one rail of a session. Used by one thread at a time.

    Each takes the queue pairs and gives them back if it succeeded on both ends: else the next
    transfer makes new ones. All raise EndFailure, which names the end that could not do its part,
    and ChannelLost when the peer is gone.
    """

    def __init__(self, session: PairSession, pair: RailPair) -> None:
        self.session = session
        self.link = RailLink(session, pair)
        self._pair = pair
        self._rail = session.rails[pair.rail_id]

    def exchange(
        self, key: CellKey, messages: Messages, run_tag: int, deadline: Deadline
    ) -> ExchangeResult:
        """Run one exchange; what went wrong with the data is in the result."""
        link = self.link.take(deadline)
        plan = messages(link.path_mtu)
        size_bytes = max(plan.sizes_bytes)
        self._check(link, key.mode, key.direction, plan.variants, size_bytes, far=plan.far)
        out = key.direction == "out"
        near_role, far_role = _roles(key.direction)
        arm = Arm(
            rail=self._pair.rail_id,
            operation=key.operation,
            role=far_role,
            variants=plan.variants,
            far=plan.far,
            sizes_bytes=plan.sizes_bytes,
            iterations=plan.iterations,
            run_tag=run_tag,
            direction=0 if out else 1,
            flip=plan.flip,
        )
        ours = worker_request(arm.model_copy(update={"role": near_role}), protocol.Arm)
        limit_s = self.session.deadlines.connect_s
        self.session.together(arm, Armed, lambda: self._rail.arm(ours, deadline), limit_s, deadline)
        near, far = self._go(deadline)
        if near.completed and far.completed:
            self.link.back(link)
        return ExchangeResult(
            mode=key.mode,
            operation=key.operation,
            direction=key.direction,
            plan=plan,
            path_mtu=link.path_mtu,
            source_report=near if out else far,
            sink_report=far if out else near,
            source_endpoint=link.near if out else link.far,
            sink_endpoint=link.far if out else link.near,
        )

    def timed(
        self, plan: TimedPlan, direction: Direction, variant: Variant, deadline: Deadline
    ) -> TimedReport:
        """Run one measurement."""
        link = self.link.take(deadline)
        self._check(link, plan.mode, direction, (variant,), plan.size_bytes)
        near_role, far_role = _roles(direction)
        theirs = Timed(
            rail=self._pair.rail_id,
            kind=plan.kind,
            role=far_role,
            variant=variant,
            size_bytes=plan.size_bytes,
            iterations=plan.iterations,
            seconds=plan.seconds,
            depth=plan.depth,
            queue_pairs=plan.queue_pairs,
            both_ways=plan.both_ways,
        )
        ours = worker_request(theirs.model_copy(update={"role": near_role}), protocol.Timed)
        limit_s = self.session.deadlines.check_s + plan.seconds
        report, done = self.session.together(
            theirs, TimedDone, lambda: self._rail.timed(ours, deadline), limit_s, deadline
        )
        near = End(self._pair.local.node, report)
        far = End(self._pair.remote.node, done.report)
        result = TimedReport(plan, direction, *_source_first(near, far, direction))
        if result.completed:
            self.link.back(link)
        return result

    def staged(
        self,
        plan: StagedPlan,
        direction: Direction,
        variant: Variant,
        run_tag: int,
        deadline: Deadline,
    ) -> StagedReport:
        """Run one comparison of ways, from GPU memory to GPU memory."""
        link = self.link.take(deadline)
        self._check(link, "gpu-gpu", direction, (variant,), plan.size_bytes)
        near_role, far_role = _roles(direction)
        theirs = Staged(
            rail=self._pair.rail_id,
            role=far_role,
            variant=variant,
            size_bytes=plan.size_bytes,
            iterations=plan.iterations,
            run_tag=run_tag,
        )
        ours = worker_request(theirs.model_copy(update={"role": near_role}), protocol.Staged)
        limit_s = self.session.deadlines.check_s
        report, done = self.session.together(
            theirs, StagedDone, lambda: self._rail.staged(ours, deadline), limit_s, deadline
        )
        near = End(self._pair.local.node, report)
        far = End(self._pair.remote.node, done.report)
        result = StagedReport(plan, direction, *_source_first(near, far, direction))
        if result.completed:
            self.link.back(link)
        return result

    def _go(self, deadline: Deadline) -> tuple[EndReport, EndReport]:
        """Both ends' reports, this end's first. What a child itself reported is no exception."""
        local, remote = self._pair.local.node, self._pair.remote.node
        near, far = self.session.both(
            Go(rail=self._pair.rail_id),
            Result,
            lambda: self._rail.go(deadline),
            self.session.deadlines.check_s,
            deadline,
        )
        for failure in (near, far):
            if isinstance(failure, EndFailure) and failure.error is None:
                raise failure
        here, there = self.link.bindings[local], self.link.bindings[remote]
        return (
            EndReport(local, None, near.error, here)
            if isinstance(near, RailError)
            else EndReport(local, near, binding=here),
            EndReport(remote, None, far.error, there)
            if isinstance(far, EndFailure)
            else EndReport(remote, far.report, binding=there),
        )

    def _check(
        self,
        link: Link,
        mode: Mode,
        direction: Direction,
        variants: tuple[Variant, ...],
        size_bytes: int,
        *,
        far: bool = False,
    ) -> None:
        """Both ends have the memory that is to be used. EndFailure if one has not."""
        out = direction == "out"
        ends = (self._pair.local.node, link.near), (self._pair.remote.node, link.far)
        (source, source_info), (sink, sink_info) = ends if out else ends[::-1]
        try:
            self.link.need_gpus(mode, out=out)
            for variant in variants:
                _check_room(source, source_info, variant.source, size_bytes, far=far)
                _check_room(sink, sink_info, variant.sink, size_bytes, far=far)
        except EndFailure:
            # Nothing was begun.
            self.link.back(link)
            raise


def _check_room(
    node: str, info: protocol.EndpointInfo, key: RegionKey, size_bytes: int, *, far: bool
) -> None:
    """``node`` told of a region that the messages fit in. EndFailure if not."""
    length_bytes = next((region.length_bytes for region in info.regions if region.key == key), 0)
    least_bytes = size_bytes + protocol.MARGIN_BYTES
    if far and key.memory == "gpu":
        least_bytes += FAR_BYTES
    if length_bytes < least_bytes:
        text = f"told of {length_bytes} bytes of {key.text()}, {least_bytes} are needed"
        raise EndFailure(
            f"{node}: {text}",
            side=node,
            step=ANNOUNCED,
            error=protocol.ErrorInfo(step=ANNOUNCED, text=text),
        )


def _roles(direction: Direction) -> tuple[Role, Role]:
    """What this end is, and what the other one."""
    return ("source", "sink") if direction == "out" else ("sink", "source")


def _source_first(near: End[R], far: End[R], direction: Direction) -> tuple[End[R], End[R]]:
    return (near, far) if direction == "out" else (far, near)
