"""Facts about the operating system and about the process that read them."""

from __future__ import annotations

from typing import Literal

from gdrcheck.facts.base import FactsModel, Unreadable


class Limits(FactsModel):
    """The limits and capabilities of the process that ran the probe. None means unlimited."""

    memlock_soft_bytes: int | Unreadable | None
    memlock_hard_bytes: int | Unreadable | None
    effective_capabilities: int | Unreadable
    uid: int | Unreadable


class HugePages(FactsModel):
    """The pool of one huge page size."""

    page_bytes: int
    total: int | Unreadable
    free: int | Unreadable


class Iommu(FactsModel):
    """DMA address translation. ``units`` are the remapping units; none means that it is off.

    ``default_domain`` is what devices get unless told otherwise: ``identity`` (pass-through) or
    ``DMA`` (translated), as the groups of the GPUs and NICs in the facts say; ``mixed`` when they
    differ, None when there are no groups. Source: Linux Documentation/ABI/testing/
    sysfs-kernel-iommu_groups.
    """

    units: tuple[str, ...] | Unreadable
    default_domain: Literal["identity", "DMA", "mixed"] | Unreadable | None


class Module(FactsModel):
    """A kernel module of interest: what is loaded, and what lies on the disk (host collector).

    ``loaded`` is also true for one that is built in. ``path`` is where modinfo(8) finds it,
    ``(builtin)`` for one that is in the kernel, None when the host has none.
    """

    name: str
    loaded: bool | Unreadable
    version: str | Unreadable | None
    source_version: str | Unreadable | None
    path: str | Unreadable | None
    disk_source_version: str | Unreadable | None
    version_magic: str | Unreadable | None
    license: str | Unreadable | None


class LogLine(FactsModel):
    """One line of the kernel log that concerns us. ``topic`` is the matcher that kept it."""

    topic: str
    seconds_since_boot: float
    text: str


class Collector(FactsModel):
    """The host collector that left its files: its version, and when it ran (s since 1970)."""

    version: int
    ran_at_s: float
    complaints: tuple[str, ...]


class Host(FactsModel):
    """The operating system below the container.

    ``kernel_config`` holds the options of interest: ``y``, ``m`` or ``n``. ``units`` are the states
    of systemd units of interest (``active``, ``inactive``, ``failed``, ``not-found``). ``sysctls``
    are the network settings of interest, by dotted name. ``modules`` are those of interest,
    ``loaded_modules`` the names of all that /sys/module shows.
    """

    os: str | Unreadable
    kernel: str | Unreadable
    architecture: str
    hostname: str
    page_bytes: int | Unreadable
    command_line: str | Unreadable
    kernel_config: dict[str, str] | Unreadable
    huge_pages: tuple[HugePages, ...] | Unreadable
    selinux: Literal["enforcing", "permissive", "disabled"] | Unreadable
    apparmor: Literal["enabled", "disabled"] | Unreadable
    lsm_label: str | Unreadable
    iommu: Iommu
    numa_nodes: tuple[int, ...] | Unreadable
    modules: tuple[Module, ...] | Unreadable
    loaded_modules: tuple[str, ...] | Unreadable
    units: dict[str, str] | Unreadable
    sysctls: dict[str, str]
    kernel_log: tuple[LogLine, ...] | Unreadable

    def module(self, name: str) -> Module | Unreadable | None:
        """The module ``name``; None when it is none of those that are looked at."""
        if isinstance(self.modules, Unreadable):
            return self.modules
        return next((module for module in self.modules if module.name == name), None)
