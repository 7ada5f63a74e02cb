"""Writes a tree from which the probes read the same facts, without what identifies the machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from gdrcheck.anonymise import Anonymiser
from gdrcheck.facts import Facts, Nvml, Unreadable
from gdrcheck.probes import capture_sources as sources
from gdrcheck.probes import gpu, live, survey
from gdrcheck.probes.capture_filters import walked
from gdrcheck.probes.capture_sources import Links, Names, Source
from gdrcheck.probes.names import CLASS
from gdrcheck.probes.reading import read_bytes
from gdrcheck.probes.side_by_side import side_by_side

# Far more than a node with 16 NICs has.
MAX_FILES, MAX_BYTES = 100_000, 64 << 20
MAX_LINKS = 40  # Linux MAXSYMLINKS
DEADLINE_S = 30.0
# The kernel's file systems whose links are kept; elsewhere a path is taken for what it names.
LINKED = "sys"
WILD = frozenset("*[")


@dataclass(frozen=True, slots=True)
class _Found:
    """What is to be written at ``path``: a file, or with ``data`` None a name alone."""

    path: str
    data: bytes | None
    is_folder: bool = False
    is_link: bool = False


@dataclass(slots=True)
class Captured:
    """What was written, and what was left out of the tree, each with the reason."""

    files: int = 0
    size_bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def capture(facts: Facts, root: Path, out: Path, anonymiser: Anonymiser) -> Captured:
    """Write into ``out``, an empty folder, what the probes read below ``root``.

    ``facts`` are what they made of it; the answers of NVML and libibverbs are taken from there. A
    driver that hangs is given up, and what it alone could tell is left out. OSError when ``out``
    cannot be written.
    """
    tree = _Tree(root, out, anonymiser)
    plain: list[Source] = [
        *sources.of_system(facts, anonymiser),
        *sources.of_verbs(root),
        *sources.of_collector(facts, root, anonymiser, tree.captured.left_out),
        *sources.of_pci(facts, root),
        *sources.of_netdevs(facts),
    ]
    tree.write(tree.find(plain))
    of_device = {
        one.name: partial(_all_of, tree, one.name, anonymiser) for one in sources.devices_of(facts)
    }
    for name, found in side_by_side(of_device, DEADLINE_S).items():
        if isinstance(found, Unreadable):
            tree.captured.left_out[f"{CLASS}/{name}"] = found.unreadable
        else:
            tree.write(found)
    tree.write(_records(facts, anonymiser))
    return tree.captured


def _all_of(tree: _Tree, name: str, anonymiser: Anonymiser) -> list[_Found]:
    return list(tree.find(sources.of_device(name, anonymiser)))


def _records(facts: Facts, anonymiser: Anonymiser) -> Iterator[_Found]:
    """The answers of libraries, and the architecture, which the kernel may not show in a file."""
    yield _Found("proc/sys/kernel/arch", f"{facts.host.architecture}\n".encode())
    if facts.nvml is not None:
        said = walked(facts.nvml.model_dump(mode="json"), anonymiser.text)
        if isinstance(facts.nvml, Nvml):
            _replace_pids(said, anonymiser)
        mark = gpu.EMULATED_LINE if facts.emulated else b""
        yield _Found(f"{live.RECORDS}/{gpu.RECORD}", mark + json.dumps(said, indent=1).encode())
    opened = [one.verbs for one in sources.devices_of(facts)]
    if opened:
        answers = [one for one in opened if not isinstance(one, Unreadable)]
        record: Any = [one.model_dump(mode="json") for one in answers]
        if not answers:
            record = opened[0].model_dump(mode="json")
        text = json.dumps(walked(record, anonymiser.free_text), indent=1)
        yield _Found(f"{live.RECORDS}/{survey.RECORD}", text.encode())


def _replace_pids(said: Any, anonymiser: Anonymiser) -> None:
    for one in said["gpus"]:
        if isinstance(one["processes"], list):
            for running in one["processes"]:
                running["pid"] = int(anonymiser.pid(str(running["pid"])))


class _Tree:
    """Reads below ``root`` and writes below ``out``."""

    def __init__(self, root: Path, out: Path, anonymiser: Anonymiser) -> None:
        self._root, self._out, self._anonymiser = root, out, anonymiser
        self._folders: dict[str, str] = {"": ""}
        self.captured = Captured()

    def find(self, wanted: Iterable[Source]) -> Iterator[_Found]:
        """What there is of ``wanted``; what cannot be read is noted. Nothing is written."""
        for source in wanted:
            yield from self._parent(source.pattern)
            for path in self._matches(source.pattern):
                yield from self._one(source, path, path.relative_to(self._root).as_posix())

    def _matches(self, pattern: str) -> list[Path]:
        """Also a link that leads nowhere, which a pattern without ``*`` would not match."""
        if not WILD & set(pattern):
            return [self._root / pattern] if os.path.lexists(self._root / pattern) else []
        return sorted(self._root.glob(pattern))

    def _parent(self, pattern: str) -> Iterator[_Found]:
        """The last folder on the way that is there: that it holds no more is a fact too."""
        parts = PurePosixPath(pattern).parts[:-1]
        fixed = next((at for at, part in enumerate(parts) if WILD & set(part)), len(parts))
        folders = ("/".join(parts[:count]) for count in range(fixed, 0, -1))
        folder = next((one for one in folders if (self._root / one).is_dir()), None)
        if folder is not None:
            yield _Found(folder, None, is_folder=True)

    def _one(self, source: Source, path: Path, name: str) -> Iterator[_Found]:
        if isinstance(source, Names):
            yield _Found(name, None, is_folder=path.is_dir())
        elif isinstance(source, Links):
            if path.is_symlink():
                yield _Found(name, None, is_link=True)
        else:
            data = read_bytes(path, source.most_bytes)
            try:
                if isinstance(data, Unreadable):
                    raise ValueError(data.unreadable)
                kept = source.kept(data)
            except (ValueError, RecursionError) as error:
                if not source.quiet:
                    self.captured.left_out[name] = str(error)
                    # What could not be read here is not to be read there, and not absent either.
                    yield _Found(name, None, is_folder=True)
            else:
                if kept is not None:
                    yield _Found(name, kept)

    def write(self, found: Iterable[_Found]) -> None:
        """Write each, as far as the limits allow."""
        for one in found:
            data = one.data or b""
            too_many = self.captured.files >= MAX_FILES
            if too_many or self.captured.size_bytes + len(data) > MAX_BYTES:
                self.captured.left_out[one.path] = (
                    f"more than {MAX_FILES} files or {MAX_BYTES} bytes"
                )
                continue
            try:
                self._write(one)
            except _Outside as error:
                self.captured.left_out[one.path] = str(error)

    def _write(self, one: _Found) -> None:
        if one.is_folder:
            self._make(self._place(one.path, follow=True))
            return
        if one.is_link:
            self._place(one.path, follow=True)
            return
        place = self._out / self._place(one.path, follow=False)
        if not place.exists():
            self._make(place.parent.relative_to(self._out).as_posix())
            place.write_bytes(one.data or b"")
            self.captured.files += 1
            self.captured.size_bytes += len(one.data or b"")

    def _make(self, folder: str) -> None:
        (self._out / folder).mkdir(parents=True, exist_ok=True)

    def _place(self, path: str, *, follow: bool) -> str:
        """Where ``path`` lies in the new tree, links on the way made; ``follow``: the last too."""
        ahead, place, hops = list(PurePosixPath(path).parts), "", 0
        while ahead:
            part = ahead.pop(0)
            old = f"{place}/{part}" if place else part
            linked = part != ".." and old.startswith(LINKED) and (self._root / old).is_symlink()
            if not linked or (not ahead and not follow):
                place = old
                continue
            hops += 1
            target = os.readlink(self._root / old)
            led = os.path.normpath(os.path.join(place, target))
            if os.path.isabs(target) or led.startswith("..") or hops > MAX_LINKS:
                raise _Outside(f"leads out of the tree, by {old}")
            self._link(old, target, led)
            ahead, place = [*PurePosixPath(led).parts, *ahead], ""
        return self._renamed(place)

    def _link(self, path: str, target: str, led: str) -> None:
        place = self._out / self._renamed(path)
        if not place.is_symlink():
            self._make(place.parent.relative_to(self._out).as_posix())
            place.symlink_to(self._renamed(target))
            self.captured.files += 1
        if (self._root / led).is_dir():
            self._make(self._renamed(led))

    def _renamed(self, path: str) -> str:
        """Interfaces and devices may have names that udev made of their address."""
        return "/".join(map(self._anonymiser.text, path.split("/")))


class _Outside(Exception):
    """A link leads where nothing is captured."""
