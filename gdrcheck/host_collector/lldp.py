"""What LLDP says of the other end of a cable: frames as they come, and lldpd's answer. Pure.

A frame is of IEEE 802.1AB-2016, clause 8: Ethernet, then TLVs of 7 bits type and 9 bits length.
Of lldpd it is ``lldpcli -f json0 show neighbors``, in which everything is a list (lldpcli(8)).
"""

from __future__ import annotations

import json
from typing import Any

ETHERTYPE = 0x88CC
# Frames to this address are forwarded by no bridge, so their sender is the cable's other end.
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
HEADER_BYTES = 14
END, CHASSIS, PORT, TIME_TO_LIVE, SYSTEM_NAME = 0, 1, 2, 3, 5
# Subtypes of the chassis and of the port that are a MAC address, and a network address.
MAC = {CHASSIS: 4, PORT: 3}
NETWORK_ADDRESS = {CHASSIS: 5, PORT: 4}
MAC_BYTES = 6
IPV4_FAMILY, IPV4_BYTES = 1, 4
TEXT_CHARACTERS = 255


def parse_frame(frame: bytes) -> dict[str, str] | None:
    """The neighbour that sent ``frame``; None for a frame that announces no neighbour.

    That is one to another address, or of a sender that says goodbye. ValueError, with the reason,
    for a frame that is not as the standard has it.
    """
    ethertype = int.from_bytes(frame[12:HEADER_BYTES], "big")
    if len(frame) < HEADER_BYTES or ethertype != ETHERTYPE:
        raise ValueError("is no LLDP frame")
    if frame[:MAC_BYTES] != NEAREST_BRIDGE:
        return None
    found: dict[int, bytes] = {}
    place = HEADER_BYTES
    while True:
        head = int.from_bytes(frame[place : place + 2], "big")
        kind, length = head >> 9, head & 0x1FF
        value = frame[place + 2 : place + 2 + length]
        if len(frame) < place + 2 or len(value) < length:
            raise ValueError("ends within a TLV")
        if len(found) < 3 and kind != len(found) + 1:
            raise ValueError(f"has a TLV of type {kind} where type {len(found) + 1} belongs")
        if kind == END:
            return _neighbour(found)
        found.setdefault(kind, value)
        place += 2 + length


def _neighbour(found: dict[int, bytes]) -> dict[str, str] | None:
    if len(found[TIME_TO_LIVE]) < 2:
        raise ValueError("has no time to live")
    if found[TIME_TO_LIVE][:2] == bytes(2):
        return None
    return {
        "switch": _identity(found[CHASSIS], CHASSIS),
        "switch_name": clean(found.get(SYSTEM_NAME, b"").decode("utf-8", "replace")),
        "port": _identity(found[PORT], PORT),
        "source": "frames",
    }


def _identity(value: bytes, kind: int) -> str:
    """An id as lldpd writes it, so that both sources name a switch alike."""
    subtype, body = value[:1], value[1:]
    if subtype == bytes([MAC[kind]]) and len(body) == MAC_BYTES:
        return ":".join(f"{byte:02x}" for byte in body)
    if subtype == bytes([NETWORK_ADDRESS[kind]]) and body[:1] == bytes([IPV4_FAMILY]):
        if len(body) != 1 + IPV4_BYTES:
            raise ValueError("has an IPv4 address of another length")
        return ".".join(map(str, body[1:]))
    if not body:
        raise ValueError(f"has an empty id in its TLV of type {kind}")
    try:
        text = body.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return body.hex()
    return clean(text) if text.strip() and text.isprintable() else body.hex()


def parse_lldpd(text: str) -> dict[str, Any]:
    """Interface -> its neighbour, or ``unreadable`` where there are several, by lldpd's answer.

    ValueError when it is not of the form of ``json0``.
    """
    told: dict[str, list[dict[str, str]]] = {}
    try:
        for part in json.loads(text)["lldp"]:
            for entry in part.get("interface", ()):
                # lldpd speaks CDP and others as well, which bridges forward.
                if entry["via"] == "LLDP":
                    told.setdefault(entry["name"], []).append(_of_lldpd(entry))
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not of the form json0 ({type(error).__name__}: {error})") from error
    return {name: one_of(found) for name, found in told.items()}


def _of_lldpd(entry: dict[str, Any]) -> dict[str, str]:
    chassis, port = entry["chassis"][0], entry["port"][0]
    names = chassis.get("name") or [{"value": ""}]
    return {
        "switch": _text(chassis["id"][0]["value"]),
        "switch_name": clean(str(names[0].get("value", ""))),
        "port": _text(port["id"][0]["value"]),
        "source": "lldpd",
    }


def _text(value: Any) -> str:
    # lldpd writes texts; whatever else stands there must not become a name that two switches share.
    text = clean(value) if isinstance(value, str) else ""
    if not text:
        raise KeyError("an id is empty")
    return text


def one_of(found: list[dict[str, str]]) -> dict[str, str]:
    """The one neighbour of an interface; ``unreadable``, naming them, when there are several."""
    texts = sorted({f"{one['switch_name'] or one['switch']} {one['port']}" for one in found})
    if len({(one["switch"], one["port"]) for one in found}) > 1:
        return {"unreadable": f"{len(found)} neighbours on one cable: {', '.join(texts[:4])}"}
    return found[0]


def of_bond(legs: dict[str, Any]) -> dict[str, str]:
    """The neighbours of a bond's interfaces as one, in an order that does not depend on names.

    ``unreadable`` when any is unknown: half a bond says nothing of where its other cable leads.
    """
    unknown = [f"{leg}: {one['unreadable']}" for leg, one in legs.items() if "unreadable" in one]
    if len(legs) == 1:
        return dict(*legs.values())
    if unknown:
        return {"unreadable": f"of its bond {', '.join(unknown)}"}
    ordered = sorted(legs.values(), key=lambda one: (one["switch"], one["port"]))
    made = {"source": ordered[0]["source"], "port": " + ".join(one["port"] for one in ordered)}
    for key in ("switch", "switch_name"):
        made[key] = " + ".join(dict.fromkeys(one[key] for one in ordered if one[key]))
    return made


def clean(text: str) -> str:
    """``text`` without what a terminal would obey, without outer spaces, and not too long."""
    kept = "".join(letter if letter.isprintable() else " " for letter in text.rstrip("\0"))
    return " ".join(kept.split())[:TEXT_CHARACTERS]
