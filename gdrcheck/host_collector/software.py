"""The host's distribution, kernel, modules, vendor stack and services."""

from __future__ import annotations

import gzip
import re
import shlex
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .reading import Unread, find_command, first_of, reason, run, unreadable

OPTIONS = (
    "CONFIG_PCI_P2PDMA",
    "CONFIG_DMABUF_MOVE_NOTIFY",
    "CONFIG_DMA_SHARED_BUFFER",
    "CONFIG_UDMABUF",
    "CONFIG_INFINIBAND",
    "CONFIG_INFINIBAND_USER_ACCESS",
    "CONFIG_INFINIBAND_ON_DEMAND_PAGING",
    "CONFIG_IOMMU_DEFAULT_PASSTHROUGH",
    "CONFIG_PCIEAER",
    "CONFIG_HMM_MIRROR",
    "CONFIG_ZONE_DEVICE",
    "CONFIG_STRICT_DEVMEM",
)
MODULES = (
    "ib_core",
    "ib_uverbs",
    "rdma_cm",
    "rdma_ucm",
    "ib_umad",
    "mlx5_core",
    "mlx5_ib",
    "irdma",
    "bnxt_re",
    "efa",
    "rdma_rxe",
    "siw",
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_peermem",
    "nv_peer_mem",
    "efa_nv_peermem",
    "gdrdrv",
)
# The names in host.json, and those of modinfo(8).
FIELDS = {
    "path": "filename",
    "version": "version",
    "source_version": "srcversion",
    "version_magic": "vermagic",
    "license": "license",
}
UNITS = (
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
    "nvidia-imex.service",
    "openibd.service",
    "opensm.service",
    "opensmd.service",
    "irqbalance.service",
    "chrony.service",
    "chronyd.service",
    "ntpsec.service",
    "systemd-timesyncd.service",
)


def read_os(root: Path) -> str:
    """The distribution's name for people (os-release(5))."""
    text = first_of(root, "etc/os-release", "usr/lib/os-release").decode("utf-8", "replace")
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME" and value:
            return " ".join(shlex.split(value))[:200]
    raise Unread("os-release: has no PRETTY_NAME")


def read_kernel_config(root: Path) -> dict[str, str]:
    """The build options of interest; one that is not set is ``n``."""
    release = read_release(root)
    places = ("proc/config.gz", f"boot/config-{release}", f"lib/modules/{release}/config")
    raw = first_of(root, *places)
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise Unread(f"/proc/config.gz: {error}") from error
    found = dict(re.findall(r"^(CONFIG_\w+)=(.+)$", raw.decode("utf-8", "replace"), re.MULTILINE))
    if not found:
        raise Unread("the kernel's configuration: holds no option")
    return {name: found.get(name, "n").strip('"')[:64] for name in OPTIONS}


def read_release(root: Path) -> str:
    """The running kernel's release."""
    release = first_of(root, "proc/sys/kernel/osrelease").decode("ascii", "replace").strip()
    if not re.fullmatch(r"\w[\w.+~-]{0,63}", release):
        raise Unread(f"osrelease: {release[:40]!r} is no kernel release")
    return release


def read_modules(root: Path, names: Iterable[str]) -> dict[str, Any]:
    """What modinfo(8) says of each module; only None for one that the host does not have."""
    release = read_release(root)
    index = module_index(root, release)
    find_command(root, "modinfo")
    found: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = read_module(root, release, name, index)
        except Unread as error:
            found[name] = unreadable(str(error))
    return found


def module_index(root: Path, release: str) -> set[str]:
    """The names of all modules that the kernel has, on the disk or built in (modules.dep(5)).

    Asking modinfo about each that it does not have takes seconds on a slow machine.
    """
    found = set()
    for file in ("modules.dep", "modules.builtin"):
        text = first_of(root, f"lib/modules/{release}/{file}").decode("utf-8", "replace")
        paths = (line.partition(":")[0] for line in text.splitlines())
        names = {path.rpartition("/")[2].partition(".")[0] for path in paths if ".ko" in path}
        if not names:
            raise Unread(f"/lib/modules/{release}/{file}: names no module")
        found |= names
    return found


def read_module(root: Path, release: str, name: str, index: set[str]) -> dict[str, str | None]:
    """One module. Its file may have hyphens, and Debian calls that of ``nvidia_uvm``
    ``nvidia-current-uvm``, and so on; of two flavours this is the loaded one, else the first.
    """
    hyphens = name.replace("_", "-")
    names = [name, hyphens]
    if name.startswith("nvidia"):
        end = hyphens[len("nvidia") :]
        names += [f"nvidia-current{end}", f"nvidia-current-open{end}"]
    there = [one for one in dict.fromkeys(names) if one in index]
    found = [ask_modinfo(root, release, one) for one in there]
    if not found:
        return dict.fromkeys(FIELDS)
    loaded = loaded_source_version(root, name) if len(found) > 1 else None
    return next((one for one in found if one["source_version"] == loaded), found[0])


def ask_modinfo(root: Path, release: str, name: str) -> dict[str, str | None]:
    """The fields of interest of a module that is there; of one that is repeated the first."""
    base = () if root == Path("/") else ("-b", str(root))
    done = run(root, "modinfo", *base, "-k", release, "--", name)
    if done.returncode != 0:
        raise Unread(f"modinfo: {reason(done)}")
    pairs = [line.partition(":")[::2] for line in done.stdout.splitlines()]
    said = {key: value.strip()[:500] for key, value in reversed(pairs)}
    if not said.get("filename"):
        raise Unread("modinfo: named no file")
    return {key: said.get(field) or None for key, field in FIELDS.items()}


def loaded_source_version(root: Path, name: str) -> str | None:
    """Of the module that is loaded; None when none is."""
    try:
        return first_of(root, f"sys/module/{name}/srcversion").decode("ascii", "replace").strip()
    except Unread:
        return None


def read_selinux(root: Path) -> str:
    """``enforcing``, ``permissive``, or ``disabled`` where its file system is not mounted."""
    if not (root / "sys/fs").is_dir():
        raise Unread("/sys/fs: no such folder")
    if not (root / "sys/fs/selinux/enforce").exists():
        return "disabled"
    mode = first_of(root, "sys/fs/selinux/enforce").strip()
    if mode not in (b"0", b"1"):
        raise Unread(f"/sys/fs/selinux/enforce: {mode[:40]!r}")
    return "enforcing" if mode == b"1" else "permissive"


def read_ofed(root: Path) -> str:
    """The vendor's RDMA stack as ``ofed_info`` names it, ``inbox`` on a host without one."""
    try:
        find_command(root, "ofed_info")
    except Unread:
        return "inbox"
    done = run(root, "ofed_info", "-s")
    name = done.stdout.strip().rstrip(":")
    if done.returncode != 0 or not re.fullmatch(r"\S{1,200}", name):
        raise Unread(f"ofed_info: {reason(done)}")
    return name


def read_units(root: Path) -> dict[str, str]:
    """What systemd says of the units of interest."""
    properties = ("--property=LoadState", "--property=ActiveState")
    done = run(root, "systemctl", "show", "--no-pager", *properties, *UNITS)
    if done.returncode != 0:
        raise Unread(f"systemctl: {reason(done)}")
    # It answers in the order of the question, with an empty line between two units.
    answers = [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in done.stdout.strip().split("\n\n")
    ]
    if len(answers) != len(UNITS) or not all(one.get("ActiveState") for one in answers):
        raise Unread(f"systemctl: did not answer about each of the {len(UNITS)} units")
    return {unit: unit_state(answers[place]) for place, unit in enumerate(UNITS)}


def unit_state(said: dict[str, str]) -> str:
    """``active`` and so on; of a unit that cannot be started why not, ``not-found`` for one."""
    load, active = said.get("LoadState", ""), said["ActiveState"]
    return load if active == "inactive" and load not in ("", "loaded") else active
