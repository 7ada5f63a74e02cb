"""Turns what pydantic has to say about a document into lines that a person can act on.

Each line says what is wrong, what was expected, and the nearest known word. What was expected
comes from the model's JSON Schema, so that a new key needs no text of its own here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gdrcheck.contradictions import CONTRADICTION
from gdrcheck.findings.model import CODE_PATTERN
from gdrcheck.nearest import did_you_mean, nearest
from gdrcheck.yaml_lines import Complaint, KeyPath, dotted, quoted

Schema = dict[str, Any]

# By this key a model says in words what a text must be that has to match a pattern.
EXPECTED = "x-expected"


def complaints(
    error: ValidationError,
    model: type[BaseModel],
    written: Mapping[KeyPath, str] = MappingProxyType({}),
) -> tuple[Complaint, ...]:
    """The problems in ``error``, one a key, in the order of the model.

    ``written`` holds truth values and numbers as they stand in the file.
    """
    root = model.model_json_schema(by_alias=True)
    found: dict[KeyPath, Complaint] = {}
    mistyped: set[KeyPath] = set()
    # Unknown keys first: a key that was only mistyped must not be called missing as well.
    details = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    for detail in details:
        if detail["type"] == CONTRADICTION:
            found |= {path: Complaint(path, text) for path, text in detail["ctx"]["problems"]}
            continue
        path = _known_path(detail["loc"], root, unknown=detail["type"] == "extra_forbidden")
        if path in found or (detail["type"] == "missing" and path in mistyped):
            continue
        if detail["type"] == "extra_forbidden":
            text, meant = _unknown(path, root)
            if meant is not None:
                mistyped.add((*path[:-1], meant))
        else:
            text = _sentence(detail, at(root, path), written.get(path))
        found[path] = Complaint(path, text)
    # A list that lost its only entry is not too short as well.
    inside = {path[:length] for path in found for length in range(len(path))}
    return tuple(complaint for path, complaint in found.items() if path not in inside)


def at(root: Schema, path: KeyPath) -> Schema | None:
    """The schema of ``path`` below the schema ``root``; None if the model has no such key."""
    schema: Schema | None = _resolve(root, root)
    for part in path:
        if schema is None:
            return None
        if isinstance(part, int):
            below = schema.get("items")
        else:
            below = schema.get("properties", {}).get(part)
        schema = None if below is None else _resolve(below, root)
    return schema


def describe(schema: Schema) -> str:
    """What a value must be, in words: ``a whole number from 0 to 255``."""
    if "anyOf" in schema:
        return " or ".join(describe(option) for option in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(str(choice) for choice in schema["enum"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(schema)
    if kind == "boolean":
        return "true or false"
    if kind == "array":
        return "a list with at least one entry" if schema.get("minItems") else "a list"
    if kind == "object":
        return "a mapping with keys such as " + ", ".join(list(schema.get("properties", {}))[:4])
    if schema.get("format") == "date":
        return "a day as YYYY-MM-DD"
    if schema.get("pattern") == CODE_PATTERN:
        return "a code of the catalogue (see gdrcheck explain --list)"
    if EXPECTED in schema:
        return str(schema[EXPECTED])
    return "text that is not empty" if schema.get("minLength") else "text"


def show(value: object) -> str:
    """``value`` as a message names it: scalars as written, text in quotes, the rest by kind."""
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping"
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if above is not None:
        return f" above {above}" + (f", at most {high}" if high is not None else "")
    return f" of at least {low}" if low is not None else ""


def _resolve(schema: Schema, root: Schema) -> Schema:
    """``schema`` without references and without the choice of null, which files may not hold."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _resolve({**root["$defs"][name], **_but(schema, "$ref")}, root)
    if "anyOf" in schema:
        options = [_resolve(one, root) for one in schema["anyOf"] if one.get("type") != "null"]
        if len(options) == 1:
            return {**options[0], **_but(schema, "anyOf")}
        return {**schema, "anyOf": options}
    return schema


def _but(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _known_path(location: tuple[int | str, ...], root: Schema, *, unknown: bool) -> KeyPath:
    """``location`` up to where it leaves the keys: pydantic appends the branch of a union."""
    path: KeyPath = ()
    for part in location:
        if at(root, (*path, part)) is None:
            return (*path, part) if unknown else path
        path = (*path, part)
    return path


def _unknown(path: KeyPath, root: Schema) -> tuple[str, str | None]:
    """The sentence about an unknown key, and the key beside it that was meant, if there is one."""
    word = str(path[-1])
    above = at(root, path[:-1])
    siblings = list(above.get("properties", {})) if above else []
    elsewhere: dict[str, str] = {}
    for other in all_paths(root):
        elsewhere.setdefault(other.rpartition(".")[2], other)
    # A key that exists, but in another place, was not mistyped.
    beside = None if word in elsewhere else nearest(word, siblings)
    if beside is not None:
        return f"unknown key; did you mean {beside}?", beside
    meant = word if word in elsewhere else nearest(word, elsewhere)
    hint = f"; did you mean {_place(elsewhere[meant])}?" if meant is not None else ""
    return f"unknown key; expected one of {', '.join(siblings)}{hint}", None


def _place(path: str) -> str:
    return path if "." in path else f"{path}, not indented"


def all_paths(root: Schema, prefix: KeyPath = ()) -> Iterator[str]:
    """Every key of the model as a dotted path, those in lists left out."""
    schema = at(root, prefix) or {}
    for name in schema.get("properties", {}):
        path = (*prefix, name)
        yield dotted(path)
        yield from all_paths(root, path)


def _sentence(detail: ErrorDetails, schema: Schema | None, written: str | None) -> str:
    expected = describe(schema) if schema else "something else"
    if detail["type"] == "missing":
        return f"missing; expected {expected}"
    if detail["type"] == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    value = detail["input"]
    if detail["type"] == "string_type" and written is not None:
        # 580.10 and 580.1 are one number, but two versions.
        return f"is {written}; expected {expected}; put it in quotes: {quoted(written)}"
    choices = [str(choice) for choice in (schema or {}).get("enum", ())]
    hint = did_you_mean(value, choices) if isinstance(value, str) else ""
    return f"is {show(value)}; expected {expected}{hint}"
