"""IPv4 addresses of this machine's network interfaces, in the network namespace of this process."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress

# Linux include/uapi/linux/sockios.h and struct ifreq: a name of 16 bytes, then a sockaddr_in.
SIOCGIFADDR = 0x8915
IFREQ = struct.Struct("16s24x")
ADDRESS = slice(20, 24)


def ipv4_addresses() -> dict[str, str]:
    """The first IPv4 address of each interface that has one, by the interface's name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            # EADDRNOTAVAIL: it has none. ENODEV: it is gone since it was listed.
            with suppress(OSError):
                answer = fcntl.ioctl(asking, SIOCGIFADDR, IFREQ.pack(name.encode()))
                found[name] = socket.inet_ntoa(answer[ADDRESS])
    return found
