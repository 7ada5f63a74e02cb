"""Imports point one way, and each driver library has one importer."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TypeGuard

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
    "gpu": {PURE, "findings", "facts"},
    "verbs": {PURE, "findings", "facts"},
    "memory": {PURE, "findings", "facts", "gpu", "verbs"},
    "pairing": {PURE, "findings", "facts", "probes", "verbs"},
    "results": {PURE, "findings", "facts", "rules", "pairing"},
    "report": {PURE, "findings", "results"},
    "node": {PURE, "findings", "facts", "probes", "pairing", "results"},
    "kubernetes": {PURE, "findings", "facts", "pairing", "results", "node"},
}
# The ends where everything comes together; nobody imports them but the entry point.
TOP = {"cli", "__main__", "commands", "prepare", "schemas"}
DRIVERS = {"pyverbs": "verbs", "cuda": "gpu", "pynvml": "probes"}
# A process that has CUDA or a verbs device open must not be copied: what these rooms open is used
# by the process that opened it, or by none.
HOLD_DEVICES = ("gpu", "verbs", "memory")
FORKING = {"subprocess", "multiprocessing", "pty", "concurrent.futures.process"}


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


@pytest.mark.parametrize(
    "path", [path for path in modules() if room(dotted(path)) in HOLD_DEVICES], ids=dotted
)
def test_what_holds_devices_starts_no_process(path: Path) -> None:
    assert not imports(path) & FORKING
    called = {node.attr for node in ast.walk(ast.parse(path.read_text())) if _of_os(node)}
    assert not called & {"fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen"}


def _of_os(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    )


def test_checks_touch_the_gpu_only_when_they_run() -> None:
    """CUDA starts in the case that tells of it: loading its binding is for that case to pay."""
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "checks").rglob("*.py"))
        for name in _imported_at_once(path)
        if name.split(".")[0] == "cuda" or room(name) in ("gpu", "memory")
    }
    assert not wrong


def _imported_at_once(path: Path) -> set[str]:
    """What importing the module imports of itself: not in functions, not for types alone."""
    return {
        alias if isinstance(node, ast.Import) else f"{node.module}.{alias}"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (one.name for one in node.names)
    }


def test_pairing_needs_only_the_protocol_of_the_verbs_layer() -> None:
    names = {
        other
        for path in (PACKAGE / "pairing").glob("*.py")
        for other in imports(path)
        if other.startswith("gdrcheck.verbs.")
    }
    assert {name.split(".")[2] for name in names} == {"protocol", "cm_protocol"}


def test_the_supervisor_loads_no_driver_library() -> None:
    # Every Python start loads the name ``cuda`` where the binding is installed, and nothing below.
    code = (
        "import sys, gdrcheck.node.command, gdrcheck.node.supervisor;"
        "sys.exit(sorted({'pyverbs', 'cuda.bindings', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
