"""The PTX in git is what the locked compiler makes of the kernels, for the oldest drivers."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gdrcheck.gpu import launcher

ROOT = Path(__file__).resolve().parents[2]
# For other machines there is no NVRTC 12.0. Where there is one, its absence is a failure.
COMPILER_EXISTS = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.mark.skipif(not COMPILER_EXISTS, reason="NVRTC 12.0 is made for Linux on x86-64")
def test_the_text_is_what_the_locked_compiler_makes() -> None:
    command = [sys.executable, "scripts/make_ptx.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_driver_of_cuda_12_0_loads_it_on_a_volta() -> None:
    text = launcher.ptx().decode("ascii")
    version = re.search(r"^\.version (\d+)\.(\d+)$", text, re.MULTILINE)
    target = re.search(r"^\.target sm_(\d+)$", text, re.MULTILINE)
    assert version
    assert target
    assert (int(version[1]), int(version[2])) <= (8, 0)
    assert int(target[1]) <= 70


def test_it_has_the_kernels_with_64_bit_arguments_only() -> None:
    text = launcher.ptx().decode("ascii")
    entries = dict(re.findall(r"\.entry (\w+)\(\n(.*?)\n\)", text, re.DOTALL))
    arguments = {name: re.findall(r"\.param \.(\w+)", body) for name, body in entries.items()}
    assert arguments == {
        "gdrcheck_fill": ["u64"] * 5,
        "gdrcheck_verify": ["u64"] * 6,
        "gdrcheck_classify": ["u64"] * 8,
    }


def test_it_names_no_file_of_the_machine_that_made_it() -> None:
    assert b"/" not in launcher.ptx().replace(b"//", b"")
