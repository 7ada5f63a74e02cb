"""What was measured of GPU memory and NICs, in words: the properties of a case. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gdrcheck.registration import Attempt, Movement, Region
from gdrcheck.sizes import size_text


def attempt(made: Attempt) -> list[tuple[str, str]]:
    """Sizes, mapping, and how long each step took for each range; times in microseconds."""
    return list(_of_attempt(made))


def movement(made: Movement) -> list[tuple[str, str]]:
    """What was moved: for each way and operation how many messages, of which sizes."""
    told: dict[tuple[str, str], list[int]] = {}
    for one in made.moved:
        told.setdefault((one.way, one.operation), []).append(one.length_bytes)
    properties = [
        (f"{way} by {operation}", ", ".join(f"{size} B" for size in sizes))
        for (way, operation), sizes in told.items()
    ]
    flushes = dict.fromkeys(one.flushed for one in made.moved if one.sink_is_gpu)
    mapping = [("mapping of the export", made.flag)] if made.flag else []
    return [("method", made.method), *mapping, *properties, ("flush", ", ".join(flushes) or "none")]


def _of_attempt(made: Attempt) -> Iterator[tuple[str, str]]:
    yield "method", made.method
    yield "sizes tried", ", ".join(map(size_text, made.sizes_bytes)) or "none"
    # It tells of the largest size, which an attempt that was refused before never came to.
    if made.limited_by and made.refusal is None:
        yield "limited by", made.limited_by
    if flags := dict.fromkeys(one.flag for one in made.regions if one.flag is not None):
        yield "mapping of the export", ", ".join(flags)
    if refused := next((one.other_refused for one in made.regions if one.other_refused), ""):
        yield "the other mapping", refused
    for region in made.regions:
        name = f"{region.range} {size_text(region.requested_bytes)}"
        yield name, _times(region)
    if made.growth is not None:
        growth = made.growth
        yield (
            f"registered {growth.times} times",
            f"{growth.first_us:.0f} to {growth.last_us:.0f} us",
        )


def _times(region: Region) -> str:
    exported = "" if region.export_us is None else f"export {region.export_us:.0f} us, "
    return (
        f"{exported}register {region.register_us:.0f} us, deregister {region.deregister_us:.0f} us"
    )
