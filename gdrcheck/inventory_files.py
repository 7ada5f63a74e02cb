"""Looks through the files of an Ansible inventory for gdrcheck's variables and where they stand.

Ansible merges these files and forgets lines; a message about a typo needs them. Nothing here
decides a value: values come from Ansible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from gdrcheck.outcome import InputError
from gdrcheck.variables import PREFIX, VARIABLES_BY_NAME
from gdrcheck.yaml_keys import Key, keys
from gdrcheck.yaml_lines import read_text

START = "expected a file or folder given by -i; to start: cp -r inventory.example inventory"
YAML_SUFFIXES = (".yml", ".yaml", ".json")
# Ansible passes these over too, or they are no variables of any host.
IGNORED_SUFFIXES = (".md", ".txt", ".rst", ".orig", ".bak", ".swp", ".pyc", ".example", ".cfg")
VARIABLE_FOLDERS = ("group_vars", "host_vars")
_INI_VARIABLE = re.compile(r"""(?<![\w.$"'-])([A-Za-z_][\w-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s#;]*)""")
# How alike a name must be to a known one to count as mistyped: gdrchek_port is, gpucheck_port not.
_ALIKE = 0.88


class Inventory(BaseModel):
    """What the playbook says about the inventory. ``hostvars`` holds gdrcheck's variables only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inventory_sources: tuple[str, ...]
    playbook_dir: str | None = None
    groups: dict[str, tuple[str, ...]]
    play_hosts: tuple[str, ...]
    limit: str | None = None
    hostvars: dict[str, dict[str, object]] = Field(default_factory=dict)
    check_mode: bool = False
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where a file sets a variable; ``value`` is the text as written, if it is a scalar."""

    name: str
    file: Path
    line: int
    value: str | None

    @property
    def place(self) -> str:
        """``FILE:LINE``, the file as seen from the working directory."""
        return f"{shown(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class VariableFile:
    """A file, or folder, of group_vars or host_vars, and the group or host that it is for."""

    path: Path
    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What the files hold. ``problems`` are files that could not be read."""

    mentions: tuple[Mention, ...]
    variable_files: tuple[VariableFile, ...]
    problems: tuple[str, ...]

    def place(self, name: str, value: object = None) -> str | None:
        """Where ``name`` is set, preferably to ``value``; None if no file sets it."""
        mentions = [one for one in self.mentions if one.name == name]
        same = [one for one in mentions if one.value is not None and one.value == str(value)]
        return next((one.place for one in (*same, *mentions)), None)


def shown(path: Path) -> str:
    """``path`` as messages show it: relative to the working directory if it lies below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def existing_sources(named: Sequence[str]) -> tuple[Path, ...]:
    """The inventory's files; a list of hosts (``-i a,b``) is none. InputError if one is missing."""
    sources = tuple(Path(text) for text in named if "," not in text)
    missing = [shown(source) for source in sources if not source.exists()]
    if not named:
        missing = ["inventory"]
    if missing:
        raise InputError(*(f"{name}: there is no such inventory; {START}" for name in missing))
    return sources


def inventory_folders(sources: Iterable[Path]) -> tuple[Path, ...]:
    """The folders beside which group_vars, host_vars and profiles are looked for."""
    folders = (source if source.is_dir() else source.parent for source in sources)
    return tuple(dict.fromkeys(folders))


def scan(sources: tuple[Path, ...], playbook_folders: tuple[Path, ...]) -> Scan:
    """Reads the inventory files and every variable file beside them and beside the playbook."""
    mentions: list[Mention] = []
    problems: list[str] = []
    variable_files = tuple(
        dict.fromkeys(
            found
            for folder in dict.fromkeys((*inventory_folders(sources), *playbook_folders))
            for found in _variable_files(folder)
        )
    )
    files = [file for source in sources for file in _inventory_files(source)]
    files += [file for found in variable_files for file in _below(found.path)]
    for file in dict.fromkeys(files):
        try:
            mentions += _mentions(file)
        except InputError as error:
            problems += error.problems
    return Scan(tuple(mentions), variable_files, tuple(problems))


def is_ours(name: str) -> bool:
    """Whether ``name`` is meant to be a variable of gdrcheck, also with a mistyped prefix."""
    return name.startswith(PREFIX) or any(
        SequenceMatcher(None, name, known).ratio() >= _ALIKE for known in VARIABLES_BY_NAME
    )


def _mentions(file: Path) -> Iterator[Mention]:
    text = read_text(file)
    if text.startswith("$ANSIBLE_VAULT;"):
        return
    variables_only = any(part in VARIABLE_FOLDERS for part in file.parts[:-1])
    if variables_only or file.suffix in YAML_SUFFIXES or text.startswith("---"):
        for key in keys(text, shown(file)):
            is_variable = not key.above if variables_only else _names_variable(key)
            if is_variable and is_ours(key.name):
                yield Mention(key.name, file, key.line, key.value)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("#", ";")):
            continue
        for name, value in _INI_VARIABLE.findall(line):
            if is_ours(name):
                yield Mention(name, file, number, value.strip("\"'"))


def _names_variable(key: Key) -> bool:
    """Whether a key of an inventory is a variable; the others are groups, hosts and keywords."""
    return key.above[-1:] == ("vars",) or key.above[-2:-1] == ("hosts",)


def _inventory_files(source: Path) -> Iterator[Path]:
    """The static files of one source; programs that print an inventory are left out."""
    if source.is_dir():
        for entry in sorted(source.iterdir()):
            if entry.name not in (*VARIABLE_FOLDERS, "profiles") and not _passed_over(entry):
                yield from _inventory_files(entry)
    elif source.is_file() and (source.suffix in YAML_SUFFIXES or not os.access(source, os.X_OK)):
        yield source


def _variable_files(folder: Path) -> Iterator[VariableFile]:
    for kind in VARIABLE_FOLDERS:
        base = folder / kind
        for entry in sorted(base.iterdir()) if base.is_dir() else ():
            if not _passed_over(entry):
                subject = entry.stem if entry.suffix in YAML_SUFFIXES else entry.name
                yield VariableFile(entry, kind, subject)


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            if not _passed_over(entry):
                yield from _below(entry)
    else:
        yield path


def _passed_over(path: Path) -> bool:
    return path.name.startswith((".", "#")) or path.name.endswith(("~", *IGNORED_SUFFIXES))
