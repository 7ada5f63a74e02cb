"""Faults as edits to a written tree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.captured.config_space import Express, encode
from tests.captured.gpus import NVML_RECORD
from tests.captured.pci import COLLECTED
from tests.captured.rdma import VERBS_RECORD
from tests.captured.system import HOST_FOLDER

Edit = Callable[[Path], None]
HOST_FILE = f"{HOST_FOLDER}/host.json"
DEVICES = "sys/bus/pci/devices"


def put(path: str, content: str | int | bytes) -> Edit:
    """The file at ``path``, which may lead through links, holds ``content``."""
    data = content if isinstance(content, bytes) else f"{content}\n".encode()

    def edit(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)

    return edit


def gone(*paths: str) -> Edit:
    """What each of ``paths`` names is not there: a file, a link, or a folder with its content."""

    def edit(root: Path) -> None:
        for path in paths:
            place = root / path
            if place.is_symlink() or not place.is_dir():
                place.unlink()
            else:
                shutil.rmtree(place)

    return edit


def unplugged(slot: str) -> Edit:
    """The PCI function at ``slot`` is not there, nor what hangs on it."""

    def edit(root: Path) -> None:
        link = root / DEVICES / slot
        folder = link.resolve()
        link.unlink()
        shutil.rmtree(folder)

    return edit


def collected(key: str, value: object) -> Edit:
    """The collector wrote ``value`` for ``key``."""
    return _json(HOST_FILE, lambda values: values.__setitem__(key, value))


def collected_part(key: str, part: str, **values: object) -> Edit:
    """Of the module or unit ``part`` the collector wrote ``values`` (or ``value`` itself)."""

    def change(document: Any) -> None:
        if "value" in values:
            document[key][part] = values["value"]
        else:
            document[key][part].update(values)

    return _json(HOST_FILE, change)


def answer(slot: str, **values: object) -> Edit:
    """NVML answered ``values`` about the GPU at ``slot``."""

    def change(document: Any) -> None:
        next(gpu for gpu in document["gpus"] if gpu["slot"] == slot).update(values)

    return _json(NVML_RECORD, change)


def health(slot: str, part: str = "", **values: object) -> Edit:
    """NVML answered ``values`` about the GPU's health, or about a ``part`` of it.

    ``part`` is a path of keys: ``ecc.volatile``, ``nvlinks.3``.
    """

    def change(document: Any) -> None:
        place = next(gpu for gpu in document["gpus"] if gpu["slot"] == slot)["health"]
        for key in part.split(".") if part else ():
            place = place[int(key) if key.isdecimal() else key]
        place.update(values)

    return _json(NVML_RECORD, change)


def peer(slot: str, other: str, **values: object) -> Edit:
    """NVML answered ``values`` about the GPU at ``slot`` reaching into the one at ``other``."""

    def change(document: Any) -> None:
        pair = (slot, other)
        next(p for p in document["peers"] if (p["slot"], p["peer"]) == pair).update(values)

    return _json(NVML_RECORD, change)


def not_answering(slot: str, error: str | None) -> Edit:
    """NVML does not list the GPU at ``slot``; with ``error``, it lists it as lost."""

    def change(document: Any) -> None:
        document["gpus"] = [gpu for gpu in document["gpus"] if gpu["slot"] != slot]
        document["peers"] = [
            peer for peer in document["peers"] if slot not in (peer["slot"], peer["peer"])
        ]
        if error is not None:
            document["lost"][slot] = error

    return _json(NVML_RECORD, change)


def driver_said(**values: object) -> Edit:
    """NVML answered ``values`` about the driver as a whole."""
    return _json(NVML_RECORD, lambda document: document.update(values))


def opened(name: str, **values: object) -> Edit:
    """Opening the RDMA device gave ``values``; ``mtu_bytes`` is the active MTU of its port 1."""

    def change(document: Any) -> None:
        device = next(one for one in document if one["name"] == name)
        if "mtu_bytes" in values:
            device["ports"][0]["active_mtu_bytes"] = values["mtu_bytes"]
        else:
            device.update(values)

    return _json(VERBS_RECORD, change)


def express(slot: str, settings: Express) -> Edit:
    """The configuration space of the function at ``slot`` says ``settings``."""

    def edit(root: Path) -> None:
        names = ("vendor", "device", "class")
        kind = [int((root / DEVICES / slot / name).read_text(), 16) for name in names]
        (root / COLLECTED / slot).write_bytes(encode(kind[0], kind[1], kind[2], settings))

    return edit


def link(*slots: str, speed: str | None = None, width: int | None = None) -> Edit:
    """The link runs at ``speed`` and ``width``, as both of its ends, ``slots``, show it."""

    def edit(root: Path) -> None:
        for slot in slots:
            if speed is not None:
                (root / DEVICES / slot / "current_link_speed").write_text(f"{speed}\n")
            if width is not None:
                (root / DEVICES / slot / "current_link_width").write_text(f"{width}\n")

    return edit


def _json(path: str, change: Callable[[Any], object]) -> Edit:
    def edit(root: Path) -> None:
        document = json.loads((root / path).read_text())
        change(document)
        (root / path).write_text(json.dumps(document))

    return edit
