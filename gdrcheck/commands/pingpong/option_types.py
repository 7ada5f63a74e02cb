"""What the values of ``pingpong``'s options may be. Light: every help text needs this."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from gdrcheck.nearest import did_you_mean
from gdrcheck.transfer import MODES, Mode

T = TypeVar("T", bound=str)

MAX_TIMEOUT_S = 86_400.0
# What hand_messages allows.
MAX_SIZE_BYTES = 16 << 20
MAX_SIZES = 64
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
SIZE = re.compile(r"(\d{1,9})([KM]?)", re.IGNORECASE)
# Of a name no more is known here than what it cannot hold.
HOST = re.compile(r"\w([\w.-]{0,251}\w)?\.?")
HOST_AND_PORT = re.compile(r"(.*):(\d{1,5})")


def host(text: str) -> str:
    """A name or an address of another machine, with nothing around it."""
    expected = "expected a name or an address of the other machine"
    if _is_address(text) or HOST.fullmatch(text):
        return text
    if "@" in text:
        raise argparse.ArgumentTypeError(f"{text!r}: {expected}, without a user")
    match = HOST_AND_PORT.fullmatch(text)
    if match and (HOST.fullmatch(match[1]) or _is_address(match[1].strip("[]"))):
        raise argparse.ArgumentTypeError(f"{text!r}: {expected}; its port goes to -p {match[2]}")
    if _is_address(text.strip("[]")):
        raise argparse.ArgumentTypeError(f"{text!r}: {expected}, without brackets")
    raise argparse.ArgumentTypeError(f"{text!r}: {expected}")


def own_address(text: str) -> str:
    """An IP address to listen on."""
    if not _is_address(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected an IP address of this machine, or 0.0.0.0 or :: for all of them"
            "; whom to call goes without --listen"
        )
    return text


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from ``least`` to ``most``, in decimal or as ``0x6a``."""

    def parse(text: str) -> int:
        base = 16 if text[:2].lower() == "0x" else 10
        digits = r"0[xX][0-9a-fA-F]{1,8}" if base == 16 else r"[0-9]{1,9}"
        if not re.fullmatch(digits, text) or not least <= int(text, base) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {least} to {most}")
        return int(text, base)

    return parse


def seconds(text: str) -> float:
    """A time."""
    return _number(text, 1, MAX_TIMEOUT_S, "seconds")


def scale(text: str) -> float:
    """What deadlines are multiplied by."""
    return _number(text, 0.1, 100, "a factor")


def _number(text: str, least: float, most: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {what}, {least:g} to {most:g}")
    return value


def sizes(text: str) -> tuple[int, ...]:
    """``64K,1M`` in bytes. ArgumentTypeError names the part that is no size."""
    found = tuple(_size(part) for part in _parts(text, "a size", "64K,1M"))
    if len(found) > MAX_SIZES:
        raise argparse.ArgumentTypeError(f"{len(found)} sizes: expected {MAX_SIZES} at most")
    return tuple(dict.fromkeys(found))


def _parts(text: str, what: str, example: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        missing = f"{what} is missing beside a comma" if len(parts) > 1 else f"{what} is missing"
        raise argparse.ArgumentTypeError(f"{text!r}: {missing}; expected such as {example}")
    return parts


def _size(text: str) -> int:
    match = SIZE.fullmatch(text)
    size_bytes = int(match[1]) * UNITS[match[2].upper()] if match else 0
    if not 1 <= size_bytes <= MAX_SIZE_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected bytes, 1 to 16M, such as 65536, 64K or 1M"
        )
    return size_bytes


def names(known: Sequence[T], what: str) -> Callable[[str], tuple[T, ...]]:
    """Some of ``known``, in their order, in any case of letters."""

    def parse(text: str) -> tuple[T, ...]:
        given = _parts(text, what, ",".join(known[:2]))
        for name in given:
            if name.upper() not in (one.upper() for one in known):
                raise argparse.ArgumentTypeError(
                    f"{name!r} is not {what}: expected some of {', '.join(known)}"
                    f"{did_you_mean(name, known)}"
                )
        wanted = {name.upper() for name in given}
        return tuple(one for one in known if one.upper() in wanted)

    return parse


def modes(text: str) -> tuple[Mode, ...]:
    """Some modes, or ``all``."""
    return MODES if text.strip().lower() == "all" else names(MODES, "a mode")(text)


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """A text that is all of ``pattern``."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {what}")
        return text

    return parse
