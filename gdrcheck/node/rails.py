"""What a node tells the others of its rails: which are ready, and what blocks the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdrcheck import rails
from gdrcheck.facts import Facts
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.profile import Profile
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.events import clip

MAX_REASON_CHARS = 400
# The checks that a transfer stands on. What others find, such as a slow link or old firmware, is no
# reason not to measure.
NEEDED = (
    "device_present",
    "device_opens",
    "port_active",
    "gid_usable",
    "memlock_effective",
    "host_memory_registers",
)


def ready_rails(
    profile: Profile, facts: Facts | None, node_cases: Sequence[CaseResult]
) -> tuple[RailInfo, ...]:
    """The promised rails, each with what the node phase found against it, if anything."""
    if facts is None:
        count = profile.rails.count if profile.rails else 0
        return tuple(
            RailInfo(id=index, nic=f"rail{index}", blocked_by="facts were not read")
            for index in range(count)
        )
    return tuple(
        RailInfo(
            id=rail.id,
            gpu=rail.gpu,
            nic=rail.nic,
            port=rail.port,
            blocked_by=_blocker(rail, node_cases) or rail.missing,
        )
        for rail in rails.resolve(profile, facts)
    )


def _blocker(rail: rails.Rail, cases: Iterable[CaseResult]) -> str | None:
    """The first case against the rail; one with a finding of its own before one without."""
    against = [
        case
        for case in cases
        # A waiver excuses what is blocked; it does not make the rail usable.
        if case.where.nic == rail.nic
        and case.id.partition("[")[0] in NEEDED
        and (case.fails or case.outcome in (Outcome.ERROR, Outcome.BLOCKED))
    ]
    for case in against:
        if case.outcome is Outcome.FAILED and case.findings:
            return clip(
                f"{case.findings[0].code} at {case.findings[0].where.text()}", MAX_REASON_CHARS
            )
    for case in against:
        if case.blocked_by:
            return clip(case.blocked_by, MAX_REASON_CHARS)
    return clip(f"{against[0].outcome} in {against[0].id}", MAX_REASON_CHARS) if against else None
