"""All sources together: what is asked, and what is written."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .children import ask
from .config_spaces import SLOT, save_config_spaces
from .kernel_log import read_kernel_log
from .neighbours import read_neighbours
from .reading import write
from .software import (
    MODULES,
    read_kernel_config,
    read_modules,
    read_ofed,
    read_os,
    read_selinux,
    read_units,
)

VERSION = 1
HOST_FILE = "host.json"
CONFIG_FOLDER = "config"
DEADLINE_S = 90


def collect(
    out: Path,
    root: Path = Path("/"),
    modules: Sequence[str] = (),
    deadline_s: float = DEADLINE_S,
    neighbours: str = "none",
) -> dict[str, Any]:
    """Reads everything and returns what it wrote to ``host.json``. ``modules``: further ones.

    ``neighbours``: ``lldp`` to learn what the NICs' cables lead to, which may take 35 s.
    A value that cannot be read is ``{"unreadable": why}``. OSError when ``out`` cannot be written.
    What an earlier collector left there is replaced as a whole, at the end.
    """
    make_folder(out)
    drafts = Path(tempfile.mkdtemp(prefix=".drafts-", dir=out))
    try:
        values = read_all(drafts, root, modules, deadline_s, neighbours)
        publish(drafts, out)
    finally:
        shutil.rmtree(drafts, ignore_errors=True)
    return values


def read_all(
    drafts: Path, root: Path, modules: Sequence[str], deadline_s: float, neighbours: str
) -> dict[str, Any]:
    """Reads everything into files in ``drafts``; returns what ``host.json`` among them holds."""
    config = drafts / CONFIG_FOLDER
    config.mkdir()
    sources: dict[str, Callable[[], Any]] = {
        "os": lambda: read_os(root),
        "kernel_config": lambda: read_kernel_config(root),
        "modules": lambda: read_modules(root, (*MODULES, *modules)),
        "ofed": lambda: read_ofed(root),
        "selinux": lambda: read_selinux(root),
        "units": lambda: read_units(root),
        "kernel_log": lambda: read_kernel_log(root),
        "config_spaces": lambda: save_config_spaces(root, config),
    }
    if neighbours == "lldp":
        sources["neighbours"] = lambda: read_neighbours(root)
    values = ask(sources, drafts, deadline_s)
    told = [] if os.geteuid() == 0 else [f"run by uid {os.geteuid()}, not by root"]
    told += [line for name, value in values.items() for line in complaints(value, name)]
    if "lines" in values["kernel_log"]:
        told += [f"kernel_log: {gap}" for gap in values["kernel_log"]["gaps"]]
        values["kernel_log"] = values["kernel_log"]["lines"]
    values = {"version": VERSION, "ran_at_s": time.time(), "complaints": told, **values}
    write(drafts / HOST_FILE, json.dumps(values, indent=1).encode())
    return values


def make_folder(folder: Path) -> None:
    """Makes the folder, 0755, unless it is there."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o755)


def publish(drafts: Path, out: Path) -> None:
    """Moves the files to their places, and removes configuration spaces that are not among them.

    One collector after another, so that what is there in the end is all from one.
    """
    config = out / CONFIG_FOLDER
    make_folder(config)
    lock = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = {
            path.name for path in (drafts / CONFIG_FOLDER).iterdir() if SLOT.fullmatch(path.name)
        }
        for path in config.iterdir():
            if SLOT.fullmatch(path.name) and path.name not in new:
                path.unlink()
        for name in new:
            (drafts / CONFIG_FOLDER / name).replace(config / name)
        (drafts / HOST_FILE).replace(out / HOST_FILE)
    finally:
        os.close(lock)


def complaints(value: Any, place: str) -> Iterator[str]:
    """Every value that could not be read, with its place."""
    if isinstance(value, dict) and set(value) == {"unreadable"}:
        yield f"{place}: {value['unreadable']}"
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from complaints(part, f"{place}: {key}")
