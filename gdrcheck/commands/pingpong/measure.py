"""What is measured over one session, and what each exchange and each number came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gdrcheck import gates
from gdrcheck.commands.pingpong.party import tell
from gdrcheck.commands.pingpong.report import Number, Transfer
from gdrcheck.commands.pingpong.speed import SpeedPlans, Speeds
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Outcome, PeerError
from gdrcheck.pairing.hand_messages import End, Settings
from gdrcheck.pairing.pairs import ExchangeResult, RailEnd, RailPair
from gdrcheck.pairing.plan import BANDWIDTH_SIZES_BYTES, LATENCY_BYTES, ProgramPlan
from gdrcheck.pairing.program import PairProgram
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.table import Cell, CellKey
from gdrcheck.pairing.truth import Ruling
from gdrcheck.rules import numbers
from gdrcheck.run import Deadlines
from gdrcheck.transfer import Mode, Operation, has_gpu


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller wants measured. ``modes_named``, ``sizes_named``: not just by default."""

    sizes_bytes: tuple[int, ...]
    sizes_named: bool
    iterations: int
    modes: tuple[Mode, ...]
    modes_named: bool
    operations: tuple[Operation, ...]
    numbers: bool

    def modes_between(self, ends: Sequence[End]) -> tuple[Mode, ...]:
        """The modes to measure: unless they were named, an end may want host memory only."""
        if self.modes_named or not any(end.gpu_unwanted for end in ends):
            return self.modes
        return tuple(mode for mode in self.modes if not has_gpu(mode))


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it; fields as in ``report.Report``."""

    path_mtu: int | None
    transfers: tuple[Transfer, ...]
    numbers: tuple[Number, ...]
    findings: tuple[Finding, ...]
    not_measured: tuple[str, ...]


def measure(
    session: PairSession,
    caller: End,
    listener: End,
    settings: Settings,
    waits: Deadlines,
    wish: Wish,
) -> Measured:
    """All that was wished, between two ends that can be measured. PeerError when one is lost."""
    modes = wish.modes_between((caller, listener))
    rail = rail_pair(caller, listener, gpus=any(has_gpu(mode) for mode in modes))
    plan = ProgramPlan(
        sizes_bytes=wish.sizes_bytes,
        iterations=wish.iterations,
        modes=modes,
        operations=wish.operations,
        around_mtu=not wish.sizes_named,
    )
    program = PairProgram(
        partial(_usable, session), (rail,), plan, waits, caller.node, on_cell=_tell_progress
    )
    return _Measuring(program, rail, plan, settings, wish).all()


def _usable(session: PairSession) -> PairSession:
    """The one session that there is: a listener that is lost is not called again."""
    if not session.usable:
        raise PeerError(f"{session.peer}: the session is lost", side=session.peer, step="session")
    return session


def rail_pair(caller: End, listener: End, *, gpus: bool) -> RailPair:
    """The one rail between both ends, seen from the caller."""
    ends = (caller, listener)
    blocked = [_told(end, end.rail.blocked_by) for end in ends if end.rail.blocked_by]
    lacking = [_told(end, end.rail.gpu_blocked_by) for end in ends if end.rail.gpu_blocked_by]
    return RailPair(
        rail_id=0,
        local=_rail_end(caller),
        remote=_rail_end(listener),
        blocked_by=next(iter(blocked), None),
        has_gpus=gpus,
        gpu_blocked_by=next(iter(lacking), None) if gpus else None,
    )


def _told(end: End, reason: str | None) -> str:
    return reason if reason and end.node in reason else f"{end.node}: {reason}"


def _rail_end(end: End) -> RailEnd:
    rail = end.rail
    return RailEnd(end.node, rail.gpu, rail.nic, rail.methods, rail.limits)


def _tell_progress(rail: RailPair, key: CellKey, cell: Cell) -> None:
    way = f"{rail.source(key.direction).node} -> {rail.sink(key.direction).node}"
    became = _became(cell) if cell.repeat is None else f"again, alone: {_became(cell.repeat)}"
    tell(f"{key.mode:<9} {key.operation:<14} {way}: {became}")


def _became(cell: Cell) -> str:
    if cell.passed:
        return f"{messages(cell)} messages, every byte right"
    if cell.blocked_by is not None:
        return f"not tried: {cell.blocked_by}"
    if cell.failure is not None:
        return cell.failure.text
    return _trouble(cell.result) if cell.result is not None else "not measured"


def _trouble(result: ExchangeResult) -> str:
    """What the ends saw, in a word or two; what it means says the finding."""
    seen: list[str] = []
    for end in (result.source_report, result.sink_report):
        report = end.report
        if end.error is not None:
            seen.append(f"{end.node}: {end.error.text}")
        elif report is not None and report.mismatch is not None:
            seen.append(f"{end.node}: wrong data")
        elif report is not None and report.completion_error is not None:
            seen.append(f"{end.node}: {report.completion_error.status}")
    return "; ".join(seen) or result.unverified or "not right"


def messages(cell: Cell) -> int:
    """How many messages the sink has verified, every byte."""
    report = cell.result.sink_report.report if cell.result else None
    return sum(one.iterations_verified for one in report.sizes) if report else 0


class _Measuring:
    """The exchanges of the plan, then the numbers of what was right."""

    def __init__(
        self,
        program: PairProgram,
        rail: RailPair,
        plan: ProgramPlan,
        settings: Settings,
        wish: Wish,
    ) -> None:
        self._program, self._rail, self._plan = program, rail, plan
        self._settings, self._wish = settings, wish
        self._findings: list[Finding] = []

    def all(self) -> Measured:
        """Everything. PeerError when the listener is lost while numbers are taken."""
        cells = self._program.correctness()[self._rail.rail_id].cells
        rulings = self._program.rulings(self._rail.rail_id)
        keys = [
            CellKey(mode, operation, direction)
            for mode in self._plan.modes
            for operation in self._plan.operations
            for direction in self._plan.directions
        ]
        transfers = tuple(self._transfer(key, cells.get(key), rulings.get(key)) for key in keys)
        mtus = [cell.result.path_mtu for cell in cells.values() if cell.result is not None]
        self._look_at_mtus(cells)
        passed = [one for one in transfers if one.outcome is Outcome.PASSED]
        taken: tuple[Number, ...] = ()
        if self._wish.numbers:
            taken, found = Speeds(self._program, self._rail, self._speed_plans()).taken(passed)
            self._findings += found
        return Measured(
            path_mtu=mtus[-1] if mtus else None,
            transfers=transfers,
            numbers=taken,
            findings=tuple(self._findings),
            not_measured=tuple(_not_measured(transfers, taken)),
        )

    def _transfer(self, key: CellKey, cell: Cell | None, ruling: Ruling | None) -> Transfer:
        outcome, reason = self._judged(cell, ruling)
        return Transfer(
            source=self._rail.source(key.direction).where.text(),
            sink=self._rail.sink(key.direction).where.text(),
            direction=key.direction,
            mode=key.mode,
            operation=key.operation,
            outcome=outcome,
            messages=messages(cell) if cell else 0,
            reason=reason,
        )

    def _judged(self, cell: Cell | None, ruling: Ruling | None) -> tuple[Outcome, str]:
        if cell is None or ruling is None:
            return Outcome.ERROR, "not measured"
        if ruling.finding is not None:
            self._findings.append(ruling.finding)
            return Outcome.FAILED, gates.named(ruling.finding)
        if ruling.blocked_by is not None:
            return Outcome.BLOCKED, ruling.blocked_by
        if ruling.error is not None or not cell.passed:
            return Outcome.ERROR, ruling.error or "not measured"
        return Outcome.PASSED, ""

    def _speed_plans(self) -> SpeedPlans:
        sizes = self._wish.sizes_bytes if self._wish.sizes_named else BANDWIDTH_SIZES_BYTES
        latency_bytes = min(sizes) if self._wish.sizes_named else LATENCY_BYTES
        return SpeedPlans(self._plan.modes, latency_bytes, sizes, self._settings.queue_pairs)

    def _look_at_mtus(self, cells: Mapping[CellKey, Cell]) -> None:
        """The two ports' own MTUs, as the ends told them to each other; transfers pass anyway."""
        for key, cell in cells.items():
            near = cell.result.source_endpoint if cell.result else None
            far = cell.result.sink_endpoint if cell.result else None
            if key.direction == "out" and near is not None and far is not None:
                ports = self._rail.local.port, self._rail.remote.port
                finding = numbers.mtu_differs(ports[0], near.mtu, ports[1], far.mtu)
                self._findings += [finding] if finding is not None else []
                return


def _not_measured(transfers: tuple[Transfer, ...], taken: tuple[Number, ...]) -> Iterator[str]:
    """What should have been measured and was not, those for one reason together."""
    grouped: dict[str, list[str]] = {}
    all_of_it: tuple[Transfer | Number, ...] = (*transfers, *taken)
    for one in all_of_it:
        if one.outcome in (Outcome.ERROR, Outcome.BLOCKED):
            what = f"{one.mode} {one.operation}"
            by = "blocked by " if one.outcome is Outcome.BLOCKED else ""
            grouped.setdefault(f"{by}{one.reason}", []).append(what)
    for reason, whats in grouped.items():
        yield f"{', '.join(dict.fromkeys(whats))}: {reason}"
