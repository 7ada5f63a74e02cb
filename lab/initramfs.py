"""Writes initial RAM file systems: the SVR4 "newc" cpio format of the kernel's early user space."""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TRAILER = "TRAILER!!!"
_APPLETS = (
    "sh",
    "cat",
    "cp",
    "grep",
    "insmod",
    "mkdir",
    "mount",
    "poweroff",
    "sleep",
    "switch_root",
)


@dataclass(frozen=True)
class Member:
    """One archive member, owned by root; `content` is the target for a symbolic link."""

    name: str
    mode: int
    content: bytes = b""


def file(name: str, content: bytes | str, permissions: int = 0o644) -> Member:
    """A regular file."""
    return Member(
        name, stat.S_IFREG | permissions, content.encode() if isinstance(content, str) else content
    )


def link(name: str, target: str) -> Member:
    """A symbolic link."""
    return Member(name, stat.S_IFLNK | 0o777, target.encode())


def directory(name: str) -> Member:
    """A directory."""
    return Member(name, stat.S_IFDIR | 0o755)


def pack(members: Iterable[Member]) -> bytes:
    """The archive of `members` and the directories above them, padded so that another may follow
    it.
    """
    listed = list(members)
    named = {m.name for m in listed}
    parents = {str(p) for m in listed for p in Path(m.name).parents if str(p) != "."} - named
    ordered = [directory(name) for name in sorted(parents)] + listed
    archive = b"".join(_record(number, m) for number, m in enumerate(ordered, start=1))
    archive += _record(0, Member(_TRAILER, 0))
    return archive + b"\0" * (-len(archive) % 512)


def _record(inode: int, member: Member) -> bytes:
    name = member.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (inode, member.mode, 0, 0, links, 0, len(member.content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + member.content + b"\0" * (-len(member.content) % 4)


def early_user_space(tree: Path, kernel: str, init: Path, modules: Iterable[str]) -> bytes:
    """The initramfs shared by all nodes: `init`, a static busybox, and `modules` with what they
    depend on.

    Modules are unpacked and numbered here, in the order in which they load: neither is done under
    emulation.
    """
    members = [
        file("init", init.read_bytes(), 0o755),
        file("bin/busybox", (tree / "usr/bin/busybox").read_bytes(), 0o755),
        *(link(f"bin/{applet}", "busybox") for applet in _APPLETS),
        *(directory(name) for name in ("dev", "proc", "sys", "root", "modules", "node")),
    ]
    home = tree / "usr/lib/modules" / kernel
    ordered = load_order((home / "modules.dep").read_text(), modules)
    for number, path in enumerate(ordered):
        content = (home / path).read_bytes()
        if path.endswith(".xz"):
            content = lzma.decompress(content)
        members.append(file(f"modules/{number:02d}-{_module_name(path)}.ko", content))
    return pack(members)


def load_order(modules_dep: str, wanted: Iterable[str]) -> list[str]:
    """Paths of the wanted modules and their dependencies, each after what it needs.

    Raises KeyError for a module that `modules_dep` does not list.
    """
    needs: dict[str, list[str]] = {}
    paths: dict[str, str] = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
        paths[_module_name(path)] = path
    ordered: list[str] = []
    for name in wanted:
        _visit(paths[name], needs, ordered)
    return ordered


def _visit(path: str, needs: Mapping[str, list[str]], ordered: list[str]) -> None:
    if path in ordered:
        return
    for needed in needs[path]:
        _visit(needed, needs, ordered)
    ordered.append(path)


def _module_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".ko", 1)[0].replace("-", "_")
