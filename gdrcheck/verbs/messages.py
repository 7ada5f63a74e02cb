"""The messages of an exchange: where each lies at either end, and what its bytes are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdrcheck.pattern import Key
from gdrcheck.stream import MASK
from gdrcheck.transfer import ATOMIC_BYTES, ATOMICS, FAR_BYTES, RegionKey, Role, Variant
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.protocol import MARGIN_BYTES, Arm

# Poisoned bytes before and behind a message, to see what a NIC writes too much.
BESIDE_BYTES = 128
# Messages begin here or a little later; at the beginning of a cache line.
FIRST_OFFSET = 256
# How much later at the source and at the sink: at a border, behind one, and before one, never
# alike, since a NIC or a driver that mixes the ends up would be right by chance.
SHIFTS = ((0, 0), (1, 63), (63, 1))
# Atomic operations need eight-byte alignment.
ATOMIC_SHIFTS = ((0, 0), (8, 56), (56, 8))


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a plan: ``sequence`` counts all of them, ``iteration`` those of its size and
    variant. ``source_offset`` and ``sink_offset`` are places in the payloads, ``start`` the
    position in the stream of its first byte.
    """

    sequence: int
    variant: Variant
    size_bytes: int
    iteration: int
    source_offset: int
    sink_offset: int
    start: int


def messages(plan: Arm) -> Iterator[Message]:
    """All messages of a plan in their order."""
    shifts = ATOMIC_SHIFTS if plan.operation in ATOMICS else SHIFTS
    sequence = 0
    for turn, variant in enumerate(plan.variants):
        for number, size in enumerate(plan.sizes_bytes):
            for iteration in range(plan.iterations):
                at_source, at_sink = shifts[(turn + number + iteration) % len(shifts)]
                start = FIRST_OFFSET + at_source
                yield Message(
                    sequence=sequence,
                    variant=variant,
                    size_bytes=size,
                    iteration=iteration,
                    source_offset=start + _far_bytes(plan, variant.source),
                    sink_offset=FIRST_OFFSET + at_sink + _far_bytes(plan, variant.sink),
                    start=start,
                )
                sequence += 1


def message_count(plan: Arm) -> int:
    """How many there are."""
    return len(plan.variants) * len(plan.sizes_bytes) * plan.iterations


def region_of(variant: Variant, role: Role) -> RegionKey:
    """The region of the end with this role."""
    return variant.source if role == "source" else variant.sink


def stream_word(key: Key, start: int) -> int:
    """The message of an atomic operation as the number that the NIC reckons with.

    Its byte order is the processor's, little-endian, as that of the responder's memory.
    """
    return int.from_bytes(key.stream.piece(start, ATOMIC_BYTES).tobytes(), "little")


def poison_word(key: Key, start: int) -> int:
    """What the operation finds where ``poison`` was written."""
    return stream_word(key, start) ^ MASK


def validate_plan(
    plan: Arm, local: Mapping[RegionKey, int], remote: Mapping[RegionKey, int]
) -> None:
    """VerbsError if a message or the flipped byte of the plan cannot be.

    ``local`` and ``remote`` are the lengths of the payloads of either end's regions.
    """
    smallest, largest = min(plan.sizes_bytes), max(plan.sizes_bytes)
    if plan.operation in ATOMICS and (smallest, largest) != (ATOMIC_BYTES, ATOMIC_BYTES):
        raise VerbsError(f"{plan.operation} moves {ATOMIC_BYTES} bytes, no other size", step="arm")
    other: Role = "sink" if plan.role == "source" else "source"
    for variant in plan.variants:
        for words, role, there in (("this", plan.role, local), ("the other", other, remote)):
            key = region_of(variant, role)
            if key not in there:
                raise VerbsError(f"{words} end has not registered {key.text()}", step="arm")
            room = there[key] - _far_bytes(plan, key) - MARGIN_BYTES
            if smallest < 1 or largest > room:
                raise VerbsError(
                    f"messages of {smallest} to {largest} bytes do not fit into a payload of "
                    f"{there[key]} bytes of {words} end: 1 to {room} do",
                    step="arm",
                )
    flip = plan.flip
    if flip is not None and not (
        flip.size_bytes in plan.sizes_bytes
        and flip.iteration < plan.iterations
        and flip.offset < flip.size_bytes
    ):
        raise VerbsError(f"the byte to flip is in no message of the plan: {flip}", step="arm")


def _far_bytes(plan: Arm, key: RegionKey) -> int:
    return FAR_BYTES if plan.far and key.memory == "gpu" else 0
