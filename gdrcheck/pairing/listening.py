"""Who listens on a TCP port of this network namespace, or calls one, without calling there."""

from __future__ import annotations

from pathlib import Path

from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_text

# TCP_LISTEN and TCP_SYN_SENT of include/net/tcp_states.h, as /proc/net/tcp writes them.
_LISTEN, _CALLING = "0A", "02"
_LOCAL, _REMOTE = 1, 2
_TABLES = ("tcp", "tcp6")
NET = Path("/proc/self/net")


def listens(port: int, net: Path = NET) -> bool:
    """Whether there is a listener on ``port``, by any address. False where it cannot be read."""
    return any(_listed(port, _LOCAL, _LISTEN, read_text(net / name)) for name in _TABLES)


def calls(port: int, net: Path = NET) -> bool:
    """Whether somebody calls ``port`` of another node, and nothing has answered. False where it
    cannot be read.
    """
    return any(_listed(port, _REMOTE, _CALLING, read_text(net / name)) for name in _TABLES)


def _listed(port: int, end: int, state: str, table: str | Unreadable) -> bool:
    """The form is that of proc_pid_net(5): number, local address, remote address, state, ..."""
    if isinstance(table, Unreadable):
        return False
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 3 and words[3] == state and words[end].endswith(f":{port:04X}"):
            return True
    return False
