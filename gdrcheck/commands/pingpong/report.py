"""The result of a ping-pong by hand, as ``--json`` prints it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gdrcheck import __version__
from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.pairing.hand_messages import End
from gdrcheck.registration import Method
from gdrcheck.transfer import Direction, Mode, Operation


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReportEnd(_Model):
    """One end. ``methods`` are those by which its GPU's memory was registered."""

    node: str
    gpu: str | None
    nic: str
    port: int
    methods: tuple[Method, ...]
    about: str
    emulated: bool
    software_rdma: bool

    @classmethod
    def of(cls, end: End) -> ReportEnd:
        """The end as it told of itself."""
        return cls(
            node=end.node,
            gpu=end.rail.gpu,
            nic=end.rail.nic,
            port=end.rail.port,
            methods=end.rail.methods,
            about=end.about,
            emulated=end.emulated,
            software_rdma=end.software,
        )


class Transfer(_Model):
    """One exchange. ``messages`` is how many the sink has verified, every byte.

    ``direction`` is seen from the caller. ``reason`` says what it failed at or was blocked by: for
    a finding ``CODE at place``.
    """

    source: str
    sink: str
    direction: Direction
    mode: Mode
    operation: Operation
    outcome: Outcome
    messages: int = 0
    reason: str = ""


class Number(_Model):
    """One measurement of speed; times in us, half of a round trip, rates in Gb/s (bits).

    ``expected_gbps`` None: not judged, and ``reason`` says why.
    """

    source: str
    sink: str
    direction: Direction
    mode: Mode
    kind: Literal["latency", "bandwidth"]
    operation: Operation
    size_bytes: int
    queue_pairs: int
    outcome: Outcome
    median_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None
    gbps: float | None = None
    expected_gbps: float | None = None
    limited_by: str = ""
    reason: str = ""


class Report(_Model):
    """All of it. ``not_measured``: what should have been measured and was not, a sentence each.

    ``notes`` are what a reader must know beside the verdict.
    """

    schema_version: Literal[1] = 1
    gdrcheck_version: str = __version__
    verdict: Verdict
    emulated: bool
    software_rdma: bool
    caller: ReportEnd
    listener: ReportEnd | None
    path_mtu: int | None
    transfers: tuple[Transfer, ...]
    numbers: tuple[Number, ...]
    findings: tuple[Finding, ...]
    not_measured: tuple[str, ...]
    notes: tuple[str, ...]
    duration_s: float


def verdict(
    transfers: Iterable[Transfer], findings: Iterable[Finding], not_measured: Iterable[str]
) -> Verdict:
    """FAIL with a finding that is no warning, PASS when there is something and all of it is right,
    else INCOMPLETE.
    """
    outcomes = {one.outcome for one in transfers}
    if any(one.severity is Severity.FAIL for one in findings) or Outcome.FAILED in outcomes:
        return Verdict.FAIL
    if any(not_measured) or outcomes != {Outcome.PASSED}:
        return Verdict.INCOMPLETE
    return Verdict.PASS
