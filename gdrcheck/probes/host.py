"""The operating system, and the limits of the process that asks."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from gdrcheck.facts import Host, Limits, Unreadable
from gdrcheck.probes.reading import read_text


def read_host(root: Path) -> Host:
    """Kernel release, host name and page size."""
    return Host(
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
        hostname=os.uname().nodename,
        page_bytes=os.sysconf("SC_PAGESIZE"),
    )


def read_limits(root: Path) -> Limits:
    """RLIMIT_MEMLOCK and the effective capabilities (proc(5), CapEff) of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return Limits(
        memlock_soft_bytes=_bytes_or_unlimited(soft),
        memlock_hard_bytes=_bytes_or_unlimited(hard),
        effective_capabilities=_effective_capabilities(root / "proc/self/status"),
        uid=os.getuid(),
    )


def _bytes_or_unlimited(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _effective_capabilities(path: Path) -> int | Unreadable:
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "CapEff":
            try:
                return int(value, 16)
            except ValueError:
                break
    return Unreadable(unreadable=f"{path.name}: no valid CapEff line")
