"""What a captured tree keeps of files that hold more than the probes read.

Each filter gives the new content, None for a file that says nothing, or raises ValueError with the
reason why the file is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from ipaddress import IPv4Address
from typing import Any

from gdrcheck.anonymise import Anonymiser
from gdrcheck.probes import netdevs, pci_config, process
from gdrcheck.probes.neighbours import KEY as NEIGHBOURS
from gdrcheck.probes.ports import ZERO_GID
from gdrcheck.probes.rdma import SIW_DESCRIPTION

Filter = Callable[[bytes], bytes | None]

REMOVED = "removed"
# What the host collector writes. Other keys are of a release that this one does not know.
HOST_KEYS = (
    *("version", "ran_at_s", "complaints", "os", "kernel_config", "modules", "ofed", "selinux"),
    *("units", "kernel_log", "config_spaces", NEIGHBOURS),
)
FREE_TEXTS = ("complaints", "kernel_log", "config_spaces")
# Words of the kernel's command line whose values say how the machine works, not which one it is.
WORDS = (
    "iommu", "intel_iommu", "amd_iommu", "arm-smmu", "pci", "hugepages", "default_hugepagesz",
    "transparent_hugepage", "numa", "isolcpus", "nohz", "rcu", "mitigations", "spec_",
    "processor", "intel_", "amd_", "cpufreq", "cpuidle", "idle", "nosmt", "module_blacklist",
    "modprobe.blacklist", "nvidia", "mlx", "ib_", "rdma", "swiotlb", "init_on", "kvm", "console",
    "quiet", "panic", "crashkernel", "selinux", "apparmor", "audit", "security", "lsm",
    "net.ifnames", "biosdevname", "lockdown", "vfio", "random.trust", "tsc", "clocksource", "efi",
    "acpi", "apic", "noapic", "cgroup", "systemd.unified",
)  # fmt: skip
# Blanks between quotes are in the value (Linux lib/cmdline.c, next_arg).
WORD = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')
FLAG = re.compile(r"[a-z0-9_.-]{1,32}")
HARMLESS_VALUE = re.compile(r"[0-9A-Za-z_,.:+=-]{1,80}")
ADDRESS = re.compile(r"[0-9a-fA-Fx:.-]+")
# How switches count their ports; another name may be a description, as "node7, rack 3".
PORT = re.compile(
    r"(?i)(?:\w*gig(?:abit)?e(?:thernet)?|\d+ge|ethernet|eth|et|e|xe|ge|swp|port|p)?"
    r"[ -]?\d{1,4}(?:[/:.s]\d{1,4}){0,4}"
)
# Stands before the names of the neighbours of one cable (gdrcheck/host_collector/lldp.py).
SEVERAL = " on one cable: "
KEPT_EXPRESS_BYTES = 0x3C  # Linux PCI_CAP_EXP_ENDPOINT_SIZEOF_V2
KEPT_EXTENDED_BYTES = 8  # ACS and ATS: header, capability and control
# proc(5): the lines of the process's status and limits that are read.
STATUS_LINES = re.compile(rb"^(?:Uid|CapEff):.*$", re.MULTILINE)
LIMIT_LINES = re.compile(rb"^(?:Limit|Max locked memory) .*$", re.MULTILINE)
BOOT_LINE = re.compile(rb"^btime [0-9]{1,15}$", re.MULTILINE)


def as_it_is(data: bytes) -> bytes:
    """For numbers and words of the kernel's own."""
    return data


def text(anonymiser: Anonymiser) -> Filter:
    """For texts of programs and devices."""
    return lambda data: _bytes(anonymiser.text(_text(data)))


def free_text(anonymiser: Anonymiser) -> Filter:
    """For texts in which people or other programs may have a part."""
    return lambda data: _bytes(anonymiser.free_text(_text(data)))


def key(data: bytes) -> bytes | None:
    """A slot of a table of partition keys; most are empty."""
    return None if data.strip() == b"0x0000" else data


def gid(anonymiser: Anonymiser) -> Filter:
    """A slot of a table of GIDs; most are empty."""
    plain = text(anonymiser)
    return lambda data: None if data.strip() == ZERO_GID.encode() else plain(data)


def host_name(anonymiser: Anonymiser) -> Filter:
    """The name of the machine."""
    return lambda data: _bytes(anonymiser.host(_text(data).strip()) + "\n")


def command_line(anonymiser: Anonymiser) -> Filter:
    """The kernel's command line: of words that may name disks, addresses or people the key only.

    What stands behind ``--`` is for the first process, and left out.
    """

    def kept(word: str) -> str:
        key, equals, value = word.partition("=")
        if not equals:
            return anonymiser.free_text(word) if FLAG.fullmatch(word) else REMOVED
        harmless = key.startswith(WORDS) and HARMLESS_VALUE.fullmatch(value)
        return anonymiser.free_text(word if harmless else f"{key}={REMOVED}")

    def whole(data: bytes) -> bytes:
        words = WORD.findall(_text(data))
        own = words[: words.index("--")] if "--" in words else words
        return _bytes(" ".join(map(kept, own)) + "\n")

    return whole


def node_description(data: bytes) -> bytes:
    """It names the host on most devices; only what tells a virtual device is kept."""
    return data if _text(data).startswith(SIW_DESCRIPTION) else f"{REMOVED}\n".encode()


def lines(pattern: re.Pattern[bytes]) -> Filter:
    """The lines that ``pattern`` matches."""

    def kept(data: bytes) -> bytes:
        found = pattern.findall(data)
        if not found:
            raise ValueError("holds none of the lines that are read")
        return b"\n".join(found) + b"\n"

    return kept


def page_size(data: bytes) -> bytes:
    """Of the auxiliary vector the size of pages: the rest are addresses of the process."""
    whole = data[: len(data) // process.PAIR.size * process.PAIR.size]
    pairs = [pair for pair in process.PAIR.iter_unpack(whole) if pair[0] == process.AT_PAGESZ]
    if not pairs:
        raise ValueError("holds no page size")
    return process.PAIR.pack(*pairs[0]) + process.PAIR.pack(0, 0)


def config_space(data: bytes) -> bytes:
    """Header, chains of capabilities, and what is read of PCI Express, ACS and ATS.

    All other bytes are zero: serial numbers (PCI Express base specification, 7.9.3) and vital
    product data are among them.
    """
    kept = bytearray(len(data))
    kept[: pci_config.HEADER_BYTES] = data[: pci_config.HEADER_BYTES]
    position, seen = data[pci_config.FIRST_CAPABILITY] & 0xFC if len(data) >= 64 else 0, {0}
    while position not in seen and position + 2 <= len(data):
        seen.add(position)
        express = data[position] == pci_config.CAPABILITY_EXPRESS
        _keep(kept, data, position, KEPT_EXPRESS_BYTES if express else 2)
        position = data[position + 1] & 0xFC
    position, read = pci_config.FIRST_EXTENDED, (pci_config.EXTENDED_ACS, pci_config.EXTENDED_ATS)
    while position not in seen and position + 4 <= len(data):
        seen.add(position)
        header = int.from_bytes(data[position : position + 4], "little")
        _keep(kept, data, position, KEPT_EXTENDED_BYTES if header & 0xFFFF in read else 4)
        position = header >> 20 & 0xFFC
    return bytes(kept)


def _keep(kept: bytearray, data: bytes, position: int, count: int) -> None:
    kept[position : position + count] = data[position : position + count]


def routes(anonymiser: Anonymiser, interfaces: Collection[str]) -> Filter:
    """The networks that are directly connected to these interfaces; no gateways, no hosts."""

    def kept(data: bytes) -> bytes:
        header, *rest = _text(data).splitlines() or [""]
        if not header.startswith(netdevs.HEADER):
            raise ValueError("its first line is not the header of the kernel's")
        found = [_route(line, anonymiser) for line in rest if line.split()[:1] != []]
        wanted = [line for name, line in found if line and name in interfaces]
        return _bytes("\n".join([header, *wanted]) + "\n")

    return kept


def _route(line: str, anonymiser: Anonymiser) -> tuple[str, str]:
    """The interface and its new line; no line for a route that is to no network of its own."""
    netdev, network = netdevs.parse_route(line)
    if network is None:
        return netdev, ""
    made = anonymiser.network(str(network))
    address, mask = made.split("/")[0], str(network.netmask)
    columns = (anonymiser.text(netdev), _hex(address), "00000000", "0001", "0", "0", "0")
    return netdev, "\t".join((*columns, _hex(mask), "0", "0", "0"))


def _hex(address: str) -> str:
    return IPv4Address(address).packed[::-1].hex().upper()


def host_values(anonymiser: Anonymiser, told: Callable[[str], None]) -> Filter:
    """What the host collector wrote; ``told`` hears of keys that are left out."""

    def kept(data: bytes) -> bytes:
        values = json.loads(data)
        if not isinstance(values, dict):
            raise ValueError("is no JSON object")
        for key in sorted(set(values) - set(HOST_KEYS)):
            told(f"{key}: not known to this release")
        made = {
            key: _value(key, value, anonymiser) for key, value in values.items() if key in HOST_KEYS
        }
        return json.dumps(made, indent=1).encode()

    return kept


def _value(key: str, value: Any, anonymiser: Anonymiser) -> Any:
    if key == NEIGHBOURS and isinstance(value, dict):
        return {anonymiser.text(name): _neighbour(one, anonymiser) for name, one in value.items()}
    if key == "complaints":
        value = walked(value, _without_names)
    replace = anonymiser.free_text if key in FREE_TEXTS else anonymiser.text
    made = walked(value, replace)
    if key == "modules" and isinstance(value, dict):
        # Of four numbers, as an IPv4 address, are the versions of some.
        for name, one in value.items():
            if isinstance(one, dict) and "version" in one:
                made[replace(name)]["version"] = one["version"]
    return made


def _without_names(why: str) -> str:
    """Why no neighbour is known, without the names of the switches."""
    several = f"{why.partition(SEVERAL)[0]}{SEVERAL}{REMOVED}"
    return several if SEVERAL in why else why


def _neighbour(value: Any, anonymiser: Anonymiser) -> Any:
    """Names, which people choose, keep their form only where they are addresses or of a port."""
    made = walked(value, anonymiser.free_text)
    if not isinstance(value, dict) or not isinstance(made, dict):
        return made
    for key in ("switch", "switch_name", "port"):
        name = value.get(key)
        if not isinstance(name, str) or not name or (key == "port" and PORT.fullmatch(name)):
            continue
        if made[key] == name or not ADDRESS.fullmatch(name):
            made[key] = (anonymiser.port if key == "port" else anonymiser.switch)(name)
    return walked(made, _without_names)


def walked(value: Any, replace: Callable[[str], str]) -> Any:
    """A JSON value with every text in it, keys included, as ``replace`` makes it."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list | tuple):
        return [walked(one, replace) for one in value]
    if isinstance(value, dict):
        return {replace(key): walked(one, replace) for key, one in value.items()}
    return value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
