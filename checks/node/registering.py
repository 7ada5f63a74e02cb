"""Attempts at registering memory of a GPU with a NIC, made once for the cases of both methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdrcheck.facts import Facts, Nvml
from gdrcheck.facts import Gpu as GpuFacts
from gdrcheck.findings.model import Finding
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic
from gdrcheck.registration import METHODS, Attempt, Method
from gdrcheck.rules import registration as rules
from gdrcheck.rules.registration_evidence import evidence_of_attempt

if TYPE_CHECKING:
    from gdrcheck.gpu.context import Gpu
    from gdrcheck.verbs.device import Device


class Registering:
    """Attempts at registering memory of one GPU with one NIC, both open.

    ``made`` keeps them for the other method's case: each is made once in this process.
    """

    def __init__(
        self,
        pair: GpuNic,
        gpu: Gpu,
        device: Device,
        profile: Profile,
        facts: Facts,
        made: dict[str, Attempt],
    ) -> None:
        self.pair = pair
        self.gpu = gpu
        self.device = device
        self._profile = profile
        self._facts = facts
        self._made = made

    def attempt(self, method: Method) -> Attempt:
        """What became of the attempt by ``method``."""
        from gdrcheck.memory.attempt import attempt

        key = f"{self.pair.where.text()}, {method}"
        if key not in self._made:
            nvml = self._facts.nvml
            answer = nvml.gpu(self.pair.gpu_slot or "") if isinstance(nvml, Nvml) else None
            total, free = _bar1(answer)
            self._made[key] = attempt(
                self.gpu, self.device, method, bar1_bytes=total, bar1_free_bytes=free
            )
        return self._made[key]

    def works(self, method: Method) -> bool:
        """Whether the attempt by ``method`` was a success."""
        attempt = self.attempt(method)
        evidence = evidence_of_attempt(attempt, self.pair, self._facts)
        return rules.works(attempt, evidence, self.pair)

    def finding(self, method: Method) -> Finding | None:
        """What is wrong with it. NotPromised or NotJudged where the profile asks for neither."""
        attempt = self.attempt(method)
        evidence = evidence_of_attempt(attempt, self.pair, self._facts)
        (other,) = (one for one in METHODS if one != method)
        return rules.judge_attempt(
            self.pair, attempt, evidence, self._profile, lambda: self.works(other)
        )


def _bar1(answer: GpuFacts | None) -> tuple[int | None, int | None]:
    """Total and free bytes of BAR1; None where they are not known."""
    total = answer.bar1_total_bytes if answer else None
    used = answer.bar1_used_bytes if answer else None
    # No GPU has a BAR1 of nothing: the driver does not know it.
    if not isinstance(total, int) or not total:
        return None, None
    return total, total - used if isinstance(used, int) else None
