"""Stands in for the layer over pyverbs: devices open, or not, as the facts of a tree say.

The choice of a GID is the real one, made among the entries and interfaces that the tree shows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gdrcheck.facts import Facts, LinkLayer, RdmaDevice, Unreadable
from gdrcheck.profile import Gid
from gdrcheck.verbs import gid
from gdrcheck.verbs.errors import VerbsError

REAL = "gdrcheck.verbs.device"
# They take names out of that module when they are loaded.
USERS = ("checks.node.check_verbs",)


@dataclass(frozen=True, slots=True)
class PortAnswer:
    """What ``ibv_query_port`` says, as far as checks of one node ask."""

    number: int
    link_layer: LinkLayer


@dataclass(frozen=True, slots=True)
class Device:
    """An open device."""

    facts: RdmaDevice
    netdevs: frozenset[str]

    def port(self, number: int) -> PortAnswer:
        """The port; VerbsError if there is none, or its link layer is not to be read."""
        port = self.facts.port(number)
        if port is None or isinstance(port.link_layer, Unreadable):
            step = f"query port {number} of {self.facts.name}"
            raise VerbsError(step, step=step, error_number=22)
        return PortAnswer(number, port.link_layer)

    def choose_gid(self, port: PortAnswer, wanted: Gid) -> gid.GidChoice:
        """The GID that the port would use; NoUsableGid if there is none."""
        facts = self.facts.port(port.number)
        entries = facts.gids if facts is not None and isinstance(facts.gids, tuple) else ()
        return gid.choose(
            entries,
            link_layer=port.link_layer,
            wanted=wanted,
            local_netdevs=self.netdevs,
        )


@contextmanager
def in_place_of_pyverbs(facts: Facts, root: Path) -> Iterator[None]:
    """Meanwhile, checks that are loaded get these devices for real ones."""
    net = root / "sys/class/net"
    netdevs = frozenset(path.name for path in net.iterdir()) if net.is_dir() else frozenset()

    @contextmanager
    def open_device(name: str) -> Iterator[Device]:
        device = facts.rdma_device(name)
        step = f"open RDMA device {name}"
        if device is None or isinstance(device.verbs, Unreadable):
            raise VerbsError(step, step=step)
        if device.verbs.error is not None:
            number = device.verbs.error_number
            raise VerbsError(f"{step}: {device.verbs.error}", step=step, error_number=number)
        yield Device(device, netdevs)

    module = ModuleType(REAL)
    module.__dict__.update(Device=Device, open_device=open_device)
    before = {name: sys.modules.pop(name, None) for name in (REAL, *USERS)}
    sys.modules[REAL] = module
    try:
        yield
    finally:
        for name, loaded in before.items():
            sys.modules.pop(name, None)
            if loaded is not None:
                sys.modules[name] = loaded
