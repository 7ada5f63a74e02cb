"""The run document: what the controller decided, the same file for every node of a run.

``run.json`` holds the ordered nodes, their profiles and the deadlines. The order of ``nodes`` is
the schedule's input and decides who initiates, so every node must get the same document.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from gdrcheck.profile import Profile

DEFAULT_PORT = 18600
RUN_ID_PATTERN = r"^\d{8}T\d{6}Z-[0-9a-f]{6}$"
# Node names become file names, JUnit class names and parts of case names.
NODE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$"
# Suites of the JUnit file that are no node's.
RESERVED_NAMES = ("fleet", "pairs")


def new_run_id(now: datetime | None = None) -> str:
    """``YYYYmmddTHHMMSSZ-xxxxxx`` for ``now`` (default: this moment) and six random hex digits."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class Deadlines(BaseModel):
    """How long each wait may last, in seconds. Strictly nested; see ``scaled``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    completion_s: float = Field(default=10, gt=0)
    connect_s: float = Field(default=20, gt=0)
    check_s: float = Field(default=60, gt=0)
    rail_s: float = Field(default=300, gt=0)
    rendezvous_s: float = Field(default=120, gt=0)
    phase_s: float = Field(default=1800, gt=0)

    @model_validator(mode="after")
    def _nested(self) -> Deadlines:
        ordered = (self.completion_s, self.connect_s, self.check_s, self.rail_s, self.phase_s)
        if list(ordered) != sorted(set(ordered)) or self.rendezvous_s >= self.phase_s:
            raise ValueError(
                "deadlines must nest: completion_s < connect_s < check_s < rail_s < phase_s, "
                "rendezvous_s < phase_s"
            )
        return self

    def scaled(self, factor: float) -> Deadlines:
        """Every deadline multiplied by ``factor`` (the lab, emulated, uses 3)."""
        return Deadlines(**{name: value * factor for name, value in self.model_dump().items()})


class NodeSpec(BaseModel):
    """One node as the others see it. ``address`` and ``port`` are the channel's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NODE_NAME_PATTERN)
    address: str
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    profile: str
    leaf: str | None = None

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name in RESERVED_NAMES:
            raise ValueError(f"{name} is reserved; expected another name for the node")
        return name


class RunSpec(BaseModel):
    """Everything a node must know about the run, but for the secret, which is a file of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run_id: str = Field(pattern=RUN_ID_PATTERN)
    created: AwareDatetime
    gdrcheck_version: str
    image_id: str = ""
    nodes: tuple[NodeSpec, ...] = Field(min_length=1)
    profiles: dict[str, Profile]
    limited_to: str | None = None
    rounds: Annotated[int, Field(ge=1)] | Literal["all"] = 4
    time_scale: float = Field(default=1, gt=0)
    deadlines: Deadlines = Deadlines()

    @model_validator(mode="after")
    def _consistent(self) -> RunSpec:
        names = [node.name for node in self.nodes]
        if len(set(names)) != len(names):
            raise ValueError("node names must be unique")
        for node in self.nodes:
            if node.profile not in self.profiles:
                raise ValueError(f"node {node.name}: profile {node.profile} is not in the run")
        return self

    @property
    def waits(self) -> Deadlines:
        """The deadlines to use: ``deadlines`` times ``time_scale``."""
        return self.deadlines.scaled(self.time_scale)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As for any model; a copy looks its nodes up in its own list."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_by_name", None)
        return copied

    @cached_property
    def _by_name(self) -> dict[str, NodeSpec]:
        return {node.name: node for node in self.nodes}

    def node(self, name: str) -> NodeSpec:
        """The node called ``name``. KeyError if the run has none."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"run {self.run_id} has no node {name!r}") from None

    def profile_of(self, name: str) -> Profile:
        """The profile of the node called ``name``."""
        return self.profiles[self.node(name).profile]


def load(path: Path) -> RunSpec:
    """The run document at ``path``. pydantic.ValidationError if it is not one."""
    return RunSpec.model_validate_json(path.read_bytes())


def is_run_id(text: str) -> bool:
    """Whether ``text`` has the form of a run id."""
    return re.fullmatch(RUN_ID_PATTERN, text) is not None
