"""A profile as the YAML file that a person reads and edits."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gdrcheck.profile import Profile

WIDTH = 98
COMMENTS = {
    "gpus": "GPUs per node. The model is a shell pattern over the name that the driver gives.",
    "rails": "A rail is a GPU and the NIC port that it should use. NICs by name, slot (PCI) or "
    "netdev; gpu is the number of the GPU in PCI order.",
    "rails.port_rate_gbps": "In Gb/s, as the ports report it.",
    "traffic_class": "Of RoCE packets, so that the switches treat them as lossless.",
    "pkey": "The partition that the rails' ports are in.",
    "expect": "Expected values: delete a line, and its value is shown and not judged. Texts are "
    "shell patterns: 6.8.* takes every update.",
    "expect.command_line": "Words that the kernel's command line must have.",
    "expect.modules": "Kernel modules that must be loaded.",
    "expect.iommu": "off | passthrough | translated",
    "expect.ofed": "What ofed_info -s says, or inbox.",
    "expect.firmware": "Of the NICs that serve rails.",
    "expect.cuda": "The newest CUDA that the driver supports must be this one or newer.",
    "expect.fabric_manager": "active | absent",
    "expect.bar1_bytes": "The least BAR1 (the window for NICs) of a GPU.",
    "expect.compute_mode": "default | exclusive_process | prohibited",
    "expect.power_limit_w": "The least power limit of each GPU.",
    "expect.nvlinks": "The NVLinks of each GPU that must be up.",
    "expect.peer_access": "Each GPU reaches the memory of each other one of its node.",
    "expect.mtu_bytes": "The least active MTU of a rail's port.",
    "expect.rail_distance": "The farthest that GPU and NIC of a rail may be apart: "
    "PIX | PXB | PHB | NODE | SYS",
    "expect.nic_link": "The least of a PCIe link, in GT/s and lanes.",
    "expect.acs_redirect": "At the bridges between GPU and NIC: off | on",
    "expect.max_payload_bytes": "The least of each NIC.",
}
# As the kernel, the subnet manager and people write them.
HEXADECIMAL = ("pkey",)


def as_text(profile: Profile, head: Sequence[str]) -> str:
    """The profile as YAML, ending in a line break; ``head`` are paragraphs of comment above it.

    What has its default value is left out. Texts must be printable ASCII.
    """
    data = profile.model_dump(mode="json", exclude_defaults=True)
    lines = ["---"]
    for number, text in enumerate(head):
        lines += [*(["#"] if number else []), *_comment(text)]
    for key, value in data.items():
        lines += ["", *_entry(key, value, key, "")]
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, path: str, indent: str) -> Iterator[str]:
    yield from _comment(COMMENTS.get(path, ""), indent)
    if isinstance(value, Mapping) and indent == "":
        yield f"{key}:"
        for name, inner in value.items():
            yield from _entry(name, inner, f"{path}.{name}", "  ")
    elif isinstance(value, list) and value:
        yield f"{indent}{key}:"
        yield from (f"{indent}  - {_flow(one)}" for one in value)
    else:
        yield f"{indent}{key}: {hex(value) if path in HEXADECIMAL else _flow(value)}"


def _flow(value: Any) -> str:
    """``value`` within one line. JSON's texts are YAML's, if they are ASCII."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _comment(text: str, indent: str = "") -> list[str]:
    prefix = f"{indent}# "
    return [
        line
        for one in text.split("\n")
        for line in textwrap.wrap(one, WIDTH, initial_indent=prefix, subsequent_indent=prefix)
    ]
