"""The numbers of NVIDIA's driver for errors of a GPU (Xid), and the lines that tell of them. Pure.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), and what it tells to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gdrcheck.facts import LogLine

Kind = Literal["hardware", "driver", "application", "info", "unknown"]
CATALOGUE = "NVIDIA Xid catalogue"
TOPIC = "xid"
# NVRM: Xid (PCI:0000:0f:00): 79, pid=1, GPU has fallen off the bus.
LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})[^)]*\): "
    r"(?P<number>\d{1,5})\b",
    re.IGNORECASE,
)
FATAL = re.compile(r"(?<!non-)(?<!non)(?<!non )\bfatal\b", re.IGNORECASE)
# Those of NVLink 5 are fatal or not as their line says.
NVLINK5 = range(144, 151)


@dataclass(frozen=True, slots=True)
class Xid:
    """One number. ``hardware`` calls for a reset or a repair; ``info`` for nothing."""

    number: int
    name: str
    kind: Kind
    meaning: str
    source: str = CATALOGUE

    def text(self) -> str:
        """``79 (hardware: GPU has fallen off the bus)``."""
        return f"{self.number} ({self.kind}: {self.name})"


@dataclass(frozen=True, slots=True)
class XidLine:
    """A line of the kernel log about an Xid; ``slot`` is of function 0 of the GPU."""

    slot: str
    xid: Xid
    line: LogLine


_RESET = "the GPU needs a reset"
_PROGRAM = "a program did something illegal; it ends, and the GPU goes on"
_ENGINE = "an engine of the GPU failed a program; it ends, and the GPU goes on"
_FIRMWARE = "an error of the driver or of the GPU's firmware"

_HARDWARE = (
    (48, "double bit ECC error", "data in memory was lost; the GPU needs a reset"),
    (54, "auxiliary power is not connected", "power cables or the power supply are to be checked"),
    (62, "micro-controller halt", _RESET),
    (64, "memory remapping failure", "a bad row was not replaced; the GPU is to be replaced"),
    (74, "NVLink error", "a link between GPUs or to an NVSwitch failed"),
    (79, "GPU has fallen off the bus", "PCIe no longer reaches it; the node needs a restart"),
    (94, "contained memory error", "data was lost; the programs that used it were ended"),
    (95, "uncontained memory error", "data was lost, nobody knows whose; the GPU needs a reset"),
    (110, "security fault", _RESET),
    (119, "GSP RPC timeout", "the GPU's firmware does not answer; the GPU needs a reset"),
    (120, "GSP error", "the GPU's firmware failed; the GPU needs a reset"),
    (136, "NVLink training failed", _RESET),
    (140, "unrecovered ECC error", "data in memory was lost; the GPU needs a reset"),
    (143, "GPU initialization error", "the driver could not start the GPU"),
    (155, "NVLink error defined by software", _RESET),
    (157, "resource retirement failure", "a bad part of the GPU could not be taken out of use"),
    (158, "GPU fatal timeout", _RESET),
    (167, "PCIe fatal timeout", "PCIe no longer reaches the GPU"),
    (168, "reduced GPU memory", "errors in memory that the firmware needs"),
    (169, "micro-controller halt", _RESET),
    (171, "uncorrectable DRAM error", "data in memory was lost; goes with 48"),
    (172, "uncorrectable SRAM error", "data in a cache was lost; goes with 48"),
)
_DRIVER = (
    *((number, "firmware error", _FIRMWARE) for number in (37, 38)),
    (44, "fault during context switch", _FIRMWARE),
    (46, "GPU stopped processing", "the GPU hung; it needs a reset"),
    (61, "micro-controller breakpoint", _FIRMWARE),
    *((number, "illegal access by driver", _FIRMWARE) for number in (66, 67)),
    (78, "vGPU start error", "driver and virtual GPU do not fit"),
    (109, "context switch timeout", "the GPU hung in a program; it needs a reset"),
    (151, "key rotation error", "of confidential computing; the virtual machine needs a restart"),
    (159, "CHI error", _FIRMWARE),
    (161, "channel retirement failure", _FIRMWARE),
    *((number, "encrypted NVLink error", "of confidential computing") for number in (166, 170)),
)
_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139, 142, 152, 153)
_APPLICATION = (
    (8, "GPU stopped processing", _ENGINE),
    *((number, "invalid push buffer stream", _PROGRAM) for number in (11, 25, 32)),
    (13, "graphics engine exception", _PROGRAM),
    (31, "GPU memory page fault", "a program used an address that is not its own; it ends"),
    *((number, "copy engine exception", _ENGINE) for number in _COPY_ENGINES),
    *((number, "video, image or flow engine error", _ENGINE) for number in _VIDEO_ENGINES),
    (69, "graphics engine class error", _PROGRAM),
    (80, "corrupted data sent to GPU", _PROGRAM),
    *(
        (number, "NVLink address error", "a program used memory of another GPU that is not there")
        for number in (108, 137)
    ),
    (141, "CUDA fast path error", _PROGRAM),
)
_INFO = (
    (43, "GPU stopped processing", "a program was ended; the GPU goes on"),
    (45, "preemptive cleanup", "follows on another error, or on a program that was ended"),
    (63, "memory remapping event", "a bad row is to be replaced, as the GPU's own record tells"),
    (92, "high rate of single bit ECC errors", "they were corrected"),
    (93, "InfoROM wear limit", "no fault, but tell the maker"),
    *((number, "test message", "of the management bus") for number in (106, 107)),
    (121, "C2C error", "a link between chips of the board had errors; they were corrected"),
    (154, "GPU recovery action changed", "the action that the driver asks for is judged by itself"),
    (156, "resource retirement event", "a bad part of the GPU is to be taken out of use"),
    (160, "channel retirement event", "a bad part of the memory is to be taken out of use"),
    *((number, "power smoothing", "its state changed") for number in range(162, 166)),
)
_TABLE: tuple[tuple[Kind, tuple[tuple[int, str, str], ...]], ...] = (
    ("hardware", _HARDWARE),
    ("driver", _DRIVER),
    ("application", _APPLICATION),
    ("info", _INFO),
)
XIDS = {
    number: Xid(number, name, kind, meaning)
    for kind, rows in _TABLE
    for number, name, meaning in rows
}


def of(number: int, text: str = "") -> Xid:
    """What ``number`` stands for; ``text`` is the line, which decides for those of NVLink 5.

    One that is not in the catalogue is ``unknown``.
    """
    if number in NVLINK5:
        kind: Kind = "hardware" if FATAL.search(text) else "info" if text else "driver"
        return Xid(number, "NVLink error", kind, "a link of a GPU; fatal or not as the line says")
    return XIDS.get(number) or Xid(number, "unknown", "unknown", "not in the catalogue", "none")


def lines(log: tuple[LogLine, ...]) -> list[XidLine]:
    """The lines of the kernel log that tell of an Xid and of the GPU, oldest first."""
    found = []
    for line in log:
        match = LINE.search(line.text) if line.topic == TOPIC else None
        if match is not None:
            domain, _, rest = match["device"].lower().partition(":")
            slot = f"{int(domain, 16):04x}:{rest}.0"
            found.append(XidLine(slot, of(int(match["number"]), line.text), line))
    return found


def unreadable_lines(log: tuple[LogLine, ...]) -> list[LogLine]:
    """The lines about an Xid that name no GPU, or no number."""
    return [line for line in log if line.topic == TOPIC and not LINE.search(line.text)]
