"""Writes the file that describes the emulated GPUs, and what shall go wrong with them.

The libraries look at the file at every call, so a process that runs already sees each change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

VARIABLE = "GDRCHECK_EMULATED_GPU"
DEFAULT_PATH = Path("/etc/gdrcheck-emulated-gpu/gpus.conf")


@dataclass(frozen=True, slots=True)
class EmulatedGpu:
    """One ``[gpu N]``. ``attributes`` are CUdevice_attribute numbers with other values than an
    H200's; None means that the driver does not know the attribute. ``processes`` are pairs of a
    process id and its MiB, of other people's processes on the GPU.

    ``values`` are what NVML tells of its health, where that differs from a healthy H200 with 18
    NVLinks to switches: a key of the file and its value, as ``{"ecc volatile uncorrectable": 1}``,
    ``{"nvlink 3": "down"}`` or ``{"replays": "99 after 1"}``; docs/lab.md lists them.
    """

    slot: str
    uuid: str
    name: str = "NVIDIA H200"
    memory_mib: int = 1536
    bar1_mib: int = 1024
    compute_mode: int = 0
    attributes: Mapping[int, int | None] = field(default_factory=dict)
    processes: Sequence[tuple[int, int]] = ()
    values: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A bit of the last byte of a range flips. ``length_bytes``: only ranges of that length, 0 for
    all; ``after`` so many of them nothing happens, then ``times`` often, 0 for ever.
    """

    length_bytes: int = 0
    after: int = 0
    times: int = 0

    def text(self) -> str:
        """The value in the file."""
        parts = (("length", self.length_bytes), ("after", self.after), ("times", self.times))
        return " ".join(["1", *(f"{word} {number}" for word, number in parts if number)])


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. ``fail`` and ``hang`` are keyed by function names without ``_v2``.

    A value of ``fail`` is a status: a CUresult, an nvmlReturn_t, or an errno for verbs. With
    ``after``, which has the same keys and ``gone``, so many calls work first; each library of each
    process counts them for itself, anew when the file has changed.

    ``corrupt_sink`` is before the kernel that verifies, ``corrupt_source`` after the kernel that
    fills. ``refuse`` concerns memory that is registered from then on: no NIC reads it (``source``),
    or none for a peer (``read``), or none writes it (``sink``), although it registers.

    ``peer_corrupt``: what the GPU reads of another one's memory arrives with a bit changed, by a
    copy to it or in a kernel; ``peer_refuse``: CUDA says that it reaches no other one's.
    """

    fail: Mapping[str, int] = field(default_factory=dict)
    hang: Sequence[str] = ()
    managed: bool = False
    gone: bool = False
    verify_lies: bool = False
    after: Mapping[str, int] = field(default_factory=dict)
    corrupt_sink: Corrupt | None = None
    corrupt_source: Corrupt | None = None
    refuse: Sequence[Literal["source", "read", "sink"]] = ()
    peer_corrupt: Corrupt | None = None
    peer_refuse: bool = False

    def lines(self) -> list[str]:
        """The lines of a ``[faults]`` section."""
        values = {f"fail {name}": str(status) for name, status in self.fail.items()}
        values |= {f"hang {name}": "1" for name in self.hang}
        values |= {name: "1" for name in ("managed", "gone", "verify_lies") if getattr(self, name)}
        values |= {"peer refuse": "1"} if self.peer_refuse else {}
        for key in values:
            calls = self.after.get(key.split()[-1])
            if calls is not None:
                values[key] += f" after {calls}"
        spoilt = {
            "corrupt sink": self.corrupt_sink,
            "corrupt source": self.corrupt_source,
            "peer corrupt": self.peer_corrupt,
        }
        values |= {key: corrupt.text() for key, corrupt in spoilt.items() if corrupt}
        values |= {f"refuse {what}": "1" for what in self.refuse}
        return [f"{key} = {value}" for key, value in values.items()]


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. ``gpu_faults`` are those of single GPUs, by number. ``confidential``: whether
    confidential computing is on; None: NVML knows no such mode.
    """

    gpus: Sequence[EmulatedGpu]
    driver_version: str = "580.159.04"
    cuda_version: int = 13000
    confidential: bool | None = None
    peermem: bool = True
    dmabuf: bool = True
    faults: Faults = field(default_factory=Faults)
    gpu_faults: Mapping[int, Faults] = field(default_factory=dict)

    def text(self) -> str:
        """The file's content; ``[faults]`` is the last section."""
        lines = ["[driver]", f"version = {self.driver_version}", f"cuda = {self.cuda_version}"]
        if self.confidential is not None:
            lines.append(f"confidential = {int(self.confidential)}")
        for number, gpu in enumerate(self.gpus):
            lines += ["", f"[gpu {number}]", *_gpu_lines(gpu)]
        lines += ["", "[verbs]", f"peermem = {int(self.peermem)}", f"dmabuf = {int(self.dmabuf)}"]
        for number, faults in self.gpu_faults.items():
            lines += ["", f"[faults gpu {number}]", *faults.lines()]
        lines += ["", "[faults]", *self.faults.lines()]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Put the file in place as a whole, with a time stamp that no earlier version has."""
        draft = path.with_name(path.name + ".draft")
        draft.write_text(self.text())
        now_ns = time.time_ns()
        os.utime(draft, ns=(now_ns, now_ns))
        draft.replace(path)


def h200s(count: int, *, memory_mib: int = 1536, bar1_mib: int = 1024) -> tuple[EmulatedGpu, ...]:
    """So many GPUs with a slot and a UUID each."""
    return tuple(
        EmulatedGpu(
            slot=f"0000:{0x24 + number:02x}:00.0",
            uuid=f"GPU-11111111-2222-3333-4444-{number:012d}",
            memory_mib=memory_mib,
            bar1_mib=bar1_mib,
        )
        for number in range(count)
    )


def _gpu_lines(gpu: EmulatedGpu) -> list[str]:
    lines = [
        f"slot = {gpu.slot}",
        f"uuid = {gpu.uuid}",
        f"name = {gpu.name}",
        f"memory_mib = {gpu.memory_mib}",
        f"bar1_mib = {gpu.bar1_mib}",
        f"compute_mode = {gpu.compute_mode}",
    ]
    lines += [
        f"attribute {number} = {'unknown' if value is None else value}"
        for number, value in sorted(gpu.attributes.items())
    ]
    lines += [f"{key} = {value}" for key, value in gpu.values.items()]
    return lines + [f"process = {pid} {memory_mib}" for pid, memory_mib in gpu.processes]
