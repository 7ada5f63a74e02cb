"""Compiles the emulated GPU's libraries with the host's gcc, once per content of their sources."""

from __future__ import annotations

import os
from pathlib import Path

from lab import cache, tools
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.progress import step

LIBCUDA = "libcuda.so.1"
LIBNVIDIA_ML = "libnvidia-ml.so.1"
VERBS_PRELOAD = "libgdrcheck-emulated-verbs.so"

SOURCES = Path(__file__).parent
KERNELS = REPOSITORY / "gdrcheck" / "gpu" / "kernels"
_CONFIG = ("config.c", "config_values.c", "config_parse.c", "gpu_values.c")
LIBRARIES: dict[str, tuple[str, ...]] = {
    LIBCUDA: (
        "libcuda_context.c",
        "libcuda_copy.c",
        "libcuda_devices.c",
        "libcuda_errors.c",
        "libcuda_export.c",
        "libcuda_gate.c",
        "libcuda_lookup.c",
        "libcuda_memory.c",
        "libcuda_module.c",
        "libcuda_peers.c",
        "libcuda_pointer.c",
        "libcuda_register.c",
        "libcuda_stream.c",
        "libcuda_vmm.c",
        "kernels.c",
        "pool.c",
        "ranges.c",
        *_CONFIG,
    ),
    LIBNVIDIA_ML: (
        "libnvidia-ml.c",
        "nvml_events.c",
        "nvml_fields.c",
        "nvml_health.c",
        "nvml_identity.c",
        "nvml_links.c",
        "nvml_sensors.c",
        *_CONFIG,
    ),
    VERBS_PRELOAD: ("verbs_preload.c", "verbs_refuse.c", *_CONFIG),
}

# Hidden: all three can be in one process, and each must use its own copy of the configuration.
_FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Werror", "-Wl,--no-undefined"),
)
_GCC_DEADLINE_S = 120
# The libraries run on the lab's nodes, and a newer libc's symbols are not there.
_NODE_GLIBC = (2, 41)


def build() -> Path:
    """The folder with the three libraries, compiled now when it is not in the cache.

    Raises LabError without gcc, with what gcc complains of, or on a host whose libc is newer than
    that of the lab's nodes.
    """
    compiler = tools.run("gcc", "--version", deadline_s=_GCC_DEADLINE_S).splitlines()[0]
    sources = sorted(p for p in SOURCES.iterdir() if p.suffix in (".c", ".h"))
    sources += sorted(p for p in KERNELS.iterdir() if p.suffix in (".h", ".ptx"))
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    key = cache.key_of(compiler, *_FLAGS, Path(__file__).read_bytes(), *parts)
    return cache.entry("emulated-gpu", key, _compile)


def _compile(folder: Path) -> None:
    _refuse_newer_libc()
    with step("compiling the emulated GPU's libraries"):
        for name, sources in LIBRARIES.items():
            tools.run(
                "gcc",
                *_FLAGS,
                f"-Wl,-soname,{name}",
                *("-I", SOURCES, "-I", KERNELS),
                f'-DKERNELS_PTX="{KERNELS / "kernels.ptx"}"',
                *("-o", folder / name),
                *(SOURCES / source for source in sources),
                "-ldl",
                deadline_s=_GCC_DEADLINE_S,
            )


def _refuse_newer_libc() -> None:
    """Raises LabError when what is compiled here may not run in Debian 13."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if name != "glibc" or numbers > _NODE_GLIBC:
        ours = ".".join(map(str, _NODE_GLIBC))
        raise LabError(
            f"this host has {name} {version}: libraries for the lab's nodes need glibc {ours} or "
            "older; run the lab on Debian 12 or 13"
        )
