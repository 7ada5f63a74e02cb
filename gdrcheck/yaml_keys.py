"""Lists the keys of any YAML, with lines, for files that belong to somebody else.

Unlike ``yaml_lines.read`` this takes anchors, foreign tags such as ``!vault`` and any depth, since
it makes no values.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from gdrcheck.yaml_lines import events, line_of


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping; ``value`` is the scalar as written, None for anything else.

    ``above`` are the keys that enclose it, outermost first; a list counts as a key "".
    """

    name: str
    line: int
    value: str | None
    above: tuple[str, ...]


def keys(text: str, place: str) -> tuple[Key, ...]:
    """Every key of ``text``, in order, at any depth. InputError if it is not valid YAML."""
    found: list[Key] = []
    stack: list[_Open] = []
    for event in events(text, place):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
        if stack and stack[-1].mapping:
            above = tuple(one.name or "" for one in stack[:-1])
            _take(stack[-1], above, scalar, line_of(event.start_mark), found)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(mapping=isinstance(event, yaml.MappingStartEvent)))
    return tuple(found)


@dataclass(slots=True)
class _Open:
    """An open collection; in a mapping every other node is a key."""

    mapping: bool
    in_value: bool = False
    name: str | None = None
    line: int = 0


def _take(
    mapping: _Open, above: tuple[str, ...], scalar: str | None, line: int, found: list[Key]
) -> None:
    """Tell ``mapping`` of its next node: a key, or the value that completes one."""
    if mapping.in_value:
        if mapping.name is not None:
            found.append(Key(mapping.name, mapping.line, scalar, above))
    else:
        mapping.name, mapping.line = scalar, line
    mapping.in_value = not mapping.in_value
