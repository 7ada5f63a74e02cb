"""What a broken twin is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.captured.edits import Edit
from tests.captured.gpu_stand_in import NOTHING_WRONG, Wrong

RDMA = "sys/class/infiniband"
PCI = "sys/bus/pci/devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """``code`` is found at each of ``places``, and nothing else is but ``also``, code and place.

    ``promise``: changes to the profile, as nested keys that replace what stands there. ``blocks``:
    the checks, by name, that stand on what failed; each of their cases for that place is blocked
    by the finding. ``wrong`` is what CUDA and registrations do against the facts. ``name`` tells
    several twins of one code apart.
    """

    code: str
    machine: str
    places: tuple[str, ...] = ("node1",)
    edits: tuple[Edit, ...] = ()
    promise: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[str, ...] = ()
    wrong: Wrong = NOTHING_WRONG
    also: tuple[tuple[str, str], ...] = ()
    name: str = ""

    @property
    def id(self) -> str:
        """``PORT-RATE-LOW-dgx``: the name of the test."""
        return "-".join(filter(None, (self.code, self.machine, self.name)))
