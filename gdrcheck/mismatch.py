"""The types that tell how received bytes differed from the expected ones.

Apart from ``gdrcheck.pattern``, so that a process that only passes results on needs no numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LooksLike = Literal["poison", "previous iteration", "zeros", "shifted", "neighbour", "other"]


class Mismatch(BaseModel):
    """One message whose bytes were wrong.

    ``first_bad_offset`` counts from the message's first byte. ``expected_hex`` and ``got_hex`` are
    the same few bytes of the message, from ``excerpt_offset`` on. ``looks_like`` is judged over
    all wrong bytes: ``poison`` was never written, ``previous iteration`` is stale, ``zeros`` was
    lost, ``shifted`` is right data in the wrong place, ``neighbour`` is data of an adjoining range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_bad_offset: int = Field(ge=0)
    bad_bytes: int = Field(ge=1)
    excerpt_offset: int = Field(ge=0)
    expected_hex: str
    got_hex: str
    looks_like: LooksLike

    @property
    def origin(self) -> str:
        """``looks_like`` as a sentence has it."""
        return "nothing known" if self.looks_like == "other" else self.looks_like


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the GPU and the CPU say of the same bytes of GPU memory; None: every byte is right."""

    by_gpu: Mismatch | None
    by_cpu: Mismatch | None

    @property
    def right(self) -> bool:
        """Whether both found every byte right."""
        return self.by_gpu is None and self.by_cpu is None

    @property
    def disagree(self) -> bool:
        """Whether they contradict each other, be it only in which bytes are wrong, or how."""
        return self.by_gpu != self.by_cpu
