"""Which files the probes read, as patterns of paths below the root, and what is kept of each.

``*`` stands for one part of a path. A file that is not here is not captured: what the probes come
to read must be added, or a captured tree reads to other facts (tests/probes/test_capture.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.anonymise import Anonymiser
from gdrcheck.facts import Facts, PciTree, RdmaDevice, Unreadable
from gdrcheck.facts.pci import DISPLAY_CLASSES, NVIDIA_VENDOR
from gdrcheck.probes import capture_filters as filters
from gdrcheck.probes import collected, driver, host, modules, netdevs, pci_files, process, versions
from gdrcheck.probes.capture_filters import Filter
from gdrcheck.probes.names import CLASS
from gdrcheck.probes.pci_link import FILES as LINK_FILES
from gdrcheck.probes.rdma import NETDEVS
from gdrcheck.probes.reading import MAX_BYTES, list_names, read_text

DEVICES = "sys/bus/pci/devices"
FUNCTION_FILES = (
    *("vendor", "device", "class", "numa_node", "resource", "aer_dev_fatal", "aer_dev_nonfatal"),
    *LINK_FILES,
)
FUNCTION_LINKS = ("driver", "iommu_group", "physfn")
NETDEV_FILES = ("mtu", "operstate", "flags", "ifindex", "iflink")


@dataclass(frozen=True, slots=True)
class Files:
    """The files that match; ``quiet``: the kernel refuses some of them on every machine.

    The kernel refuses to fill a buffer of megabytes in /proc/sys, so ``most_bytes`` is what the
    probes ask for.
    """

    pattern: str
    kept: Filter = filters.as_it_is
    quiet: bool = False
    most_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Names:
    """What matches is there: a folder, or an empty file where it is none. A name says it all."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Links:
    """The links that match, each with the folder that it leads to."""

    pattern: str


Source = Files | Names | Links


def of_system(facts: Facts, anonymiser: Anonymiser) -> Iterator[Source]:
    """Operating system, modules, the process, and what belongs to the image."""
    text, free = filters.text(anonymiser), filters.free_text(anonymiser)
    yield Files("proc/sys/kernel/osrelease", text)
    yield Files("proc/sys/kernel/hostname", filters.host_name(anonymiser))
    yield Files("proc/cmdline", filters.command_line(anonymiser))
    yield Files(collected.BOOTED, filters.lines(filters.BOOT_LINE))
    yield Files(process.LIMITS, filters.lines(filters.LIMIT_LINES))
    yield Files(process.STATUS, filters.lines(filters.STATUS_LINES))
    yield Files(process.AUXV, filters.page_size)
    yield Files(host.LABEL, free, quiet=True)  # EINVAL where no module gives labels
    interfaces = _interfaces(facts)
    for name in netdevs.ROUTES:
        yield Files(name, filters.routes(anonymiser, interfaces), most_bytes=netdevs.MAX_BYTES)
    for name in ("all", *interfaces):
        for setting in host.SYSCTLS:
            yield Files(f"{host.SYSCTL_FOLDER}/{name}/{setting}")
    for name in ("nr_hugepages", "free_hugepages"):
        yield Files(f"{host.HUGE_PAGES}/*/{name}")
    for name in (host.SELINUX, host.IOMMU_GROUPS, host.NUMA_NODES, "sys/bus", "sys/class"):
        yield Names(name)
    yield Names(f"{host.IOMMU_UNITS}/*")
    yield Names(f"{host.NUMA_NODES}/node[0-9]*")
    yield Names(f"{driver.PEERMEM_CLIENTS}/*")
    yield Names(f"{modules.FOLDER}/*")
    yield Files(f"{host.SELINUX}/enforce")
    yield Files(f"{host.APPARMOR}/parameters/enabled", text)
    yield Files(f"{modules.FOLDER}/ib_core/parameters/netns_mode", text)
    for one in facts.host.modules if isinstance(facts.host.modules, tuple) else ():
        for name in ("version", "srcversion"):
            yield Files(f"{modules.FOLDER}/{one.name}/{name}")
    yield Names(Path(driver.NVIDIA_VERSION).parent.as_posix())
    yield Files(driver.NVIDIA_VERSION, free)
    yield Files(driver.NVIDIA_PARAMETERS, free)
    yield Names("dev/nvidiactl")
    yield Files(versions.RECORD, text)


def of_verbs(root: Path) -> Iterator[Source]:
    """The verbs interface of the kernel, and the providers of the image."""
    yield Names(driver.VERBS)
    yield Files(f"{driver.VERBS}/abi_version")
    yield Files(f"{driver.VERBS}/*/ibdev")
    yield Files(f"{driver.DRIVER_FILES}/*.driver")
    folders = {f"{base}/libibverbs" for base in driver.LIBRARY_FOLDERS}
    folders |= {f"{base}/*{driver.MULTIARCH}/libibverbs" for base in driver.LIBRARY_FOLDERS}
    files = list_names(root / driver.DRIVER_FILES)
    for name in files if isinstance(files, tuple) else ():
        said = read_text(root / driver.DRIVER_FILES / name)
        for line in driver.DRIVER_LINE.finditer(said) if isinstance(said, str) else ():
            folders |= {line["folder"]} if line["folder"] else set()
    for folder in sorted(folders):
        yield Names(f"{folder}/lib*-rdmav*.so")


def of_collector(
    facts: Facts, root: Path, anonymiser: Anonymiser, left_out: dict[str, str]
) -> Iterator[Source]:
    """What the host collector left, of the functions that are in the facts."""
    host_file = f"{collected.FOLDER}/{collected.HOST_FILE}"

    def told(what: str) -> None:
        left_out[f"{host_file}: {what.partition(':')[0]}"] = what.partition(": ")[2]

    yield Files(host_file, filters.host_values(anonymiser, told), most_bytes=collected.MAX_BYTES)
    yield Files(f"{collected.FOLDER}/{collected.FAILURE_FILE}", filters.free_text(anonymiser))
    for slot in _slots(facts, root):
        yield Files(f"{collected.FOLDER}/{collected.CONFIG_FOLDER}/{slot}", filters.config_space)


def of_pci(facts: Facts, root: Path) -> Iterator[Source]:
    """The functions in the facts; of other GPUs and network functions that, and their groups."""
    yield Names(DEVICES)
    whole = _slots(facts, root)
    for slot in whole:
        yield Links(f"{DEVICES}/{slot}")
        for name in FUNCTION_FILES:
            yield Files(f"{DEVICES}/{slot}/{name}")
        yield Files(f"{DEVICES}/{slot}/config", filters.config_space)
        for name in FUNCTION_LINKS:
            yield Links(f"{DEVICES}/{slot}/{name}")
    others = [slot for slot in _gpus_and_nics(root) if slot not in whole]
    for slot in others:
        yield Links(f"{DEVICES}/{slot}")
        yield Links(f"{DEVICES}/{slot}/physfn")
        for name in ("vendor", "device", "class"):
            yield Files(f"{DEVICES}/{slot}/{name}")
    for slot in (*whole, *others):
        for group in sorted((root / host.IOMMU_GROUPS).glob(f"*/devices/{slot}")):
            folder = group.parent.parent.relative_to(root).as_posix()
            yield Links(f"{folder}/devices/{slot}")
            yield Files(f"{folder}/type")


def _slots(facts: Facts, root: Path) -> tuple[str, ...]:
    """Those in the facts, and the physical functions of virtual ones, whose settings they share."""
    tree = facts.pci
    found = {one.slot for one in tree.functions} if isinstance(tree, PciTree) else set()
    physical = (pci_files.link_name(root / DEVICES / slot / "physfn") for slot in tuple(found))
    return tuple(sorted(found | {slot for slot in physical if isinstance(slot, str)}))


def _gpus_and_nics(root: Path) -> Iterator[str]:
    """The slots of what the kinds of IOMMU groups are read for."""
    names = list_names(root / DEVICES)
    for slot in names if isinstance(names, tuple) else ():
        kind = pci_files.number(root / DEVICES / slot / "class", 0xFFFFFF)
        if isinstance(kind, Unreadable):
            continue
        vendor = pci_files.number(root / DEVICES / slot / "vendor", 0xFFFF)
        ours = vendor == NVIDIA_VENDOR and kind >> 8 in DISPLAY_CLASSES
        if kind >> 16 == host.NETWORK_CLASS or ours:
            yield slot


def of_device(name: str, anonymiser: Anonymiser) -> Iterator[Source]:
    """One RDMA device with its ports; its driver may hang at any of these."""
    base, text = f"{CLASS}/{name}", filters.text(anonymiser)
    yield Links(base)
    yield Links(f"{base}/device")
    yield Links(f"{base}/device/driver")
    yield Names(f"{base}/device/net/*")
    yield Files(f"{base}/fw_ver")  # of four numbers, as an IPv4 address, with some drivers
    for file in ("board_id", "parent", "tc/*/traffic_class"):
        yield Files(f"{base}/{file}", text)
    yield Files(f"{base}/node_desc", filters.node_description)
    port = f"{base}/ports/*"
    yield Names(port)
    for file in ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid"):
        yield Files(f"{port}/{file}")
    yield Names(f"{port}/pkeys")
    yield Files(f"{port}/pkeys/*", filters.key)
    yield Names(f"{port}/gids")
    yield Files(f"{port}/gids/*", filters.gid(anonymiser), quiet=True)
    for file in ("gid_attrs/types/*", "gid_attrs/ndevs/*"):
        yield Files(f"{port}/{file}", text, quiet=True)
    for file in ("counters", "hw_counters"):
        yield Names(f"{port}/{file}")
        yield Files(f"{port}/{file}/*")


def of_netdevs(facts: Facts) -> Iterator[Source]:
    """The interfaces of RDMA devices."""
    for name in _interfaces(facts):
        yield Links(f"{NETDEVS}/{name}")
        yield Links(f"{NETDEVS}/{name}/device")
        for file in NETDEV_FILES:
            yield Files(f"{NETDEVS}/{name}/{file}")


def _interfaces(facts: Facts) -> tuple[str, ...]:
    return tuple(sorted({name for one in devices_of(facts) for name in one.netdev_names}))


def devices_of(facts: Facts) -> Iterable[RdmaDevice]:
    """The RDMA devices in the facts."""
    return facts.rdma_devices if isinstance(facts.rdma_devices, tuple) else ()
