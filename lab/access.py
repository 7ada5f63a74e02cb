"""How one gets into the nodes: keys, known hosts and ssh configuration of one lab, all made before
the first boot.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from lab import tools
from lab.errors import LabError

USER = "gdr"
# Below the ports that Linux gives to outgoing connections, so that a node can be restarted on its
# port.
_PORTS = range(21000, 30000)
_POLL_S = 0.3


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair at `path` and return the public part."""
    tools.run(
        "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path, deadline_s=60
    )
    return path.with_suffix(".pub").read_text().strip()


def free_port(taken: Iterable[int] = ()) -> int:
    """A port of 127.0.0.1 at which nothing listens now; raises LabError after many tries."""
    refused = set(taken)
    for port in random.sample(_PORTS, 200):
        if port in refused:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LabError(f"no free port found on 127.0.0.1 between {_PORTS.start} and {_PORTS.stop}")


def known_host_line(port: int, public_key: str) -> str:
    """The node's line in known_hosts."""
    kind, key, *_ = public_key.split()
    return f"[127.0.0.1]:{port} {kind} {key}\n"


def ssh_config(directory: Path, control: Path, ports: dict[str, int]) -> str:
    """The text of an ssh configuration that reaches each node by its name.

    One connection per node is kept for a minute: a login costs seconds under emulation.
    """
    hosts = "".join(f"Host {name}\n  Port {port}\n\n" for name, port in ports.items())
    return (
        f"{hosts}Host *\n"
        f"  HostName 127.0.0.1\n"
        f"  User {USER}\n"
        f'  IdentityFile "{directory}/id_ed25519"\n'
        f"  IdentitiesOnly yes\n"
        f'  UserKnownHostsFile "{directory}/known_hosts"\n'
        f"  GlobalKnownHostsFile /dev/null\n"
        f"  StrictHostKeyChecking yes\n"
        f"  PasswordAuthentication no\n"
        f"  ConnectTimeout 60\n"
        f"  ServerAliveInterval 30\n"
        f"  ControlMaster auto\n"
        f"  ControlPersist 60\n"
        f'  ControlPath "{control}/%n"\n'
    )


def ssh_answers(port: int, deadline_s: float) -> bool:
    """Whether a node's sshd greets in time; that the forwarded port accepts says nothing."""
    end = time.monotonic() + deadline_s
    while (left_s := end - time.monotonic()) > 0:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=left_s) as connection:
                # One long wait per connection: the guest answers when it can.
                connection.settimeout(min(left_s, 20.0))
                if connection.recv(8).startswith(b"SSH-"):
                    return True
        except OSError:
            pass
        time.sleep(min(_POLL_S, max(left_s, 0)))
    return False
