"""What a comparison of two runs comes to; published as the schema ``comparison``."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gdrcheck.outcome import Verdict

ABSENT = "absent"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Side(_Model):
    """One of the two runs. ``source`` is what it was read from."""

    source: str
    run_id: str
    created: datetime
    verdict: Verdict
    gdrcheck_version: str
    nodes: int
    limited_to: str | None
    emulated: bool
    software_rdma: bool


class Change(_Model):
    """A case that is not what it was. ``was`` and ``now`` are kinds as in the summary's counts, or
    ``absent``.

    ``case`` is its name in NEW, in OLD if it is absent there; ``old_case`` its name in OLD where a
    renamed device makes that another one. ``codes`` are those of its findings in NEW.
    ``observed``: what NEW says of a failure, or what blocks it or kept it from being measured.
    ``worse``: it makes NEW worse than OLD.
    """

    suite: str
    case: str
    was: str
    now: str
    worse: bool
    old_case: str | None = None
    codes: tuple[str, ...] = ()
    observed: str = ""


class Slower(_Model):
    """A number of one case that got worse by more than the noise of both runs.

    ``slower_share``: how much longer it takes, 0.25 for a rate of 80 instead of 100 Gb/s as for a
    time of 5 instead of 4 us. ``limit_share`` is how much would have been put down to noise.
    ``noise_share`` is one standard deviation of what pairs of its kind changed by; None: there are
    too few to know it.
    """

    case: str
    old_case: str | None
    number: str
    old: float
    new: float
    slower_share: float
    limit_share: float
    noise_share: float | None


class SlowerEnd(_Model):
    """An end that lost a number with more than half of its partners: ``slower_share`` is the lower
    median of its ``pairs``. ``role``: as source or as sink of the data, or both together.
    """

    place: str
    role: str
    check: str
    mode: str | None
    operation: str | None
    number: str
    pairs: int
    slower_share: float
    limit_share: float


class SlowerKind(_Model):
    """All measurements of one kind together: ``slower_share`` is the lower median of theirs."""

    check: str
    mode: str | None
    operation: str | None
    number: str
    profiles: tuple[str, str]
    pairs: int
    slower_share: float
    limit_share: float


class Version(_Model):
    """A version that changed on ``nodes``; on the run as a whole when there are none."""

    name: str
    old: str
    new: str
    nodes: tuple[str, ...]


class Device(_Model):
    """A GPU or NIC that has another name, or is gone: ``new`` None. ``slot`` tells which it is."""

    node: str
    old: str
    new: str | None
    slot: str | None


class Comparison(_Model):
    """OLD against NEW. ``reasons`` say why NEW is worse, one line each; empty when it is not.

    ``notes`` are what limits the comparison. ``same_kind`` counts the cases that are what they
    were; of them ``still_failing`` failed and fail, ``still_unmeasured`` were and are error or
    blocked. ``newly_judged``: pass, and were skipped or not judged. ``unscheduled_pairs``: pairs of
    nodes that OLD measured and NEW did not plan to. ``numbers``: how many were compared;
    ``numbers_gone``: how many of OLD have no value in NEW although their case was measured.
    """

    schema_version: Literal[1] = 1
    old: Side
    new: Side
    worse: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    same_kind: int
    still_failing: int
    still_unmeasured: int
    newly_judged: int
    newly_failing: tuple[Change, ...]
    no_longer_measured: tuple[Change, ...]
    no_longer_judged: tuple[Change, ...]
    vanished: tuple[Change, ...]
    fails_differently: tuple[Change, ...]
    now_excused: tuple[Change, ...]
    fixed: tuple[Change, ...]
    appeared: int
    numbers: int
    numbers_gone: int
    slower: tuple[Slower, ...]
    slower_ends: tuple[SlowerEnd, ...]
    slower_kinds: tuple[SlowerKind, ...]
    versions: tuple[Version, ...]
    devices: tuple[Device, ...]
    nodes_only_old: tuple[str, ...]
    nodes_only_new: tuple[str, ...]
    unscheduled_pairs: int

    @property
    def exit_code(self) -> int:
        """0 when NEW is no worse than OLD, 1 when it is."""
        return int(self.worse)
