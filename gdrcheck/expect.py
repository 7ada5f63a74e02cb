"""What a profile expects of the software and the platform of a node. Types only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class ProfileModel(BaseModel):
    """What every part of a profile is: frozen, and without keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Distance = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
ModuleName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9_]{1,64}$",
        json_schema_extra={"x-expected": "a module's name as in lsmod: a-z, 0-9 and _"},
    ),
]
CudaVersion = Annotated[
    str,
    Field(
        pattern=r"^\d{1,2}\.\d{1,2}$",
        json_schema_extra={"x-expected": 'a version as text, for example "12.4"'},
    ),
]


# The speeds that PCI Express has, generations 1 to 6, in GT/s.
LINK_SPEEDS_GTS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)


def _link_speed(value: float) -> float:
    if value not in LINK_SPEEDS_GTS:
        speeds = ", ".join(f"{speed:g}" for speed in LINK_SPEEDS_GTS)
        raise ValueError(f"is {value:g}; expected one of {speeds}")
    return value


LinkSpeed = Annotated[
    float,
    AfterValidator(_link_speed),
    Field(json_schema_extra={"enum": list(LINK_SPEEDS_GTS)}),
]


class PciLink(ProfileModel):
    """The least that a PCI Express link must have come up with: GT/s and lanes."""

    speed_gts: LinkSpeed | None = None
    width: Literal[1, 2, 4, 8, 16] | None = None


class Expect(ProfileModel):
    """Expected values of the software and the platform. One that is left out is not judged.

    Texts are shell patterns, but ``cuda``, the least version that the driver supports.
    ``firmware`` is of the NICs that serve rails, as the driver says it; ``command_line`` lists
    words that the kernel's command line must have; ``modules`` those that must be loaded.
    ``power_limit_w`` is the least limit of a GPU's power, ``nvlinks`` the number of each GPU's
    links that must be up, ``peer_access`` that each GPU reaches the memory of each other.
    ``mtu_bytes`` is the least active MTU of a rail's port, ``rail_distance`` the farthest that a
    rail's GPU and NIC may be apart. ``uplink`` is every link between the own link of a NIC
    (``nic_link``) or GPU (``gpu_link``) and its root port. ``acs_redirect`` is about every bridge
    above them.
    """

    os: Pattern | None = None
    kernel: Pattern | None = None
    command_line: tuple[Pattern, ...] = ()
    modules: tuple[ModuleName, ...] = ()
    iommu: Literal["off", "passthrough", "translated"] | None = None
    ofed: Pattern | None = None
    firmware: Pattern | None = None
    driver: Pattern | None = None
    cuda: CudaVersion | None = None
    open_module: bool | None = None
    fabric_manager: Literal["active", "absent"] | None = None
    mig: Literal["enabled", "disabled"] | None = None
    bar1_bytes: int | None = Field(default=None, ge=1)
    vbios: Pattern | None = None
    ecc: Literal["enabled", "disabled"] | None = None
    compute_mode: Literal["default", "exclusive_process", "prohibited"] | None = None
    persistence: Literal["on", "off"] | None = None
    confidential_computing: Literal["on", "off"] | None = None
    power_limit_w: float | None = Field(default=None, gt=0)
    nvlinks: int | None = Field(default=None, ge=0, le=64)
    peer_access: Literal["all"] | None = None
    mtu_bytes: Literal[256, 512, 1024, 2048, 4096] | None = None
    rail_distance: Distance | None = None
    nic_link: PciLink | None = None
    gpu_link: PciLink | None = None
    uplink: PciLink | None = None
    acs_redirect: Literal["off", "on"] | None = None
    relaxed_ordering: bool | None = None
    max_payload_bytes: Literal[128, 256, 512, 1024, 2048, 4096] | None = None
    max_read_request_bytes: Literal[128, 256, 512, 1024, 2048, 4096] | None = None

    def about_gpus(self) -> tuple[str, ...]:
        """The promised keys that mean nothing on a node without GPUs, in this order."""
        keys = (
            "driver",
            "cuda",
            "open_module",
            "fabric_manager",
            "mig",
            "bar1_bytes",
            "vbios",
            "ecc",
            "compute_mode",
            "persistence",
            "confidential_computing",
            "power_limit_w",
            "nvlinks",
            "peer_access",
            "rail_distance",
            "gpu_link",
        )
        return tuple(key for key in keys if getattr(self, key) is not None)

    def needs_collector(self) -> tuple[str, ...]:
        """The promised keys that only the host collector can read, dotted, in this order."""
        keys = {
            "os": self.os,
            "ofed": self.ofed,
            "fabric_manager": self.fabric_manager,
            "acs_redirect": self.acs_redirect,
            "relaxed_ordering": self.relaxed_ordering,
            "max_payload_bytes": self.max_payload_bytes,
            "max_read_request_bytes": self.max_read_request_bytes,
        }
        return tuple(f"expect.{key}" for key, value in keys.items() if value is not None)
