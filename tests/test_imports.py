"""Imports point one way, and each driver library has one importer."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gdrcheck"
PURE = "pure"
# What each room may import of the others, beside itself.
ALLOWED = {
    PURE: {"findings", "facts"},
    "facts": set(),
    "findings": {PURE},
    "rules": {PURE, "findings", "facts"},
    "show": {PURE, "findings", "facts"},
    "probes": {PURE, "findings", "facts"},
    "verbs": {PURE, "findings", "facts"},
    "pairing": {PURE, "findings", "facts", "probes", "verbs"},
    "results": {PURE, "findings", "facts", "rules", "pairing"},
    "node": {PURE, "findings", "facts", "probes", "pairing", "results"},
}
# The ends where everything comes together; nobody imports them but the entry point.
TOP = {"cli", "__main__", "commands", "prepare", "schemas"}
DRIVERS = {"pyverbs": "verbs", "cuda": "gpu", "pynvml": "probes"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def room(name: str) -> str:
    """The room of ``gdrcheck.x.y`` or of a path below the package."""
    parts = name.split(".")[1:]
    return parts[0] if parts and (PACKAGE / parts[0]).is_dir() else PURE


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    name = dotted(path)
    if name.split(".")[1] in TOP:
        return
    wrong = [
        other
        for other in imports(path)
        if other.startswith("gdrcheck.")
        and (room(other) not in {room(name), *ALLOWED[room(name)]} or other.split(".")[1] in TOP)
    ]
    assert not wrong, f"{name} may not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_a_driver_library_has_one_importer(path: Path) -> None:
    name = dotted(path)
    drivers = {other.split(".")[0] for other in imports(path)} & set(DRIVERS)
    assert not [driver for driver in drivers if room(name) != DRIVERS[driver]]


def test_pairing_needs_only_the_protocol_of_the_verbs_layer() -> None:
    names = {
        other
        for path in (PACKAGE / "pairing").glob("*.py")
        for other in imports(path)
        if other.startswith("gdrcheck.verbs.")
    }
    assert {name.split(".")[2] for name in names} == {"protocol"}


def test_the_supervisor_loads_no_driver_library() -> None:
    code = (
        "import sys, gdrcheck.node.command, gdrcheck.node.supervisor;"
        "sys.exit(sorted({'pyverbs', 'cuda', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
