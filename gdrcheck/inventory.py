"""Judges gdrcheck's side of an Ansible inventory: groups, variables, profiles, addresses.

Pure but for reading the files that Ansible read. All problems are gathered; the caller raises.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ValidationError

from gdrcheck.complaints import complaints, show
from gdrcheck.inventory_cables import read_ib_links, unasked
from gdrcheck.inventory_files import (
    Inventory,
    Scan,
    existing_sources,
    inventory_folders,
    scan,
    shown,
)
from gdrcheck.nearest import did_you_mean
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.profile_file import SUFFIX, load_profile, profile_names
from gdrcheck.run import NODE_NAME_PATTERN, RESERVED_NAMES, NodeSpec
from gdrcheck.variables import (
    PREFIX,
    PROFILE_NAME_PATTERN,
    VARIABLES_BY_NAME,
    NodeVariables,
    RunVariables,
    meant,
    unknown_variable,
)
from gdrcheck.yaml_lines import dotted

GROUP = "gpu"
# Groups that Ansible makes by itself.
BUILT_IN_GROUPS = ("all", "ungrouped")
NOT_IN_FILES = "not set in the inventory's files"


@dataclass(frozen=True, slots=True)
class Judged:
    """A valid inventory: the nodes of the run in order, and what was set for them.

    ``ib_links`` is the list of an InfiniBand fabric's links, None when none was given.
    """

    nodes: tuple[NodeSpec, ...]
    node_variables: Mapping[str, NodeVariables]
    run_variables: RunVariables
    profiles: Mapping[str, Profile]
    ib_links: bytes | None = None


def judge(inventory: Inventory, playbook_folder: Path, today: date) -> Judged:
    """The nodes and options that ``inventory`` asks for. InputError with every problem found."""
    sources = existing_sources(inventory.inventory_sources)
    playbook_folders = [playbook_folder]
    if inventory.playbook_dir:
        playbook_folders.append(Path(inventory.playbook_dir))
    judging = _Judging(inventory, sources, scan(sources, tuple(playbook_folders)), today)
    judging.problems += judging.files.problems
    if judging.problems and GROUP not in inventory.groups:
        # Ansible passed over a file that it could not read; all else follows from that.
        raise InputError(*judging.problems)
    expected = judging.expected_nodes()
    judging.variable_files()
    judging.unknown_variables()
    node_variables = judging.node_variables(expected)
    run_variables = judging.run_variables(expected, playbook_folder)
    profiles = judging.profiles(expected)
    nodes = judging.nodes(node_variables)
    links = judging.cables(run_variables, playbook_folder, profiles)
    if judging.problems or run_variables is None:
        raise InputError(*dict.fromkeys(judging.problems))
    return Judged(nodes, node_variables, run_variables, profiles, links)


@dataclass(slots=True)
class _Judging:
    inventory: Inventory
    sources: tuple[Path, ...]
    files: Scan
    today: date
    problems: list[str] = field(default_factory=list)
    # What unknown variables were probably meant to be: these are not called missing as well.
    mistyped: set[str | None] = field(default_factory=set)

    @property
    def _name(self) -> str:
        """The inventory as messages name it."""
        named = [shown(source) for source in self.sources] or self.inventory.inventory_sources
        return ", ".join(named) or "inventory"

    def expected_nodes(self) -> tuple[str, ...]:
        """The hosts of the group that are in the play, in the inventory's order."""
        groups = self.inventory.groups
        if GROUP not in groups:
            own = [name for name in groups if name not in BUILT_IN_GROUPS]
            listed = f"; the groups are {', '.join(own)}" if own else ""
            hint = did_you_mean(GROUP, own)
            self.problems.append(
                f"{self._name}: there is no group {GROUP}; expected the nodes in it{listed}{hint}"
            )
            return ()
        members = groups[GROUP]
        if not members:
            self.problems.append(f"{self._name}: group {GROUP} is empty; expected the nodes in it")
        expected = tuple(name for name in members if name in self.inventory.play_hosts)
        if members and not expected:
            self.problems.append(
                f"--limit {self.inventory.limit or ''}: leaves no node of group {GROUP}; "
                f"expected some of {_some(members)}"
            )
        for name in expected:
            if not re.fullmatch(NODE_NAME_PATTERN, name):
                self.problems.append(
                    f"{self._name}: host {show(name)} is no usable name; expected letters, digits, "
                    "'.', '-' and '_', beginning with a letter or digit"
                )
            elif name in RESERVED_NAMES:
                self.problems.append(
                    f"{self._name}: host {name} has the name of a part of the results; expected "
                    f"another name than {' or '.join(RESERVED_NAMES)}"
                )
        return tuple(name for name in expected if _usable(name))

    def variable_files(self) -> None:
        """Complain about files of variables that belong to nothing, and so do nothing."""
        hosts = {host for members in self.inventory.groups.values() for host in members}
        known = {
            "group_vars": {*self.inventory.groups, *BUILT_IN_GROUPS, GROUP},
            "host_vars": {*hosts, *self.inventory.hostvars, "localhost"},
        }
        for found in self.files.variable_files:
            if found.subject not in known[found.kind]:
                what = found.kind.removesuffix("_vars")
                hint = did_you_mean(found.subject, known[found.kind])
                self.problems.append(
                    f"{shown(found.path)}: the inventory has no {what} {found.subject}; "
                    f"expected the name of a {what}{hint}"
                )

    def unknown_variables(self) -> None:
        """Complain about each variable of ours that is none, in files or from elsewhere."""
        for mention in self.files.mentions:
            if mention.name not in VARIABLES_BY_NAME:
                self.problems.append(f"{mention.place}: {unknown_variable(mention.name)}")
                self.mistyped.add(meant(mention.name))
        explained = VARIABLES_BY_NAME.keys() | {mention.name for mention in self.files.mentions}
        for variables in self.inventory.hostvars.values():
            for name in variables:
                if name.startswith(PREFIX) and name not in explained:
                    self.problems.append(f"{NOT_IN_FILES}: {unknown_variable(name)}")

    def node_variables(self, expected: Sequence[str]) -> dict[str, NodeVariables]:
        """The variables of each node; those that are wrong are complained about once."""
        found: dict[str, NodeVariables] = {}
        wrong: dict[str, list[str]] = {}
        for name in expected:
            values = self._values(name, NodeVariables)
            try:
                found[name] = NodeVariables.model_validate(values)
            except ValidationError as error:
                for line in self._lines(error, NodeVariables, values):
                    wrong.setdefault(line, []).append(name)
        self.problems += [f"{line} (on {_some(names)})" for line, names in wrong.items()]
        return found

    def run_variables(self, expected: Sequence[str], folder: Path) -> RunVariables | None:
        """The variables of the run, which all nodes must agree on."""
        by_node = {name: self._values(name, RunVariables) for name in expected}
        first = next(iter(by_node.values()), {})
        for name in RunVariables.model_fields:
            values = {node: show(values.get(name)) for node, values in by_node.items()}
            if len(set(values.values())) > 1:
                one, other = _differing(values)
                self.problems.append(
                    f"{self._place(PREFIX + name)}: {PREFIX}{name}: differs between nodes: "
                    f"{one} has {values[one]}, {other} has {values[other]}; "
                    f"expected one value for the run, in group_vars/{GROUP}.yml"
                )
        try:
            variables = RunVariables.model_validate(first)
        except ValidationError as error:
            self.problems += self._lines(error, RunVariables, first)
            return None
        self._archive(variables, folder)
        return variables

    def _archive(self, variables: RunVariables, folder: Path) -> None:
        if variables.image_source != "archive":
            return
        place = self._place(PREFIX + "image_archive")
        if variables.image_archive is None:
            place = self._place(PREFIX + "image_source")
            self.problems.append(
                f"{place}: {PREFIX}image_archive: missing; expected the path of the archive, "
                f"because {PREFIX}image_source is archive"
            )
        elif not (folder / variables.image_archive).is_file():
            self.problems.append(
                f"{place}: {PREFIX}image_archive: there is no file {variables.image_archive}; "
                "expected an archive made by podman save or docker save"
            )

    def cables(
        self, variables: RunVariables | None, folder: Path, profiles: Mapping[str, Profile]
    ) -> bytes | None:
        """The list of an InfiniBand fabric's links; None when none is named, or it is no good."""
        if variables is None:
            return None
        for name, line in unasked(profiles, variables):
            self.problems.append(f"{self._place(PREFIX + 'profile', name)}: {line}")
        try:
            return read_ib_links(variables, folder)
        except InputError as error:
            place = self._place(PREFIX + "ib_links")
            self.problems += [f"{place}: {PREFIX}ib_links: {line}" for line in error.problems]
            return None

    def profiles(self, expected: Sequence[str]) -> dict[str, Profile]:
        """The profiles that the nodes name, read from their files."""
        named = (self._values(node, NodeVariables).get("profile") for node in expected)
        folders = tuple(folder / "profiles" for folder in inventory_folders(self.sources))
        found: dict[str, Profile] = {}
        for name in dict.fromkeys(str(name) for name in named if name is not None):
            if not re.fullmatch(PROFILE_NAME_PATTERN, name):
                continue
            paths = [path for folder in folders if (path := folder / f"{name}{SUFFIX}").is_file()]
            if not paths:
                self.problems.append(self._no_profile(name, folders))
                continue
            try:
                found[name] = load_profile(paths[0], self.today, shown(paths[0]))
            except InputError as error:
                self.problems += error.problems
        return found

    def _no_profile(self, name: str, folders: Sequence[Path]) -> str:
        existing = profile_names(tuple(folders))
        there = f"expected one of {', '.join(existing)}" if existing else "there is none at all"
        wanted = " or ".join(shown(folder / f"{name}{SUFFIX}") for folder in folders)
        return (
            f"{self._place(PREFIX + 'profile', name)}: {PREFIX}profile: there is no profile "
            f"{show(name)} ({wanted or 'no inventory file'}); {there}{did_you_mean(name, existing)}"
        )

    def nodes(self, variables: Mapping[str, NodeVariables]) -> tuple[NodeSpec, ...]:
        """The nodes with their addresses, which must differ and be reachable from outside."""
        specs = []
        taken: dict[tuple[str, int], str] = {}
        for name, own in variables.items():
            fallback = str(self.inventory.hostvars.get(name, {}).get("ansible_host") or name)
            address = own.address or fallback
            origin = PREFIX + "address" if own.address else "ansible_host"
            place = self._place(PREFIX + "address", address) if own.address else self._name
            if len(variables) > 1 and _is_loopback(address):
                self.problems.append(
                    f"{place}: {PREFIX}address: {address} (by {origin}) reaches only node {name} "
                    f"itself; expected an address that the other nodes reach"
                )
                continue
            first = taken.setdefault((address.casefold(), own.port), name)
            if first != name:
                self.problems.append(
                    f"{place}: {PREFIX}address: nodes {first} and {name} both have {address}, "
                    f"port {own.port}; expected an address or port of its own for each"
                )
            specs.append(
                NodeSpec(
                    name=name, address=address, port=own.port, profile=own.profile, leaf=own.leaf
                )
            )
        return tuple(specs)

    def _values(self, node: str, model: type[BaseModel]) -> dict[str, object]:
        variables = self.inventory.hostvars.get(node, {})
        return {
            name: variables[PREFIX + name]
            for name in model.model_fields
            if PREFIX + name in variables
        }

    def _lines(
        self, error: ValidationError, model: type[BaseModel], values: Mapping[str, object]
    ) -> list[str]:
        lines = []
        for complaint in complaints(error, model):
            name = str(complaint.path[0])
            is_set = name in values
            if not is_set and PREFIX + name in self.mistyped:
                continue
            place = self._place(PREFIX + name, values[name]) if is_set else self._name
            lines.append(f"{place}: {PREFIX}{dotted(complaint.path)}: {complaint.text}")
        return lines

    def _place(self, variable: str, value: object = None) -> str:
        place = self.files.place(variable, value)
        return place or (NOT_IN_FILES if self._is_set(variable) else self._name)

    def _is_set(self, variable: str) -> bool:
        return any(variable in variables for variables in self.inventory.hostvars.values())


def _differing(values: Mapping[str, str]) -> tuple[str, str]:
    """Two nodes whose values differ, the first of the list being one of them."""
    first = next(iter(values))
    return first, next(node for node in values if values[node] != values[first])


def _usable(name: str) -> bool:
    return re.fullmatch(NODE_NAME_PATTERN, name) is not None and name not in RESERVED_NAMES


def _some(names: Iterable[str], limit: int = 5) -> str:
    """The names, or the first few of them and how many more."""
    listed = list(names)
    more = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {more} more" if more > 0 else "")


def _is_loopback(address: str) -> bool:
    if address.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
