"""Reads a profile from its file, ``profiles/<name>.yml``.

All problems of a file are reported at once, each as one line
``FILE:LINE: KEY: what is wrong; expected ...; did you mean ...?``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from gdrcheck.complaints import complaints, show
from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.nearest import did_you_mean
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.yaml_lines import Complaint, Document, KeyPath, dotted, read, read_text

SUFFIX = ".yml"


def load_profile(path: Path, today: date, place: str | None = None) -> Profile:
    """The profile in the file at ``path``; ``place`` is its name in messages (default ``path``).

    ``today`` decides which waivers have expired. InputError with every problem of the file.
    """
    return parse_profile(read_text(path), place or str(path), today)


def parse_profile(text: str, place: str, today: date) -> Profile:
    """The profile in ``text``. InputError with every problem, each naming ``place`` and line."""
    _refuse_reports(text, place)
    document = read(text, place)
    if not isinstance(document.data, dict):
        raise InputError(f"{place}:1: is not a mapping; expected keys such as gpus and rails")
    found = {complaint.path: complaint for complaint in document.complaints}
    profile = None
    try:
        # Strict, and by way of JSON: there a list may become a tuple and a text a date, but a
        # text never becomes a number, nor a truth value one.
        profile = Profile.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        for complaint in complaints(error, Profile, document.written):
            if not _explained(complaint.path, document):
                found.setdefault(complaint.path, complaint)
    for complaint in _unknown_codes(document.data):
        found[complaint.path] = complaint
    if profile is not None:
        found |= {complaint.path: complaint for complaint in _expired(profile, today)}
    if profile is None or found:
        raise InputError(*_lines(document, place, found.values()))
    return profile


def _refuse_reports(text: str, place: str) -> None:
    """InputError for what gdrcheck writes as JSON: as YAML it is a profile with nothing right."""
    if not text.lstrip().startswith("{"):
        return
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return
    if "rdma_devices" in data and "host" in data:
        raise InputError(
            f"{place}: this is a facts.json, no profile; gdrcheck profile --from {place} writes a "
            "first profile from it"
        )
    if "schema_version" in data:
        raise InputError(f"{place}: this is JSON that gdrcheck wrote, no profile")


def profile_names(directories: tuple[Path, ...]) -> tuple[str, ...]:
    """The names of the profiles in ``directories``, sorted; a missing directory holds none."""
    return tuple(
        sorted(
            {
                file.stem
                for folder in directories
                for file in folder.glob(f"*{SUFFIX}")
                if not file.name.startswith(".")
            }
        )
    )


def _explained(path: KeyPath, document: Document) -> bool:
    """Whether the YAML itself is wrong at or below ``path``: then one line about it is enough."""
    return any(complaint.path[: len(path)] == path for complaint in document.complaints)


def _lines(document: Document, place: str, found: Iterable[Complaint]) -> Iterator[str]:
    """One line a problem, in the order of the file."""
    for complaint in sorted(found, key=lambda one: document.line(one.path)):
        key = f"{dotted(complaint.path)}: " if complaint.path else ""
        yield f"{place}:{document.line(complaint.path)}: {key}{complaint.text}"


def _unknown_codes(data: object) -> Iterator[Complaint]:
    waivers = data.get("waivers") if isinstance(data, dict) else None
    for index, waiver in enumerate(waivers if isinstance(waivers, list) else ()):
        code = waiver.get("code") if isinstance(waiver, dict) else None
        if isinstance(code, str) and code not in ENTRIES_BY_CODE:
            hint = did_you_mean(code, ENTRIES_BY_CODE)
            what = f"{show(code)} is no code; expected one of gdrcheck explain --list{hint}"
            yield Complaint(("waivers", index, "code"), what)


def _expired(profile: Profile, today: date) -> Iterator[Complaint]:
    for index, waiver in enumerate(profile.waivers):
        if waiver.until < today:
            yield Complaint(
                ("waivers", index, "until"),
                f"the waiver of {waiver.code} expired on {waiver.until}; expected a day from "
                f"{today} on: repair the fault and remove the waiver, or extend it",
            )
