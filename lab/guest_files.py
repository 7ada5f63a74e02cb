"""The files that make one node that node: laid over its root by the initramfs, before anything of
it runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence

from lab import initramfs
from lab.access import USER
from lab.machine import INTERFACES, control_address, data_address, mac_address

STORE_PLACE = "/usr/lib/containers/gdrcheck-store"
_STORAGE_CONF = f"""\
# The image disk of the lab: its images are present without having been loaded.
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"

[storage.options]
additionalimagestores = ["{STORE_PLACE}"]
"""


def archive(
    number: int,
    *,
    lab_name: str,
    numbers: Sequence[int],
    user_key: str,
    host_key: str,
    host_key_public: str,
    has_store: bool,
    more: Iterable[initramfs.Member] = (),
) -> bytes:
    """An initramfs archive with the node's own files below `node/`, to be appended to the common
    one. ``more`` are further files, by their names in the node's root.
    """
    name = f"node{number}"
    files = [
        _file("etc/hostname", f"{name}\n"),
        _file("etc/hosts", _hosts(numbers)),
        _file(
            "etc/machine-id", hashlib.sha256(f"{lab_name}/{name}".encode()).hexdigest()[:32] + "\n"
        ),
        _file("etc/gdrcheck-lab.env", f"GDRCHECK_LAB_NODE={number}\n"),
        _file("etc/ssh/ssh_host_ed25519_key", host_key, 0o600),
        _file("etc/ssh/ssh_host_ed25519_key.pub", f"{host_key_public}\n"),
        _file(f"etc/ssh/authorized_keys/{USER}", f"{user_key}\n"),
        *_link_files(number),
        *(dataclasses.replace(member, name=f"node/{member.name}") for member in more),
    ]
    if has_store:
        files.append(_file("etc/containers/storage.conf", _STORAGE_CONF))
    return initramfs.pack(files)


def _link_files(number: int) -> Iterable[initramfs.Member]:
    for interface in INTERFACES:
        match = f"[Match]\nMACAddress={mac_address(interface, number)}\n"
        yield _file(
            f"etc/systemd/network/10-{interface}.link", f"{match}\n[Link]\nName={interface}\n"
        )


def _hosts(numbers: Sequence[int]) -> str:
    lines = ["127.0.0.1 localhost"]
    for number in numbers:
        lines.append(f"{control_address(number)} node{number}")
        lines.append(f"{data_address(number)} node{number}-data")
    return "\n".join(lines) + "\n"


def _file(name: str, content: str, permissions: int = 0o644) -> initramfs.Member:
    return initramfs.file(f"node/{name}", content, permissions)
