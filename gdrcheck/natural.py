"""The order in which people count: mlx5_2 before mlx5_10, PCI addresses before names."""

from __future__ import annotations

import re

from gdrcheck.facts.pci import slot_order

Natural = list[tuple[int, str]]


def natural(name: str) -> Natural:
    """A key to sort ``name`` by: its runs of digits count as numbers, however long they are."""
    parts = re.split(r"([0-9]+)", name)
    return [_part(part, is_number=bool(index % 2)) for index, part in enumerate(parts)]


def _part(part: str, *, is_number: bool) -> tuple[int, str]:
    if not is_number:
        return 0, part
    digits = part.lstrip("0")
    return len(digits), digits


def by_slot(slot: str | None, name: str) -> tuple[bool, tuple[int, ...], Natural]:
    """A key to sort devices by: those with a PCI slot first, by its numbers, then by name."""
    return slot is None, slot_order(slot) if slot else (), natural(name)
