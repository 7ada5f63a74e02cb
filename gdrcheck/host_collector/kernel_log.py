"""Lines of interest in the kernel's ring buffer."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from .reading import Unread

LINE_CHARACTERS = 500
# Sequence number, microseconds since boot and text of a record; what follows it is left out.
RECORD = re.compile(r"^\d+,(\d+),(\d+),[^;\n]*;(.*)$", re.MULTILINE)


class Topic(NamedTuple):
    """Lines about one thing. The newest ``keep`` are kept, 500 over all topics, so that a flood
    about one thing cannot push out another.
    """

    name: str
    keep: int
    pattern: str


PEERMEM = "(nvidia_peermem|nv_peer_mem|efa_nv_peermem)"
SYMBOL = "(disagrees about version of symbol|Unknown symbol)"
DRIVER = r"\b(mlx5_core|mlx4_\w+|bnxt_\w+|ice|irdma|efa|ib\d+|virtio_net)\b"
# The first one that matches has the line.
TOPICS = (
    Topic("xid", 100, "NVRM: Xid"),
    Topic("sxid", 40, r"SXid \("),
    Topic("peermem", 40, f"{SYMBOL} ib_(un)?register_peer_memory_client|{PEERMEM}: {SYMBOL}"),
    Topic("symbols", 40, SYMBOL),
    Topic("dmabuf", 40, "dma-buf attach failed"),
    Topic("nvrm", 40, "NVRM:"),
    Topic("pcie", 50, "available PCIe bandwidth"),
    Topic("aer", 40, "PCIe Bus Error|AER:(?! enabled with IRQ)"),
    Topic("iommu", 40, r"IO_PAGE_FAULT|DMAR:.*\bfault\b|arm-smmu.*(\bevent 0x|\bfault\b)"),
    Topic("mlx5", 40, r"mlx5_.*([Hh]ealth|assert|syndrome|timeout|unrecoverable|event\[error\])"),
    Topic(
        "link",
        30,
        rf"{DRIVER}.*[Ll]ink (is )?([Uu]p|[Dd]own)|Port module event"
        r"|pciehp: Slot\(.*(Link Down|Card not present)",
    ),
)


def read_kernel_log(root: Path) -> dict[str, Any]:
    """The ``lines`` of interest, oldest first, and the ``gaps`` in what was there to be read."""
    records = RECORD.findall(read_kmsg(root / "dev/kmsg").decode("ascii", "backslashreplace"))
    if not records:
        raise Unread("/dev/kmsg: holds no record")
    kept: dict[str, deque[tuple[int, dict[str, Any]]]]
    kept = {topic.name: deque(maxlen=topic.keep) for topic in TOPICS}
    matched = dict.fromkeys(kept, 0)
    for number, microseconds, text in records:
        name = next((one.name for one in TOPICS if re.search(one.pattern, text)), None)
        if name:
            line = {"topic": name, "seconds_since_boot": int(microseconds) / 1e6}
            kept[name].append((int(number), {**line, "text": text[:LINE_CHARACTERS]}))
            matched[name] += 1
    lost = int(records[0][0])
    gaps = [f"the first {lost} records since boot are overwritten"] if lost else []
    for name, lines in kept.items():
        if matched[name] > len(lines):
            gaps.append(f"{matched[name] - len(lines)} older lines about {name} are left out")
    ordered = sorted((line for lines in kept.values() for line in lines), key=lambda one: one[0])
    return {"lines": [line for _, line in ordered], "gaps": gaps}


def read_kmsg(path: Path) -> bytes:
    """All records (Documentation/ABI/testing/dev-kmsg in the kernel sources)."""
    records = bytearray()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as stream:
            while True:
                try:
                    record = os.read(stream.fileno(), 16384)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    continue  # Overwritten while it was read: the next read is of the oldest left.
                if not record:
                    break
                records += record
    except OSError as error:
        raise Unread(f"/dev/kmsg: {error.strerror}") from error
    return bytes(records)
