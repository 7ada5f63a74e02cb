#!/usr/bin/env python3
"""Make gdrcheck/gpu/kernels/kernels.ptx of kernels.cu; ``--check`` only compares.

PTX is made by NVRTC 12.0, so that the driver of CUDA 12.0 and every newer one loads it, for
compute_70, the oldest GPU that it compiles for and GPUDirect clusters still have. NVRTC needs no
GPU. Run with the development environment's Python, which holds the locked NVRTC.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cuda.bindings import nvrtc

VERSION = (12, 0)
OPTIONS = (b"--gpu-architecture=compute_70", b"--std=c++17")
FOLDER = Path(__file__).resolve().parents[1] / "gdrcheck" / "gpu" / "kernels"
PTX = FOLDER / "kernels.ptx"


def _call(function, *arguments):
    status, *results = function(*arguments)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise SystemExit(f"{function.__name__}: {status.name}")
    return results[0] if len(results) == 1 else tuple(results)


def _log(program) -> str:
    text = b" " * _call(nvrtc.nvrtcGetProgramLogSize, program)
    _call(nvrtc.nvrtcGetProgramLog, program, text)
    return text.rstrip(b"\0").decode()


def make() -> str:
    """The PTX text. SystemExit when NVRTC has another version or refuses the source."""
    version = _call(nvrtc.nvrtcVersion)
    if tuple(version) != VERSION:
        raise SystemExit(
            f"NVRTC {'.'.join(map(str, version))} found, {'.'.join(map(str, VERSION))} needed: "
            "run `make setup` and use .venv/bin/python"
        )
    program = _call(
        nvrtc.nvrtcCreateProgram,
        (FOLDER / "kernels.cu").read_bytes(),
        b"kernels.cu",
        1,
        [(FOLDER / "pattern.h").read_bytes()],
        [b"pattern.h"],
    )
    (status,) = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), list(OPTIONS))
    log = _log(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS or log:
        raise SystemExit(f"kernels.cu: {status.name}\n{log}")
    text = b" " * _call(nvrtc.nvrtcGetPTXSize, program)
    _call(nvrtc.nvrtcGetPTX, program, text)
    _call(nvrtc.nvrtcDestroyProgram, program)
    return text.rstrip(b"\0").decode()


def main() -> int:
    """Write or compare; exit status 1 when the file is not what NVRTC makes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    options = parser.parse_args()
    text = make()
    if not options.check:
        PTX.write_text(text)
        return 0
    if PTX.is_file() and PTX.read_text() == text:
        return 0
    print(f"{PTX.name} is not what kernels.cu makes: run scripts/make_ptx.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
