"""The findings of a run by their cause, each with its places folded. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Entry, Severity, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.data import Data
from gdrcheck.results.folding import fold
from gdrcheck.results.summary import Summary, SummaryCase, SummaryFinding

MAX_EXAMPLES = 50
MAX_PLACES = 400


@dataclass(frozen=True, slots=True)
class Cause:
    """All findings of one code that count alike. ``kind``: failed, warned, waived, not measured.

    ``entry`` None: a code that this version does not know. ``more``: findings beyond ``examples``.
    """

    code: str
    kind: str
    entry: Entry | None
    count: int
    places: tuple[str, ...]
    hidden_places: int
    examples: tuple[SummaryFinding, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Cases that were not measured for one reason."""

    outcome: str
    reason: str
    cases: tuple[str, ...]
    more: int


class Slots:
    """The PCI slots of the GPUs and NICs that rails have, by the names that findings use."""

    def __init__(self, data: Data) -> None:
        self._known = {
            (node.name, device): slot
            for node in data.nodes
            for rail in node.rails
            for device, slot in ((rail.gpu, rail.gpu_slot), (rail.nic, rail.nic_slot))
            if device and slot
        }

    def of(self, where: Where) -> list[tuple[str, str]]:
        """The devices of ``where`` whose slots are known, each with its slot."""
        return [
            (device, slot)
            for device in (where.gpu, where.nic)
            if device and (slot := self._known.get((where.node, device)))
        ]


ORDER = ("failed", "not measured", "warned", "waived")


def causes(summary: Summary) -> list[Cause]:
    """Failures first, then what was not measured, then warnings, then what the owner accepts."""
    groups: dict[tuple[str, str], list[SummaryFinding]] = defaultdict(list)
    for one in summary.findings:
        groups[kind_of(one), one.finding.code].append(one)
    ordered = sorted(groups.items(), key=lambda group: ORDER.index(group[0][0]))
    return [_cause(code, kind, found) for (kind, code), found in ordered]


def unmeasured(summary: Summary) -> list[Unmeasured]:
    """What no finding tells of, by reason; what stands on one blocker is together."""
    explained = {one.case for one in summary.findings}
    groups: dict[tuple[str, str], list[SummaryCase]] = defaultdict(list)
    for one in summary.unmeasured:
        if one.case not in explained:
            reason = f"by {one.blocked_by}" if one.blocked_by else one.reason
            groups[str(one.outcome), reason].append(one)
    return [
        Unmeasured(
            outcome,
            reason,
            cases := tuple(one.case for one in found[:MAX_EXAMPLES]),
            sum(one.stands_for for one in found) - len(cases),
        )
        for (outcome, reason), found in groups.items()
    ]


def kind_of(one: SummaryFinding) -> str:
    """How the finding counts: one of ``ORDER``."""
    if one.waived_until is not None:
        return "waived"
    if one.outcome is Outcome.FAILED:
        return "warned" if one.finding.severity is Severity.WARN else "failed"
    return "not measured"


def _cause(code: str, kind: str, found: Sequence[SummaryFinding]) -> Cause:
    places = fold(dict.fromkeys(one.finding.where.text() for one in found))
    return Cause(
        code=code,
        kind=kind,
        entry=ENTRIES_BY_CODE.get(code),
        count=len(found),
        places=tuple(places[:MAX_PLACES]),
        hidden_places=max(0, len(places) - MAX_PLACES),
        examples=tuple(found[:MAX_EXAMPLES]),
        more=_more(found),
    )


def _more(found: Sequence[object]) -> int:
    return max(0, len(found) - MAX_EXAMPLES)


def bad_pairs(summary: Summary, numbers: dict[str, int]) -> Iterable[tuple[int, int, str]]:
    """Numbers of both nodes and the code, for each finding about two nodes."""
    for one in summary.findings:
        where = one.finding.where
        if where.peer in numbers and where.node in numbers:
            yield numbers[where.node], numbers[where.peer], one.finding.code
