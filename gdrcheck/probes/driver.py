"""NVIDIA's kernel driver and the RDMA stack, in the kernel and in the image."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import TypeAdapter

from gdrcheck.facts import NvidiaDriver, Nvml, Peermem, Provider, RdmaStack, Unreadable
from gdrcheck.facts.base import SLOT_PATTERN
from gdrcheck.facts.pci import NVIDIA_VENDOR
from gdrcheck.probes.collected import HOST_FILE, Collected
from gdrcheck.probes.reading import (
    is_there,
    list_names,
    matched,
    read_number,
    read_text,
    shaped,
)
from gdrcheck.probes.versions import rdma_core_version

MODULES = "sys/module"
NVIDIA_VERSION = "proc/driver/nvidia/version"
NVIDIA_PARAMETERS = "proc/driver/nvidia/params"
# "NVIDIA UNIX Open Kernel Module for x86_64  580.1 " or "NVIDIA UNIX x86_64 Kernel Module  535.1 ".
VERSION_LINE = re.compile(
    r"^NVRM version: NVIDIA UNIX (?:(?P<open>Open Kernel Module for \S+)|\S+ Kernel Module)"
    r" +(?P<version>\d{1,4}(?:\.\d{1,4}){1,3}) ",
    re.MULTILINE,
)
VERSION = re.compile(r"^\d{1,4}(?:\.\d{1,4}){1,3}$")
# Those that change where GPU memory can be reached from, or how.
PARAMETERS = (
    "GrdmaPciTopoCheckOverride",
    "EnableResizableBar",
    "EnablePCIERelaxedOrderingMode",
    "EnableStreamMemOPs",
    "DmaRemapPeerMmio",
    "IgnoreMMIOCheck",
    "NvLinkDisable",
    "OpenRmEnableUnsupportedGpus",
    "CoherentGPUMemoryMode",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
)
PARAMETER = re.compile(r"(\w{1,64}): ?(.{0,1000})")
# Today's name, the one that it had before, and what stands in for it with Amazon's EFA.
PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
PEERMEM_CLIENTS = "sys/kernel/mm/memory_peers"
PCI_DEVICES = "sys/bus/pci/devices"
NVSWITCH_CLASS = 0x0680  # PCI Code and ID Assignment: bridge device of another kind
VERBS = "sys/class/infiniband_verbs"
DRIVER_FILES = "etc/libibverbs.d"
# A name, or the path of a library without its ending.
DRIVER_LINE = re.compile(
    r"^[ \t]*driver[ \t]+(?:/(?P<folder>(?:[\w+-][\w.+-]*/)+)lib)?(?P<name>\w[\w.-]{0,63})[ \t]*$",
    re.MULTILINE,
)
LIBRARY_FOLDERS = ("usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64")
MULTIARCH = "-linux-gnu"
LIBRARY = re.compile(r"lib(.+)-rdmav\d+\.so")
TEXT: TypeAdapter[str] = TypeAdapter(str)


def read_nvidia(root: Path, nvml: Nvml | Unreadable | None) -> NvidiaDriver | None:
    """NVIDIA's kernel driver; None when it is not loaded, which is when there is no ``nvml``."""
    if nvml is None:
        return None
    line = matched(root / NVIDIA_VERSION, VERSION_LINE)
    return NvidiaDriver(
        version=_nvidia_version(root, line),
        open_module=line if isinstance(line, Unreadable) else line["open"] is not None,
        cuda=nvml if isinstance(nvml, Unreadable) else nvml.cuda_version,
        peermem=_peermem(root),
        parameters=_parameters(root / NVIDIA_PARAMETERS),
        nvswitches=_nvswitches(root / PCI_DEVICES),
    )


def read_rdma_stack(root: Path, left: Collected, versions: dict[str, str]) -> RdmaStack:
    """The RDMA software. ``versions`` are those of the image, as ``read_versions`` read them."""
    return RdmaStack(
        ofed=shaped(left.value("ofed"), TEXT, f"{HOST_FILE}: ofed"),
        uverbs_abi=_uverbs_abi(root / VERBS),
        rdma_core=rdma_core_version(versions),
        providers=_providers(root),
        exclusive_namespaces=_exclusive_namespaces(root / MODULES / "ib_core"),
    )


def _nvidia_version(root: Path, line: re.Match[str] | Unreadable) -> str | Unreadable:
    if not isinstance(line, Unreadable):
        return line["version"]
    found = matched(root / MODULES / "nvidia/version", VERSION)
    return found if isinstance(found, Unreadable) else found[0]


def _peermem(root: Path) -> Peermem:
    loaded = {name: is_there(root / MODULES / name) for name in PEERMEM_MODULES}
    module = next((name for name, there in loaded.items() if there is True), None)
    unknown = next((there for there in loaded.values() if isinstance(there, Unreadable)), False)
    there = is_there(root / PEERMEM_CLIENTS)
    return Peermem(
        loaded=True if module else unknown,
        module=module,
        clients=list_names(root / PEERMEM_CLIENTS) if there is True else there or None,
    )


def _parameters(path: Path) -> dict[str, str] | Unreadable:
    text = read_text(path)
    if isinstance(text, Unreadable):
        return text
    pairs = [PARAMETER.fullmatch(line.strip()) for line in text.splitlines()]
    if not all(pairs):
        return Unreadable(unreadable=f"{path.name}: unknown form")
    found = {pair[1]: pair[2].strip('"') for pair in pairs if pair}
    return {name: found[name] for name in PARAMETERS if name in found}


def _nvswitches(folder: Path) -> tuple[str, ...] | Unreadable:
    names = list_names(folder)
    if isinstance(names, Unreadable):
        return names
    return tuple(
        name
        for name in names
        if re.fullmatch(SLOT_PATTERN, name)
        and read_number(folder / name / "vendor") == NVIDIA_VENDOR
        and _class_of(folder / name) == NVSWITCH_CLASS
    )


def _class_of(function: Path) -> int | None:
    kind = read_number(function / "class")
    return kind >> 8 if isinstance(kind, int) else None


def _uverbs_abi(folder: Path) -> int | Unreadable | None:
    """None when the kernel offers no verbs to user space: ib_uverbs is not loaded."""
    there = is_there(folder)
    return read_number(folder / "abi_version", 10) if there is True else there or None


def _exclusive_namespaces(module: Path) -> bool | Unreadable:
    loaded = is_there(module)
    if loaded is not True:
        return loaded or Unreadable(unreadable="netns_mode: ib_core is not loaded")
    there = is_there(module / "parameters/netns_mode")
    # Kernels before 5.2 have one mode only: shared.
    if there is not True:
        return there
    mode = read_text(module / "parameters/netns_mode")
    if mode not in ("Y", "N"):
        unknown = Unreadable(unreadable=f"netns_mode: unknown form {str(mode)[:40]!r}")
        return mode if isinstance(mode, Unreadable) else unknown
    return mode == "N"


def _providers(root: Path) -> tuple[Provider, ...] | Unreadable:
    """What libibverbs is told to load (its README, ``driver`` lines), by name."""
    there = is_there(root / DRIVER_FILES)
    if there is not True:
        return there or ()
    files = list_names(root / DRIVER_FILES)
    if isinstance(files, Unreadable):
        return files
    named: dict[str, str] = {}
    for file in files:
        if file.endswith(".driver"):
            text = read_text(root / DRIVER_FILES / file)
            if isinstance(text, Unreadable):
                return text
            named |= {one["name"]: one["folder"] or "" for one in DRIVER_LINE.finditer(text)}
    libraries = _libraries(root, {folder for folder in named.values() if folder})
    if isinstance(libraries, Unreadable):
        return libraries
    return tuple(Provider(name=name, library=libraries.get(name)) for name in sorted(named))


def _libraries(root: Path, also: set[str]) -> dict[str, str] | Unreadable:
    """Provider → file name of its library, of those that are there (not a dangling link)."""
    folders = [root / folder for folder in also]
    for base in LIBRARY_FOLDERS:
        folders.append(root / base / "libibverbs")
        names = list_names(root / base)
        for name in names if isinstance(names, tuple) else ():
            if name.endswith(MULTIARCH):
                folders.append(root / base / name / "libibverbs")
    found = {}
    for folder in folders:
        if is_there(folder) is not True:
            continue
        names = list_names(folder)
        if isinstance(names, Unreadable):
            return names
        for name in names:
            library = LIBRARY.fullmatch(name)
            if library and is_there(folder / name) is True:
                found[library[1]] = name
    return found
