"""Replaces what identifies a machine and its owner, always the same by the same. Pure.

The replacements depend on a key, so nothing of the original can be told from them by those who do
not have it. They have the form of the original: addresses of one network stay in one network,
link-local addresses stay link-local, and private IPv4 networks stay private.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address

Replace = Callable[[str], str]

# What neither names a machine nor may be changed without changing what it means.
SPECIAL_V4 = tuple(
    IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
# RFC 1918 and RFC 6598: as many bits are kept as make them what they are, of others one byte.
KEPT_BITS = {
    IPv4Network("10.0.0.0/8"): 8,
    IPv4Network("172.16.0.0/12"): 12,
    IPv4Network("192.168.0.0/16"): 16,
    IPv4Network("100.64.0.0/10"): 10,
}
LINK_LOCAL = 0xFE80 << 48
MAPPED_V4 = 0xFFFF  # the upper 96 bits of ::ffff:a.b.c.d
# A word and a colon may stand before an address, a part of an address or of a slot may not.
LEFT = r"(?<![0-9A-Za-z.-])(?<!::)" + "".join(rf"(?<!\b[0-9a-fA-F]{{{n}}}:)" for n in range(1, 5))
RIGHT = r"(?![0-9A-Za-z:-])"
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
IB_ADDRESS = re.compile(rf"{LEFT}(?:[0-9a-fA-F]{{2}}:){{19}}[0-9a-fA-F]{{2}}{RIGHT}")
MAC = re.compile(rf"{LEFT}(?:[0-9a-fA-F]{{2}}[:-]){{5}}[0-9a-fA-F]{{2}}{RIGHT}")
# In a GUID of four groups every group is whole, which none of the parts of a PCI slot is.
GUID = re.compile(
    rf"{LEFT}(?:(?:[0-9a-fA-F]{{4}}:){{3}}[0-9a-fA-F]{{4}}|(?:0x)?[0-9a-fA-F]{{16}}){RIGHT}"
)
IPV6 = re.compile(rf"{LEFT}(?=[0-9a-fA-F]*:[0-9a-fA-F:]*:)[0-9a-fA-F:]{{4,39}}{RIGHT}(?!\.[0-9])")
IPV4 = re.compile(r"(?<![\w.-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])")
# Interfaces and RDMA devices that udev names after their address.
NAMED_BY_ADDRESS = re.compile(
    r"(?<![0-9A-Za-z])([a-z]{1,6}x)([0-9a-fA-F]{16}|[0-9a-fA-F]{12})(?![0-9A-Za-z])"
)
SERIAL = re.compile(r"(?i)(\bserial(?: ?number)?(?: is)?[ :=#]{1,4})([0-9A-Za-z-]{5,})")
PID = re.compile(r"(\bpid[ :=]{1,2}'?)([0-9]{1,10})\b")
PERSON = re.compile(r"[\w.+-]{1,64}@[\w.-]{0,255}")
# The kernel's name of a process is at most 15 bytes long, and a blank may be in it.
PROCESS = re.compile(r"(\b(?:name|comm)=)([^,\n]{1,15}(?=,)|[^\s,]+)")


class Anonymiser:
    """Replaces identities. ``hosts`` are the names of the machine, to be found in free texts.

    ``replaced`` has every original that was met, with its kind.
    """

    def __init__(self, key: bytes, hosts: Iterable[str] = ()) -> None:
        self._key = key
        self._numbers: Counter[str] = Counter()
        self._numbered: dict[tuple[str, str], str] = {}
        self.replaced: dict[str, str] = {}
        names = sorted({name for name in hosts if name}, key=lambda name: (-len(name), name))
        alternatives = "|".join(map(re.escape, names))
        self._hosts = re.compile(rf"(?i)(?<![0-9A-Za-z_])(?:{alternatives})(?![0-9A-Za-z_])")
        self._has_hosts = bool(names)

    def text(self, text: str) -> str:
        """``text`` with every identity in it replaced but names of hosts."""
        for pattern, replace in self._patterns():
            text = pattern.sub(replace, text)
        return text

    def free_text(self, text: str) -> str:
        """As ``text``, and with names of hosts, users, processes and their numbers replaced."""
        text = PERSON.sub(lambda match: self._number("user", match[0]), self.text(text))
        if self._has_hosts:
            text = self._hosts.sub(lambda match: self.host(match[0]), text)
        text = PID.sub(lambda match: match[1] + self.pid(match[2]), text)
        return PROCESS.sub(lambda match: match[1] + self._number("process", match[2]), text)

    def host(self, name: str) -> str:
        """``host1`` and so on, in the order in which names are met, in any case of letters."""
        return self._number("host", name.lower(), shown=name)

    def switch(self, name: str) -> str:
        """``switch1`` and so on."""
        return self._number("switch", name)

    def port(self, name: str) -> str:
        """``port1`` and so on."""
        return self._number("port", name)

    def pid(self, number: str) -> str:
        """A process id from 1001 on."""
        known = self._numbered.get(("pid", number))
        if known is None:
            self._numbers["pid"] += 1
            known = self._numbered["pid", number] = str(1000 + self._numbers["pid"])
            self.replaced[number] = "process id"
        return known

    def ipv4(self, text: str) -> str:
        """An address with the same first bits as others that have the same first bits."""
        try:
            address = IPv4Address(text)
        except AddressValueError:
            return text
        if any(address in network for network in SPECIAL_V4):
            return text
        kept = next((bits for net, bits in KEPT_BITS.items() if address in net), 8)
        self.replaced[text] = "IPv4 address"
        return str(IPv4Address(self._prefix_preserving(int(address), kept)))

    def network(self, text: str) -> str:
        """The network ``a.b.c.d/n`` that holds what the addresses in it become."""
        network = IPv4Network(text)
        address = IPv4Address(self.ipv4(str(network.network_address)))
        return str(IPv4Network((address, network.prefixlen), strict=False))

    def gid(self, text: str) -> str:
        """An IPv6 address in the same way of writing: compressed, or as the kernel writes GIDs."""
        try:
            number = int(IPv6Address(text))
        except AddressValueError:
            return text
        if number in (0, 1):
            return text
        self.replaced[text] = "GID or IPv6 address"
        if number >> 32 == MAPPED_V4:
            low = int(IPv4Address(self.ipv4(str(IPv4Address(number & 0xFFFFFFFF)))))
            made = MAPPED_V4 << 32 | low
        else:
            made = self._prefix(number >> 64) << 64 | self._interface(number & (1 << 64) - 1)
        return IPv6Address(made).exploded if "::" not in text else str(IPv6Address(made))

    def _patterns(self) -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]:
        return (
            (UUID, lambda match: self._uuid(match[0])),
            (NAMED_BY_ADDRESS, lambda match: match[1] + self._hex("address in a name", match[2])),
            (IB_ADDRESS, lambda match: self._separated("InfiniBand address", match[0])),
            (MAC, lambda match: self._mac(match[0])),
            (GUID, lambda match: self._guid(match[0])),
            (IPV6, lambda match: self.gid(match[0])),
            (IPV4, lambda match: self.ipv4(match[0])),
            (SERIAL, lambda match: match[1] + self._serial(match[2])),
        )

    def _uuid(self, text: str) -> str:
        digits = self._hex("UUID", text.replace("-", "").lower(), shown=text)
        return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))

    def _mac(self, text: str) -> str:
        """Locally administered, so that it is none that a manufacturer has given away."""
        made = self._separated("MAC address", text)
        return f"02{made[2:]}"

    def _separated(self, kind: str, text: str) -> str:
        """Pairs of digits with what stands between them in ``text``."""
        digits = self._hex(kind, re.sub("[:-]", "", text).lower(), shown=text)
        return text[2].join(digits[at : at + 2] for at in range(0, len(digits), 2))

    def _guid(self, text: str) -> str:
        start = "0x" if text.startswith("0x") else ""
        digits = re.sub("^0x|:", "", text).lower()
        if not int(digits, 16):
            return text
        self.replaced[text] = "GUID"
        made = f"{self._interface(int(digits, 16)):016x}"
        if ":" in text:
            return ":".join(made[at : at + 4] for at in range(0, 16, 4))
        return start + made

    def _serial(self, text: str) -> str:
        return self._hex("serial number", text, len(text)).upper()

    def _interface(self, number: int) -> int:
        """The lower half of a GID, which is the GUID of an InfiniBand port."""
        return number and int(self._digest("interface", f"{number:016x}", 16), 16)

    def _prefix(self, number: int) -> int:
        """The upper half of a GID; what kind of address it is stays."""
        if number in (0, LINK_LOCAL):
            return number
        return number & 0xFFFF << 48 | int(self._digest("prefix", f"{number:016x}", 12), 16)

    def _prefix_preserving(self, address: int, kept: int) -> int:
        """Whether a bit is flipped depends on the bits before it; the last one always is."""
        made = address
        for bit in range(kept, 32):
            before = address >> (32 - bit)
            flips = bit == 31 or int(self._digest("v4", f"{bit} {before}", 1), 16) & 1
            made ^= flips << (31 - bit)
        return made

    def _number(self, kind: str, text: str, shown: str | None = None) -> str:
        known = self._numbered.get((kind, text))
        self.replaced[shown or text] = kind
        if known is None:
            self._numbers[kind] += 1
            known = self._numbered[kind, text] = f"{kind}{self._numbers[kind]}"
        return known

    def _hex(self, kind: str, text: str, digits: int | None = None, shown: str = "") -> str:
        self.replaced[shown or text] = kind
        return self._digest(kind, text, digits or len(text))

    def _digest(self, kind: str, text: str, digits: int) -> str:
        made = hmac.new(self._key, f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()
        return made[:digits].ljust(digits, "0")
