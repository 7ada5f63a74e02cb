"""Numbers of bytes in words."""

from __future__ import annotations

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def size_text(length_bytes: int) -> str:
    """``1 MiB``: a number of bytes in the largest unit that divides it."""
    for unit, factor in _UNITS:
        if length_bytes >= factor and length_bytes % factor == 0:
            return f"{length_bytes // factor} {unit}"
    return f"{length_bytes} B"
