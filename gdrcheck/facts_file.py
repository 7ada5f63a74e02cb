"""Reads facts that were collected elsewhere from their file, ``facts.json``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from gdrcheck.facts import Facts
from gdrcheck.outcome import InputError
from gdrcheck.yaml_lines import dotted, quoted

# What `merge` takes from a node as well; the facts of 8 GPUs and 8 NICs are a tenth of it.
MAX_BYTES = 4 << 20
VERSION: int = Facts.model_fields["schema_version"].default
REMEDY = "expected the output of gdrcheck facts --json, or facts.json of a run"
COLLECT_AGAIN = "collect them again with this release, gdrcheck facts --json"
UPDATE = "they were written by a newer gdrcheck: update this one"
STANDARD_INPUT = Path("-")


def load_facts(path: Path) -> Facts:
    """The facts in the file at ``path``; ``-`` is standard input.

    InputError, with one line, when it holds none.
    """
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{place_of(path)}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"{place_of(path)}: larger than {MAX_BYTES} bytes; {REMEDY}")
    return parse_facts(content, place_of(path))


def place_of(path: Path) -> str:
    """The name of ``path`` in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def parse_facts(content: bytes, place: str) -> Facts:
    """The facts in ``content``; ``place`` is its name in messages. InputError as for load_facts."""
    if not content.strip():
        raise InputError(f"{place}: is empty; {REMEDY}")
    try:
        data = from_json(content)
    except ValueError as error:
        raise InputError(f"{place}: is not JSON ({error}); {REMEDY}") from error
    _refuse_other_versions(data, place)
    try:
        return Facts.model_validate_json(content)
    except ValidationError as error:
        raise InputError(f"{place}: {_first_problem(error)}") from error


def _refuse_other_versions(data: Any, place: str) -> None:
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(data, dict) or "node" not in data or version is None:
        raise InputError(f"{place}: is JSON, but no facts; {REMEDY}")
    if version == VERSION:
        return
    newer = isinstance(version, int) and version > VERSION
    raise InputError(
        f"{place}: facts of schema version {quoted(str(version), always=False)}; expected "
        f"version {VERSION}: {UPDATE if newer else COLLECT_AGAIN}"
    )


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    first = problems[0]
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    # Members of a union are places as well, with the names of their types.
    place = [part for part in first["loc"] if not re.search(r"[A-Z\[]", str(part))]
    said, remedy = {
        "missing": ("is missing", f"the facts are of an older gdrcheck: {COLLECT_AGAIN}"),
        "extra_forbidden": ("is not known here", UPDATE),
    }.get(first["type"], (first["msg"], REMEDY))
    return f"{dotted(tuple(place))}: {said}{more}; {remedy}"
