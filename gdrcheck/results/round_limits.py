"""Whether the rounds of pairs that somebody asked for can come to a result. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gdrcheck.pairing.plan import is_wide, planned_s, wide_bytes
from gdrcheck.results.events import MAX_FILE_BYTES
from gdrcheck.results.pairs import scheduled
from gdrcheck.run import RunSpec


def too_many_rounds(run: RunSpec, option: str, longer: str) -> Iterator[str]:
    """Why hours of measuring would end at a deadline, or leave more than a merge reads.

    ``option`` is where the rounds were said, ``longer`` what allows them more time.
    """
    if (planned := planned_s(run)) > run.waits.phase_s:
        yield (
            f"{option} {run.rounds}: they are planned to take {planned:.0f} s, and the deadline of "
            f"the pairs is {run.waits.phase_s:.0f} s; set fewer, or {longer}"
        )
    written = wide_bytes(run) if is_wide(run) else {}
    most = max(written, key=lambda name: written[name], default="")
    if most and written[most] > MAX_FILE_BYTES:
        pairs = sum(pair.initiator == most for pair in scheduled(run))
        yield (
            f"{option} {run.rounds}: the results of {most}, which would measure {pairs} pairs, "
            f"come to about {written[most] >> 20} MiB, and a merge reads {MAX_FILE_BYTES >> 20} "
            f"MiB of a node; set {pairs * MAX_FILE_BYTES // written[most]} or less"
        )
