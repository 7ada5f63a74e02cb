"""The profile: what the owner promises of a group of nodes. Types only; reading is elsewhere.

The *core* (GPUs and their model, rails, port rate, link layer) may be left out of a file, but then
the verdict is INCOMPLETE: a machine that promised nothing cannot pass. ``missing_core`` says what.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gdrcheck.contradictions import CONTRADICTION, contradictions
from gdrcheck.expect import Expect, ProfileModel
from gdrcheck.facts import DEVICE_NAME_PATTERN, LinkLayer
from gdrcheck.findings.model import CodeName


class Gpus(ProfileModel):
    """GPUs per node. ``model`` is a shell pattern over the name that the driver gives."""

    count: int = Field(ge=0, le=64)
    model: str | None = None

    @model_validator(mode="after")
    def _model_named(self) -> Gpus:
        if self.count and not self.model:
            raise ValueError(
                "model is missing; expected the name of the GPUs that were bought, for example "
                '"NVIDIA H200"'
            )
        return self


# The longest that the kernel allows is far below; a rail's name goes to every other node.
NamePattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        json_schema_extra={"x-expected": "a name or a pattern of 1 to 64 characters"},
    ),
]
WILDCARDS = re.compile(r"[*?\[]")


class NicSelector(ProfileModel):
    """Selects NICs by one of: RDMA device name, PCI slot, netdev. Each is a shell pattern.

    ``port`` is the port of the device that serves the rail. Left out it is port 1, and a device on
    which another port is active as well is an error, since nobody said which of them is meant.
    ``gpu`` is the number of the rail's GPU, in PCI order; left out it is the closest one.
    """

    name: NamePattern | None = None
    slot: NamePattern | None = None
    netdev: NamePattern | None = None
    port: int | None = Field(default=None, ge=1, le=255)
    gpu: int | None = Field(default=None, ge=0, le=63)

    @model_validator(mode="after")
    def _exactly_one(self) -> NicSelector:
        if sum(value is not None for value in (self.name, self.slot, self.netdev)) != 1:
            raise ValueError("expected exactly one of name, slot, netdev")
        if self.name and self.literal and not re.fullmatch(DEVICE_NAME_PATTERN, self.name):
            raise ValueError(
                f"name {self.name!r} is no device name; expected letters, digits, '_', '.', '-', "
                "or a pattern with *"
            )
        return self

    @property
    def literal(self) -> bool:
        """Whether this names one device, with no wildcard."""
        return not any(
            WILDCARDS.search(value) for value in (self.name, self.slot, self.netdev) if value
        )

    def matches(self, *, name: str, slot: str | None, netdev: str | None) -> bool:
        """Whether a NIC with these identities is selected."""
        for pattern, value in ((self.name, name), (self.slot, slot), (self.netdev, netdev)):
            if pattern is not None:
                return value is not None and fnmatchcase(value, pattern)
        return False

    def text(self) -> str:
        """``name mlx5_*``: the selector in words."""
        for key in ("name", "slot", "netdev"):
            if (value := getattr(self, key)) is not None:
                return f"{key} {value}"
        return ""


class Rails(ProfileModel):
    """Rails per node: how many, which NICs serve them, and what their ports promise.

    With one selector for each rail and no wildcards, rail i is what the i-th selector names; else
    the rails are the NICs that match, in PCI order.
    ``port_rate_gbps`` is in Gb/s (bits), as the port reports it. ``cabling`` is about nodes with
    the same leaf label (or all, without labels): ``by_rail`` has rail i of each at one leaf switch,
    ``by_node`` all rails of each. Left out, the leaves are shown and not judged.
    """

    count: int = Field(ge=1, le=64)
    nics: tuple[NicSelector, ...] = Field(min_length=1)
    port_rate_gbps: float | None = Field(default=None, gt=0)
    link_layer: LinkLayer | None = None
    cabling: Literal["by_rail", "by_node"] | None = None


class Gid(ProfileModel):
    """Which GID entry to use: address family and type."""

    family: Literal["ipv4", "ipv6", "any"] = "any"
    type: Literal["RoCE v2", "RoCE v1", "IB", "auto"] = "auto"


class Factors(ProfileModel):
    """The share of the limiting rate that a measurement of bandwidth must reach."""

    nic_limited: float = Field(default=0.90, gt=0, le=1)
    pcie_limited_source: float = Field(default=0.78, gt=0, le=1)
    pcie_limited_sink: float = Field(default=0.78, gt=0, le=1)


class Transfers(ProfileModel):
    """What else is moved between nodes: atomic operations, and data beyond 2 GiB of a region.

    ``atomics``: fetch-and-add and compare-and-swap, which not every port can do. ``beyond_2gib``:
    messages in GPU memory at offsets of 2 GiB and more, where its size and its BAR1 allow.
    """

    atomics: bool = False
    beyond_2gib: bool = True


class Waiver(ProfileModel):
    """A finding that the owner accepts until a day. ``where`` is a shell pattern over the place.

    What a node has several of must be named after a comma: ``node1, gdrdrv``.
    """

    code: CodeName
    where: str
    reason: str = Field(min_length=1)
    until: date


class Profile(ProfileModel):
    """What was bought. Defaults are what holds when the owner says nothing.

    ``modes``: of which memories the speed is measured, beside host to host and GPU to GPU.
    ``latency_limit_us`` is for half of the round trip of our own SEND loop, in every mode.
    """

    gpus: Gpus | None = None
    rails: Rails | None = None
    registration: Literal["any", "dmabuf", "peermem", "both"] = "any"
    matrix: Literal["rails", "full"] = "rails"
    pairs: Literal["required", "none"] = "required"
    cross_rail: Literal["required", "optional", "absent"] = "optional"
    modes: Literal["default", "all"] = "default"
    transfers: Transfers = Transfers()
    gid: Gid = Gid()
    traffic_class: int = Field(default=0, ge=0, le=255)
    service_level: int = Field(default=0, ge=0, le=15)
    pkey: int | None = Field(default=None, ge=1, le=0xFFFF)
    path_mtu: Literal[256, 512, 1024, 2048, 4096] | None = None
    factors: Factors = Factors()
    latency_limit_us: float | None = Field(default=None, gt=0)
    expect: Expect = Expect()
    waivers: tuple[Waiver, ...] = ()

    @model_validator(mode="after")
    def _no_contradiction(self) -> Profile:
        found = tuple(contradictions(self))
        if found:
            text = "; ".join(text for _, text in found)
            raise PydanticCustomError(CONTRADICTION, "{text}", {"text": text, "problems": found})
        return self

    def missing_core(self) -> tuple[str, ...]:
        """The keys of the mandatory core that the owner left out; empty when all are there."""
        missing = []
        if self.gpus is None:
            missing.append("gpus")
        if self.rails is None:
            return (*missing, "rails")
        if self.rails.port_rate_gbps is None:
            missing.append("rails.port_rate_gbps")
        if self.rails.link_layer is None:
            missing.append("rails.link_layer")
        return tuple(missing)

    def digest(self) -> str:
        """SHA-256, in hex, of the profile as canonical JSON: equal for equal promises."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
