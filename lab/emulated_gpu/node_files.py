"""What gives a lab node its emulated GPUs: libraries, their configuration, the files of a driver of
NVIDIA's in sysfs and procfs, and the CDI specification that hands all of it to containers.

A container gets them exactly as it gets real GPUs, by ``--device nvidia.com/gpu=all``; without it
nothing of them is there. The files of sysfs are an overlay, made at boot by ``guest/overlay``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lab import initramfs
from lab.emulated_gpu import build
from lab.emulated_gpu.config import DEFAULT_PATH, Config, EmulatedGpu

HOME = "usr/lib/gdrcheck-emulated-gpu"
OVERLAY = f"/{HOME}/overlay"
# Where the node shows what a container's /sys and /proc/driver shall be.
SHOWN = "/run/gdrcheck-lab/gpu"
DRIVER = "580.159.04"
# The stand-in functions below the NIC's switch, and below the other socket's host bridge.
SLOTS = ("0000:24:00.0", "0000:61:00.0")
_UUID = "GPU-{node:08d}-2222-3333-4444-{number:012d}"
_UNIT = "gdrcheck-lab-gpu.service"
_GUEST = Path(__file__).parent / "guest"
# Where the container's loader looks, as for the libraries of a real driver.
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_SMALL_NODE_MIB = 2048
# QEMU's ports have one lane of the first generation: a link with more would be a finding.
_FUNCTION = {
    "vendor": "0x10de",
    "device": "0x2335",
    "class": "0x030200",
    "revision": "0xa1",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x18be",
    "current_link_speed": "2.5 GT/s PCIe",
    "max_link_speed": "2.5 GT/s PCIe",
    "current_link_width": "1",
    "max_link_width": "1",
}
_MODULE_SOURCES = {
    "nvidia": "0123456789ABCDEF0123456",
    "nvidia_uvm": "1123456789ABCDEF0123456",
    "nvidia_peermem": "2123456789ABCDEF0123456",
}
_VERSION = f"""\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build  (gdrcheck-lab)
GCC version:  EMULATED: there is no such module
"""
_PARAMETERS = """\
EnableStreamMemOPs: 0
EnableResizableBar: 0
EnablePCIERelaxedOrderingMode: 0
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: ""
RegistryDwords: ""
"""


def members(number: int, memory_mib: int) -> Iterator[initramfs.Member]:
    """The files of node ``number`` below its root; raises LabError when the libraries cannot be
    built.
    """
    libraries = build.build()
    for name in build.LIBRARIES:
        yield initramfs.file(f"{HOME}/{name}", (libraries / name).read_bytes(), 0o755)
    for name, content in _tree().items():
        yield initramfs.file(f"{HOME}/tree/{name}", f"{content.rstrip()}\n")
    for name in ("overlay", "nvidia-smi"):
        place = f"{HOME}/overlay" if name == "overlay" else f"usr/bin/{name}"
        yield initramfs.file(place, (_GUEST / name).read_bytes(), 0o755)
    unit = (_GUEST / _UNIT).read_bytes()
    yield initramfs.file(f"etc/systemd/system/{_UNIT}", unit)
    wanted = f"etc/systemd/system/multi-user.target.wants/{_UNIT}"
    yield initramfs.link(wanted, f"../{_UNIT}")
    preload = f"/{HOME}/{build.VERBS_PRELOAD}\n"
    yield initramfs.file(f"{HOME}/ld.so.preload", preload)
    yield initramfs.file(str(DEFAULT_PATH).lstrip("/"), configuration(number, memory_mib).text())
    yield initramfs.file("etc/cdi/nvidia.yaml", cdi_specification())


def configuration(number: int, memory_mib: int) -> Config:
    """What gpus.conf of node ``number`` says, which has that much memory for all it does."""
    gpu_mib, bar1_mib = (320, 256) if memory_mib <= _SMALL_NODE_MIB else (1280, 1024)
    gpus = [
        EmulatedGpu(
            slot=slot,
            uuid=_UUID.format(node=number, number=index),
            memory_mib=gpu_mib,
            bar1_mib=bar1_mib,
        )
        for index, slot in enumerate(SLOTS)
    ]
    return Config(gpus, driver_version=DRIVER)


def cdi_specification() -> str:
    """The text of the CDI specification ``nvidia.com/gpu=all`` (its specification, version 0.6)."""
    read_only = "options: [ro, bind, nosuid, nodev]"
    mounts = [
        (f"/{HOME}/{name}", f"{_LIBRARIES}/{name}", read_only)
        for name in build.LIBRARIES
        if name != build.VERBS_PRELOAD
    ]
    preload = f"/{HOME}/{build.VERBS_PRELOAD}"
    # rslave: what is mounted over them later is seen by containers that run already.
    follows = "options: [ro, rbind, rslave]"
    mounts += [
        (preload, preload, read_only),
        (f"/{HOME}/ld.so.preload", "/etc/ld.so.preload", read_only),
        (str(DEFAULT_PATH.parent), str(DEFAULT_PATH.parent), read_only),
        (f"{SHOWN}/sys", "/sys", follows),
        (f"{SHOWN}/proc-driver", "/proc/driver", follows),
    ]
    lines = [
        'cdiVersion: "0.6.0"',
        "kind: nvidia.com/gpu",
        "devices:",
        "  - name: all",
        "    containerEdits:",
        "      deviceNodes:",
        "        - path: /dev/udmabuf",
        "      mounts:",
    ]
    for host, container, options in mounts:
        lines.append(f"        - {{hostPath: {host}, containerPath: {container}, {options}}}")
    return "\n".join(lines) + "\n"


def _tree() -> Mapping[str, str]:
    """The overlay: ``sys`` and ``proc-driver`` as they are, ``pci/<slot>`` for where that is."""
    files = {"proc-driver/nvidia/version": _VERSION, "proc-driver/nvidia/params": _PARAMETERS}
    for name, source in _MODULE_SOURCES.items():
        module = {"version": DRIVER, "srcversion": source, "initstate": "live", "refcnt": "1"}
        files |= {f"sys/module/{name}/{key}": value for key, value in module.items()}
    files["sys/kernel/mm/memory_peers/nv_mem/version"] = DRIVER
    for slot in SLOTS:
        files |= {f"pci/{slot}/{name}": content for name, content in _FUNCTION.items()}
        files[f"proc-driver/nvidia/gpus/{slot}/information"] = "Model: NVIDIA H200"
        files["sys/bus/pci/drivers/nvidia/module_name"] = "nvidia"
    return files
