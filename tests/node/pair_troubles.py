"""What goes wrong in pairs that a fake walk measures, and how its process is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WIDE_VARIABLE, TROUBLES_VARIABLE = "GDRCHECK_TEST_WIDE_BYTES", "GDRCHECK_TEST_TROUBLES"


@dataclass(frozen=True)
class Trouble:
    """What goes wrong when a rail is measured with ``peer``; hangs and deaths do so once."""

    peer: str
    what: Literal["hang", "die", "slow", "wrong data", "no answer"]
    rail: int = 0
