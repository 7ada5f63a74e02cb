"""Whether packets can go between two GIDs at all, by what the GIDs are. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from gdrcheck.verbs.protocol import EndpointInfo

V1 = "v1"
PREFIX_BITS = 64


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why they cannot, and which of the two is the odd one, if it can be told."""

    reason: str
    odd: Literal["one", "other"] | None = None


def unreachable(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    """What stands between the GIDs of two connected ends; None when nothing is known to.

    Two addresses of different subnets are not judged: a router may be between them, and the length
    of their prefixes is not known here.
    """
    if one.link_layer != other.link_layer:
        return Unreachable(f"{one.link_layer} against {other.link_layer}")
    if one.link_layer == "infiniband":
        return _subnets(one, other)
    return _unset(one, other) or _scopes(one, other) or _types(one, other) or _families(one, other)


def gid_text(info: EndpointInfo) -> str:
    """``index 3, ::ffff:10.0.0.1, RoCE v2, MTU 4096``."""
    mapped = IPv6Address(info.gid).ipv4_mapped
    gid = f"::ffff:{mapped}" if mapped else info.gid
    kind = info.gid_type or "type unknown"
    lid = f", LID {info.lid}" if info.link_layer == "infiniband" else ""
    return f"index {info.gid_index}, {gid}, {kind}{lid}, active MTU {info.mtu}"


def _subnets(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    """Our queue pairs use LIDs on InfiniBand, which no router translates."""
    first, second = (int(IPv6Address(end.gid)) >> PREFIX_BITS for end in (one, other))
    if first == second:
        return None
    return Unreachable(f"subnet prefixes {first:#018x} against {second:#018x}")


def _unset(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    first, second = (int(IPv6Address(end.gid)) == 0 for end in (one, other))
    if not first and not second:
        return None
    return Unreachable("a GID that is all zero", _odd(first, second))


def _scopes(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    first, second = (_address(end).is_link_local for end in (one, other))
    if first == second:
        return None
    return Unreachable("a link-local address against a routable one", _odd(first, second))


def _types(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    if not one.gid_type or not other.gid_type or one.gid_type == other.gid_type:
        return None
    odd = _odd(one.gid_type.endswith(V1), other.gid_type.endswith(V1))
    return Unreachable(f"{one.gid_type} against {other.gid_type}", odd)


def _families(one: EndpointInfo, other: EndpointInfo) -> Unreachable | None:
    first, second = (_address(end).version for end in (one, other))
    return None if first == second else Unreachable(f"IPv{first} against IPv{second}")


def _address(info: EndpointInfo) -> IPv4Address | IPv6Address:
    address = IPv6Address(info.gid)
    return address.ipv4_mapped or address


def _odd(first: bool, second: bool) -> Literal["one", "other"] | None:
    if first == second:
        return None
    return "one" if first else "other"
