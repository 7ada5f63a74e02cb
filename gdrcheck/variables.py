"""The variables of an Ansible inventory that gdrcheck knows, with types and defaults.

The one table of them: the playbooks take names and defaults from ``gdrcheck prepare``, people
read it by ``gdrcheck variables``. Each field here is the variable ``gdrcheck_<field>``.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gdrcheck.complaints import EXPECTED, at, describe
from gdrcheck.nearest import nearest
from gdrcheck.run import DEFAULT_PORT, Deadlines

PREFIX = "gdrcheck_"
# Letters of file names only: the name becomes part of a path.
PROFILE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
# A host name or an IPv4 or IPv6 address; whether it works is for preflight to prove.
ADDRESS_PATTERN = r"^[A-Za-z0-9:][A-Za-z0-9:.%_-]{0,252}$"


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is a truth value; expected a number")
    return value


# Ansible's -e NAME=VALUE makes a text of every value, so a text that is a number is taken for one.
Whole = Annotated[int, BeforeValidator(_no_truth_value)]
PositiveWhole = Annotated[int, Field(ge=1), BeforeValidator(_no_truth_value)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]
ProfileName = Annotated[
    str,
    Field(
        pattern=PROFILE_NAME_PATTERN,
        json_schema_extra={EXPECTED: "the NAME of a file profiles/NAME.yml beside the inventory"},
    ),
]
Address = Annotated[
    str,
    Field(pattern=ADDRESS_PATTERN, json_schema_extra={EXPECTED: "a host name or an IP address"}),
]
# Goes into the engine's --volume, where a colon or a comma would mean something else.
AbsolutePath = Annotated[
    str, Field(pattern=r"^/[A-Za-z0-9._/@+-]*$", json_schema_extra={EXPECTED: "an absolute path"})
]


class _Variables(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False
    )


class NodeVariables(_Variables):
    """Variables that may differ between nodes."""

    profile: ProfileName = Field(description="name of the node's profile: what was bought")
    address: Address | None = Field(
        default=None,
        description="address at which other nodes reach this one; ansible_host if not given",
    )
    port: Whole = Field(
        default=DEFAULT_PORT, ge=1, le=65535, description="TCP port of the channel on this node"
    )
    leaf: str | None = Field(
        default=None,
        min_length=1,
        description="name of the leaf switch: one round stays inside leaves, the others cross",
    )
    allow_gpu_processes: bool = Field(
        default=False, description="run although processes are using the node's GPUs"
    )


class RunVariables(_Variables):
    """Variables that have one value for the whole run."""

    engine: Literal["auto", "podman", "docker"] = Field(
        default="auto", description="container engine; auto takes podman before docker"
    )
    image: str = Field(
        default="localhost/gdrcheck:dev", min_length=1, description="name of the image"
    )
    image_id: str | None = Field(
        default=None,
        pattern=r"^sha256:[0-9a-f]{64}$",
        description="id that the image must have (podman image inspect --format {{.Id}}); "
        "without it a node that has an image of the name keeps it",
    )
    image_source: Literal["present", "registry", "archive"] = Field(
        default="present",
        description="where the image comes from: it is on the nodes already, the nodes pull it, "
        "or the controller sends an archive",
    )
    image_archive: str | None = Field(
        default=None,
        min_length=1,
        description="the archive on the controller (podman save), for image_source archive",
    )
    image_archive_remote_path: AbsolutePath = Field(
        default="/var/tmp/gdrcheck-image.tar",
        description="where the archive is put on a node until it is loaded",
    )
    results_dir: str = Field(
        default="results",
        min_length=1,
        description="folder for results on the controller, relative to the playbook's",
    )
    state_dir: AbsolutePath = Field(
        default="/var/lib/gdrcheck", description="folder of gdrcheck on a node"
    )
    rounds: PositiveWhole | Literal["all"] = Field(
        default=4, description="rounds of pairs: a number, or all for every pair"
    )
    time_scale: Number = Field(
        default=1, gt=0, le=100, description="factor on every deadline, for slow machines"
    )
    neighbours: Literal["none", "lldp"] = Field(
        default="none",
        description="whether the nodes learn by LLDP which switch ports their NICs' cables lead "
        "to; where no lldpd answers they listen for at most 35 s",
    )
    ib_links: str | None = Field(
        default=None,
        min_length=1,
        description="file on the controller with the output of ibnetdiscover or iblinkinfo, for "
        "what the cables of InfiniBand lead to; relative to the playbook's folder",
    )
    deadlines: Deadlines = Field(
        default=Deadlines(), description="single deadlines in seconds, before time_scale"
    )
    min_free_bytes: Whole = Field(
        default=2 * 1024**3, ge=0, description="free disk space that a node must have"
    )
    preflight_listener_s: Whole = Field(
        default=120,
        ge=1,
        description="how long a node listens for the others when preflight tries the channel; "
        "10 s a node are added",
    )


@dataclass(frozen=True, slots=True)
class Variable:
    """One line of the table. ``default`` is None where there is none."""

    name: str
    scope: Literal["node", "run"]
    expected: str
    default: object
    required: bool
    help: str


def _table() -> tuple[Variable, ...]:
    rows = []
    scopes: tuple[tuple[Literal["node", "run"], type[_Variables]], ...] = (
        ("node", NodeVariables),
        ("run", RunVariables),
    )
    for scope, model in scopes:
        schema = model.model_json_schema()
        for name, field in model.model_fields.items():
            default = None if field.is_required() else field.default
            rows.append(
                Variable(
                    name=PREFIX + name,
                    scope=scope,
                    expected=describe(at(schema, (name,)) or {}),
                    default=default.model_dump() if isinstance(default, BaseModel) else default,
                    required=field.is_required(),
                    help=field.description or "",
                )
            )
    return tuple(rows)


VARIABLES: tuple[Variable, ...] = _table()
VARIABLES_BY_NAME = {variable.name: variable for variable in VARIABLES}


def meant(name: str) -> str | None:
    """The variable that ``name`` probably was to be; compared without what all have in common."""
    if not name.startswith(PREFIX):
        return nearest(name, VARIABLES_BY_NAME)
    rest = nearest(
        name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in VARIABLES_BY_NAME)
    )
    return PREFIX + rest if rest else None


def unknown_variable(name: str) -> str:
    """The complaint about a variable that the table does not have."""
    word = meant(name)
    hint = f"; did you mean {word}?" if word else ""
    return f"{name}: unknown variable; expected one of gdrcheck variables{hint}"


def as_text(variables: tuple[Variable, ...]) -> str:
    """The table for a terminal: name, scope, default, then what it is for."""
    lines = []
    for variable in variables:
        default = "required" if variable.required else f"default {json.dumps(variable.default)}"
        if variable.default is None and not variable.required:
            default = "no default"
        scope = "per node" if variable.scope == "node" else "per run"
        lines.append(f"{variable.name} ({scope}, {default})")
        lines.append(
            textwrap.fill(
                f"{variable.help}. Expected: {variable.expected}.",
                width=96,
                initial_indent="    ",
                subsequent_indent="    ",
            )
        )
    return "\n".join(lines)
