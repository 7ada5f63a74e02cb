"""Which sizes can be tried in what a GPU has free. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck.sizes import size_text

# What stays free: contexts and other users take some of both without saying so beforehand. Our
# choice.
_MARGIN_BYTES = 16 << 20
_MARGIN_PART = 16


def allowed(
    wanted_bytes: Sequence[int],
    free_bytes: int,
    bar1_bytes: int | None,
    bar1_free_bytes: int | None = None,
) -> tuple[tuple[int, ...], str]:
    """The sizes to try, ascending, and why the largest is not the one wanted (empty if it is).

    A size that does not fit, with a margin, into the free memory and the free part of BAR1 becomes
    the largest power of two that does. The smallest is always tried, so that what refuses it is
    told. BAR1 of None is not known and limits nothing.
    """
    wanted = sorted(wanted_bytes)
    words = f"the GPU has {_rough(free_bytes)} of memory free, {_left_alone(free_bytes)}"
    limits = [(_usable(free_bytes), words)]
    if bar1_bytes is not None:
        bar1_free = bar1_bytes if bar1_free_bytes is None else bar1_free_bytes
        free = "" if bar1_free_bytes is None else f", {_rough(bar1_free)} of it free"
        words = f"BAR1 has {_rough(bar1_bytes)}{free}, {_left_alone(bar1_free)}"
        limits.append((_usable(bar1_free), words))
    usable, reason = min(limits)
    sizes = {max(wanted[0], min(size, _power_of_two(usable))) for size in wanted if size > usable}
    sizes |= {size for size in wanted if size <= usable}
    largest = max(sizes)
    if largest == wanted[-1]:
        return tuple(sorted(sizes)), ""
    return (
        tuple(sorted(sizes)),
        f"{size_text(wanted[-1])} asked, {size_text(largest)} tried: {reason}",
    )


def _usable(free_bytes: int) -> int:
    return max(0, free_bytes - _margin(free_bytes))


def _margin(free_bytes: int) -> int:
    return max(_MARGIN_BYTES, free_bytes // _MARGIN_PART)


def _left_alone(free_bytes: int) -> str:
    margin = _rough(_margin(free_bytes))
    if not _usable(free_bytes):
        return f"too little to leave {margin} alone"
    return f"of which {margin} are left alone"


def _power_of_two(limit_bytes: int) -> int:
    """The largest that is not above the limit; 0 if none is."""
    return 1 << limit_bytes.bit_length() - 1 if limit_bytes else 0


def _rough(size_bytes: int) -> str:
    """``512 MiB``; rounded down to whole MiB, since nobody reads bytes here."""
    return size_text(size_bytes >> 20 << 20) if size_bytes >> 20 else size_text(size_bytes)
