"""Promises of a profile that cannot all hold. Pure; the profile's own validator asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdrcheck.profile import Profile

# The type of pydantic's error for promises that contradict each other. Its context holds
# ``problems``: for each, the path of the key that is wrong, and the sentence about it.
CONTRADICTION = "contradiction"
Problem = tuple[tuple[str | int, ...], str]
GID_TYPES = {"infiniband": ("IB", "auto"), "ethernet": ("RoCE v2", "RoCE v1", "auto")}


def contradictions(profile: Profile) -> Iterator[Problem]:
    """What contradicts another promise of ``profile``: the path of the key, and the sentence."""
    yield from _gid(profile)
    yield from _nics_of_rails(profile)
    yield from _gpus_of_rails(profile)
    yield from _expectations(profile)
    yield from _command_line(profile)
    yield from _registration(profile)


def _gid(profile: Profile) -> Iterator[Problem]:
    link_layer = profile.rails.link_layer if profile.rails else None
    if link_layer is not None and profile.gid.type not in GID_TYPES[link_layer]:
        yield (
            ("gid", "type"),
            f"{profile.gid.type} does not exist on rails.link_layer {link_layer}; "
            f"expected one of {', '.join(GID_TYPES[link_layer])}",
        )


def _nics_of_rails(profile: Profile) -> Iterator[Problem]:
    rails = profile.rails
    if rails is None:
        return
    first: dict[str, int] = {}
    for index, selector in enumerate(rails.nics):
        if first.setdefault(selector.text(), index) != index:
            above = f"rails.nics[{first[selector.text()]}]"
            yield (
                ("rails", "nics", index),
                f"{selector.text()} is named by {above} as well; a device serves one rail",
            )


def _gpus_of_rails(profile: Profile) -> Iterator[Problem]:
    first: dict[int, int] = {}
    for index, selector in enumerate(profile.rails.nics if profile.rails else ()):
        path = ("rails", "nics", index, "gpu")
        if selector.gpu is None:
            continue
        if profile.gpus is not None and selector.gpu >= profile.gpus.count:
            yield path, f"is {selector.gpu}, but {_gpu_numbers(profile.gpus.count)}"
        elif not selector.literal:
            yield path, f"goes with one NIC, but {selector.text()} may be several; name one"
        elif first.setdefault(selector.gpu, index) != index:
            above = f"rails.nics[{first[selector.gpu]}]"
            yield path, f"is {selector.gpu}, as for {above}; expected each GPU once"


def _gpu_numbers(count: int) -> str:
    if count == 0:
        return "gpus.count is 0; expected GPUs, or no gpu"
    last = f" to {count - 1}" if count > 1 else ""
    return f"gpus.count is {count}; expected 0{last}"


def _expectations(profile: Profile) -> Iterator[Problem]:
    if profile.gpus is None and profile.expect.rail_distance is not None:
        yield (
            ("expect", "rail_distance"),
            "is between a rail's GPU and its NIC, but gpus is left out; expected gpus, or no "
            "rail_distance",
        )
    if profile.gpus is not None and profile.gpus.count == 0:
        for key in profile.expect.about_gpus():
            yield (
                ("expect", key),
                f"is about GPUs, but gpus.count is 0; expected GPUs, or no {key}",
            )
    yield from _peer_access(profile)


def _peer_access(profile: Profile) -> Iterator[Problem]:
    """GPUs in MIG mode have no peers (NVIDIA Multi-Instance GPU User Guide)."""
    path = ("expect", "peer_access")
    if profile.expect.peer_access is None:
        return
    if profile.gpus is not None and profile.gpus.count == 1:
        yield path, "is between GPUs of a node, but gpus.count is 1; expected no peer_access"
    if profile.expect.mig == "enabled":
        yield (
            path,
            "does not exist with expect.mig enabled; expected mig disabled, or no peer_access",
        )


def _command_line(profile: Profile) -> Iterator[Problem]:
    for index, word in enumerate(profile.expect.command_line):
        if word.split() != [word]:
            yield (
                ("expect", "command_line", index),
                "has white space in it, which no word of a command line has; expected each word "
                "as an entry of its own",
            )


def _registration(profile: Profile) -> Iterator[Problem]:
    """NVIDIA's proprietary kernel module cannot export GPU memory as dma-buf.

    Source: NVIDIA's GPUDirect RDMA documentation, and rules/gpudirect.py.
    """
    if profile.registration in ("dmabuf", "both") and profile.expect.open_module is False:
        yield (
            ("expect", "open_module"),
            f"is false, but registration {profile.registration} needs the open kernel module; "
            "expected true, or registration peermem or any",
        )
