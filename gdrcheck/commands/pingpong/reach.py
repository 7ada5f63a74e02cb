"""The way from a caller to the machine that it named: its addresses, and a channel to one."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from itertools import cycle

from gdrcheck.commands.source import patience
from gdrcheck.facts import Unreadable
from gdrcheck.outcome import InputError, PeerError
from gdrcheck.pairing.channel import ATTEMPT_S, Channel, PeerRefused, connect
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.handshake import Identity
from gdrcheck.probes.side_by_side import side_by_side

RESOLVE_S = 15.0
LEAST_TURN_S = 0.1


def addresses_of(host: str, within_s: float) -> tuple[str, ...]:
    """The addresses of ``host``, IPv4 first, as a listener takes them by default.

    InputError when the name does not resolve, or not within ``within_s``. The look-up runs in a
    thread that an interrupt leaves behind.
    """
    ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    try:
        with patience(f"looking up {host}"):
            found = side_by_side({host: ask}, within_s)[host]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name that DNS could hold"
        raise InputError(
            f"{host}: the name does not resolve: {reason}; give the other machine's address, or "
            f"see what this one knows: getent ahosts {host}. A container knows the names of its "
            "host's network with --network=host"
        ) from error
    if isinstance(found, Unreadable):
        raise InputError(
            f"{host}: the name did not resolve within {within_s:g} s; give the other machine's "
            "address, or see whether the name servers of /etc/resolv.conf answer"
        )
    inner = sorted(found, key=lambda one: one[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(target[0]) for *_, target in inner))


def channel_to(
    addresses: Sequence[str], port: int, identity: Identity, peer: str, deadline_s: float
) -> Channel:
    """A channel to ``peer`` at the first of ``addresses`` that lets this end in.

    Each is tried in turn until ``deadline_s`` is over; else as ``connect``, PeerError with what
    came of each. The caller closes the channel.
    """
    if len(addresses) == 1:
        return connect(addresses[0], port, identity, peer, "pair", deadline_s)
    deadline = Deadline.after(deadline_s)
    longest_s = min(ATTEMPT_S, deadline_s / len(addresses))
    failed: dict[str, PeerError] = {}
    for address in cycle(addresses):
        if len(failed) == len(addresses) and deadline.expired:
            break
        turn_s = min(longest_s, max(LEAST_TURN_S, round(deadline.remaining_s, 1)))
        try:
            return connect(address, port, identity, peer, "pair", turn_s)
        except PeerRefused:
            raise
        except PeerError as error:
            failed[address] = error
    raise PeerError("; ".join(map(str, failed.values())), side=peer, step="connect")
