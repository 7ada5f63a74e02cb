"""What the CPU says of what lies around a message. Pure."""

from __future__ import annotations

from gdrcheck import likeness
from gdrcheck.likeness import Expected
from gdrcheck.mismatch import Mismatch
from gdrcheck.pattern import Bytes, Key, Pattern


def spill(pattern: Pattern, zone: Bytes, key: Key, start: int, beside: int) -> str | None:
    """What of the first and of the last ``beside`` bytes of ``zone`` is not poison any more.

    ``start`` is the position in the key's stream of the zone's first byte.
    """
    last = len(zone) - beside
    for where, at in (("before", 0), ("behind", last)):
        data = zone[at : at + beside]
        if not pattern.is_poison(data, key, start + at):
            wrong = poisoned(key, start + at, beside)
            return spill_text(where, beside, likeness.verify(_reader(data), wrong))
    return None


def poisoned(key: Key, start: int, length: int) -> Expected:
    """What ``length`` bytes must be that nothing was written to since they were poisoned."""
    return Expected(key.stream.complement(), start, length)


def spill_text(where: str, beside: int, wrong: Mismatch | None) -> str:
    """In words; ``wrong`` None: at a second look all was right again."""
    if wrong is None:
        return f"of the {beside} bytes {where} the message some changed, and changed back"
    return (
        f"of the {beside} bytes {where} the message {wrong.bad_bytes} changed, the first of them "
        f"is number {wrong.first_bad_offset}"
    )


def _reader(data: Bytes) -> likeness.Read:
    return lambda at, size: data[at : at + size]
