"""Plain YAML, read with the line of every key.

``read`` takes the scalars of YAML 1.2's core schema, so that ``on``, ``NO`` and the PCI slot
``0000:17:00.0`` stay text (YAML 1.1 makes a truth value and a number in base 60 of them). Anchors,
tags and several documents in a file are refused: no file of ours needs them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml

from gdrcheck.outcome import InputError

KeyPath = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
# 64 bits hold every number of up to 18 digits.
MAX_DIGITS = 18
# A message quotes no more than this of a value.
MAX_SHOWN_CHARS = 80

_TAG = "tag:yaml.org,2002:"


class _CoreLoader(yaml.SafeLoader):
    """Resolves plain scalars by YAML 1.2's core schema, without infinity and not-a-number."""


_CoreLoader.yaml_implicit_resolvers = {}
_CoreLoader.add_implicit_resolver(_TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), None)
_CoreLoader.add_implicit_resolver(
    _TAG + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_CoreLoader.add_implicit_resolver(
    _TAG + "int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_CoreLoader.add_implicit_resolver(
    _TAG + "float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    list("-+0123456789."),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One problem of a document: the path of the key, and the sentence about it."""

    path: KeyPath
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """The data of one file (null, bool, int, float, str, list, dict) and the line of each key.

    ``written`` holds truth values and numbers as they stand in the file. ``complaints`` are what
    is wrong already as YAML; a document that has any must not be used, only looked at for further
    problems.
    """

    data: object
    lines: Mapping[KeyPath, int]
    complaints: tuple[Complaint, ...] = ()
    written: Mapping[KeyPath, str] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """The line of ``path``, or of the nearest thing above it that the file holds."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_text(path: Path) -> str:
    """The text of the file at ``path``. InputError if it is too large, unreadable, not UTF-8."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes; expected a small text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}:{line}: not UTF-8 text (byte 0x{content[error.start]:02x}); "
            "expected a file saved as UTF-8"
        ) from error


def read(text: str, place: str) -> Document:
    """The document in ``text``; ``place`` is the file's name for messages.

    InputError if it is no plain YAML. Duplicate keys, keys without a value and numbers that may
    mean something else than they look like are in the document's ``complaints``.
    """
    _refuse_fancy(text, place)
    node = yaml.compose(text, Loader=_CoreLoader)
    if node is None:
        raise InputError(f"{place}:1: is empty; expected a mapping of keys to values")
    reading = _Reading()
    data = reading.value(node, ())
    return Document(data, reading.lines, tuple(reading.complaints), reading.written)


class _Mark(Protocol):
    line: int


def line_of(mark: _Mark | None) -> int:
    """People's line number of a mark; PyYAML's types allow for parsers that set none."""
    return mark.line + 1 if mark else 1


def events(text: str, place: str) -> Iterator[yaml.Event]:
    """The parse events of ``text``. InputError, with file and line, where it is not valid YAML."""
    try:
        yield from yaml.parse(text, Loader=_CoreLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = error.character if isinstance(error.character, int) else 0
        raise InputError(
            f"{place}:{line}: character U+{character:04X} is not allowed in YAML; remove it"
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}:{mark.line + 1}" if mark else place
        raise InputError(
            f"{where}: not valid YAML: {' '.join(filter(None, (error.context, error.problem)))}"
        ) from error
    except (ValueError, OverflowError) as error:
        # PyYAML lets these through for escapes such as "\UFFFFFFFF".
        raise InputError(f"{place}: not valid YAML: {error}") from error


def _refuse_fancy(text: str, place: str) -> None:
    """InputError for what would make ``compose`` recurse without end, or mean more than it says."""
    problems, depth, documents = [], 0, 0
    for event in events(text, place):
        line = line_of(event.start_mark)
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InputError(f"{place}:{line}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            problems.append(
                f"{place}:{line}: anchor or alias {event.anchor!r}; "
                "expected the value itself, written out"
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            problems.append(f"{place}:{line}: tag {tag!r}; expected plain YAML without tags")
    if documents > 1:
        problems.append(f"{place}: {documents} YAML documents; expected one")
    if problems:
        raise InputError(*problems)


@dataclass(slots=True)
class _Reading:
    """Turns nodes into data and gathers what is wrong on the way."""

    complaints: list[Complaint] = field(default_factory=list)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        self.lines.setdefault(path, line_of(node.start_mark))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        data: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, "has a list or a mapping for a key; expected a word")
                continue
            key_path = (*path, str(key_node.value))
            line = line_of(key_node.start_mark)
            if key_node.value in data:
                first = self.lines[key_path]
                self._complain(
                    key_path, f"given again in line {line}, first in line {first}; expected once"
                )
                continue
            self.lines[key_path] = line
            data[key_node.value] = self.value(value_node, key_path)
        return data

    def _scalar(self, node: yaml.Node, path: KeyPath) -> object:
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            self._complain(path, "has no value; expected one, or leave the key out")
            return None
        if kind in ("bool", "int", "float"):
            self.written[path] = text
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            return self._int(text, path)
        if kind == "float":
            return self._float(text, path)
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            self._complain(path, "holds half of a surrogate pair; expected Unicode text")
            return ""
        return text

    def _float(self, text: str, path: KeyPath) -> float:
        number = float(text)
        if math.isfinite(number):
            return number
        self._complain(path, f"{text} is too large a number")
        return 0.0

    def _int(self, text: str, path: KeyPath) -> int:
        digits = text.lstrip("+-")
        if len(digits) > MAX_DIGITS:
            self._complain(path, f"a number of {len(digits)} digits is too large")
            return 0
        if digits[:2] in ("0x", "0o"):
            return int(text, 0)
        if len(digits) > 1 and digits.startswith("0"):
            self._complain(
                path,
                f"{text} starts with 0, which some read as octal; "
                f"expected {int(text)}, or hexadecimal as 0x{int(text):x}",
            )
        return int(text)

    def _complain(self, path: KeyPath, what: str) -> None:
        self.complaints.append(Complaint(path, what))


def dotted(path: KeyPath) -> str:
    """``rails.nics[0].name``: a path of keys as people write it, on one line."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + quoted(part, always=False)
    return text


def quoted(text: str, *, always: bool = True) -> str:
    """``text`` in quotes, what a terminal would not print as escapes, cut to a line's length.

    Unless ``always``, a text of ordinary characters stays without quotes.
    """
    if not always and re.fullmatch(r"[\w./-]{1,80}", text, re.ASCII):
        return text
    quotes = json.dumps(text, ensure_ascii=False)
    visible = "".join(
        character if character.isprintable() else f"\\u{ord(character):04x}" for character in quotes
    )
    return visible if len(visible) <= MAX_SHOWN_CHARS else visible[: MAX_SHOWN_CHARS - 3] + "..."
