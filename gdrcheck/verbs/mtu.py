"""Which path MTU two ends use: never one below what the profile promises. Pure."""

from __future__ import annotations

from typing import Literal

from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.protocol import MTU_HERE, MTU_THERE

Mtu = Literal[256, 512, 1024, 2048, 4096]
_MTUS: tuple[Mtu, ...] = (4096, 2048, 1024, 512, 256)


def own_mtu(active_mtu: int, promised: Mtu | None) -> Mtu:
    """The MTU that a port offers: the promised one, or without a promise the most that it can.

    VerbsError at step ``MTU_HERE`` when the port cannot do what is promised.
    """
    if promised is None:
        return next(size for size in _MTUS if size <= active_mtu)
    if promised > active_mtu:
        raise VerbsError(
            f"the profile promises path_mtu {promised}, the port's active MTU is {active_mtu} "
            "(the interface needs at least as much, plus the headers)",
            step=MTU_HERE,
        )
    return promised


def agreed_mtu(local: Mtu, remote: Mtu, promised: Mtu | None) -> Mtu:
    """The path MTU of a connection between ports that offer ``local`` and ``remote``.

    VerbsError at step ``MTU_THERE`` when the other end offers less than is promised here.
    """
    if promised is not None and remote < promised:
        raise VerbsError(
            f"the profile promises path_mtu {promised}, the other end offers {remote}",
            step=MTU_THERE,
        )
    return min(local, remote)
