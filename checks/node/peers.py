"""Two GPUs of a node, as the subject of a check."""

from __future__ import annotations

from dataclasses import dataclass

from checks.conftest import PromisedGpu, promised_gpus
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_peers


@dataclass(frozen=True, slots=True)
class GpuPair:
    """Two GPUs of the node that the profile promises."""

    where: Where
    one: PromisedGpu
    other: PromisedGpu

    @property
    def slots(self) -> tuple[str, str]:
        """Those of both, once they are open."""
        return self.one.slot or "", self.other.slot or ""


def gpu_pairs(profile: Profile, facts: Facts) -> list[tuple[str, GpuPair]]:
    """Each two of the GPUs that the profile promises, with what names their case."""
    gpus = {gpu.where.text(): gpu for gpu in promised_gpus(profile, facts)}
    pairs = [
        GpuPair(where, gpus[f"{where.node}/{where.gpu}"], gpus[where.peer or ""])
        for where in gpu_peers.places(profile, facts.node)
    ]
    return [(gpu_peers.case_of(pair.where), pair) for pair in pairs]
