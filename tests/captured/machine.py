"""What a machine is: its tree, what was bought, and what is known to be true of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdrcheck.expect import Distance
from gdrcheck.profile import Profile
from tests.captured.tree import Tree


@dataclass(frozen=True, slots=True)
class ExpectedRail:
    """A rail as a person who knows the machine would write it down."""

    gpu: str | None
    nic: str
    distance: Distance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A healthy machine. ``collected``: the host collector ran on it. ``unreadable``: facts that it
    cannot give for another reason.

    ``not_judged``: the checks, by name, whose subject its profile does not promise, or which it
    cannot show; all others pass. ``distances``: of
    ``(gpu slot, nic slot)``, not only of rails.
    """

    name: str
    tree: Tree
    profile: Profile
    rails: tuple[ExpectedRail, ...]
    gpus: tuple[str, ...] = ()
    distances: dict[tuple[str, str], Distance]
    collected: bool = True
    unreadable: tuple[str, ...] = ()
    not_judged: str

    def write(self, root: Path) -> Path:
        """Writes the tree below ``root``, which it returns."""
        self.tree.write(root)
        return root
