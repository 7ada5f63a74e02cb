"""The switch port at the other end of each NIC's cable, by LLDP: lldpd is asked, or frames heard.

Listening sends nothing. A socket asks its interface for the frames of one multicast address, which
the kernel takes back when the socket is closed (packet(7), PACKET_ADD_MEMBERSHIP).
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .lldp import ETHERTYPE, MAC_BYTES, NEAREST_BRIDGE, of_bond, parse_frame, parse_lldpd
from .reading import Unread, first_of, reason, run, unreadable

WAYS = ("none", "lldp")
# A switch sends a frame each 30 s (IEEE 802.1AB, msgTxInterval).
LISTEN_S = 35.0
# Linux include/uapi/linux/if_arp.h, if_packet.h; Python names none of these but PACKET_OUTGOING.
ARPHRD_ETHER = "1"
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST = 263, 1, 0
FRAME_BYTES = 2048
DEVICES = "sys/class/infiniband"
INTERFACES = "sys/class/net"


def read_neighbours(root: Path, listen_s: float = LISTEN_S) -> dict[str, Any]:
    """Interface of an RDMA device -> its neighbour, or why none is known."""
    cables = {name: bonded(root, name) for name in interfaces(root)}
    found = ask(root, sorted({one for legs in cables.values() for one in legs}), listen_s)
    return {name: of_bond({leg: found[leg] for leg in legs}) for name, legs in cables.items()}


def ask(root: Path, names: Sequence[str], listen_s: float) -> dict[str, Any]:
    """Each interface with its neighbour, or why none is known."""
    try:
        told = ask_lldpd(root) if names else {}
    except Unread:
        # No lldpd that answers: a neighbour's ``source`` says that frames were heard.
        return listen(root, names, listen_s)
    unknown = unreadable("lldpd knows no LLDP neighbour of it")
    return {name: told.get(name, unknown) for name in names}


def bonded(root: Path, name: str) -> list[str]:
    """The interfaces of the bond that ``name`` is in; of none itself alone.

    The RDMA device of a bond of two ports shows the interface of the first alone.
    """
    try:
        bond = os.path.basename(os.readlink(root / INTERFACES / name / "master"))
    except OSError:
        return [name]
    return sorted({name, *read(root, bond, "bonding/slaves").split()})


def interfaces(root: Path) -> list[str]:
    """The Ethernet interfaces of RDMA devices; that of a rxe device is in its file ``parent``."""
    base = root / DEVICES
    if not base.is_dir():
        raise Unread(f"/{DEVICES}: no such folder")
    names = {path.name for path in base.glob("*/device/net/*")}
    names |= {path.read_text("ascii").strip() for path in base.glob("*/parent")}
    return sorted(name for name in names if read(root, name, "type") == ARPHRD_ETHER)


def read(root: Path, name: str, file: str) -> str:
    """One file of an interface; empty when it cannot be read."""
    try:
        return first_of(root, f"{INTERFACES}/{name}/{file}").decode("ascii", "replace").strip()
    except Unread:
        return ""


def ask_lldpd(root: Path) -> dict[str, Any]:
    """What lldpd knows. Unread when it is not there, does not run, or answers in another form."""
    done = run(root, "lldpcli", "-f", "json0", "show", "neighbors")
    if done.returncode != 0:
        raise Unread(f"lldpcli: {reason(done)}")
    try:
        return parse_lldpd(done.stdout)
    except ValueError as error:
        raise Unread(f"lldpcli: {error}") from error


def listen(root: Path, names: Iterable[str], listen_s: float) -> dict[str, Any]:
    """Hears all interfaces at once until each has its neighbour, or the time is over."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for name in names:
            if read(root, name, "operstate") in ("down", "lowerlayerdown"):
                found[name] = unreadable("the interface is down")
                continue
            found[name] = unreadable(f"no LLDP frame came within {listen_s:g} s")
            try:
                listener = stack.enter_context(open_listener(name))
            except OSError as error:
                found[name] = unreadable(f"cannot be listened to: {error.strerror}")
            else:
                selector.register(listener, selectors.EVENT_READ, name)
        end = time.monotonic() + listen_s
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(max(0.0, end - time.monotonic())):
                try:
                    answer = hear(key.fileobj)
                except ValueError as error:
                    # The next one may be whole.
                    found[key.data] = unreadable(f"an LLDP frame came that {error}")
                    continue
                if answer is not None:
                    found[key.data] = answer
                    selector.unregister(key.fileobj)
    return found


def open_listener(name: str) -> socket.socket:
    """A socket for the LLDP frames that come in at an interface; the caller closes it."""
    # Protocol 0: nothing of other interfaces is queued before it is bound.
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        listener.setblocking(False)
        listener.bind((name, ETHERTYPE))
        index = socket.if_nametoindex(name)
        wanted = struct.pack("iHH8s", index, PACKET_MR_MULTICAST, MAC_BYTES, NEAREST_BRIDGE)
        listener.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, wanted)
    except OSError:
        listener.close()
        raise
    return listener


def hear(listener: Any) -> dict[str, str] | None:
    """The neighbour that sent the next frame; None when it is our own, or announces none.

    ValueError, with the reason, for a broken frame.
    """
    try:
        frame, sender = listener.recvfrom(FRAME_BYTES)
    except BlockingIOError:
        return None
    except OSError as error:
        return unreadable(f"cannot be listened to: {error.strerror}")
    if sender[2] == socket.PACKET_OUTGOING:
        return None
    return parse_frame(frame)
