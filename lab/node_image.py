"""Builds what every node boots from: kernel, initramfs and the root file system of Debian 13.

Two cache entries: the packages (a tar archive, the slow part), and the disk made from it and the
guest files. The first is made again only when the package list changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab import cache, initramfs, tools
from lab.errors import LabError
from lab.paths import NODE_IMAGE_SOURCES
from lab.progress import step

SUITE = "trixie"
ROOT_DISK_SIZE = "8G"
# Loaded without decompression and before anything else wants the processor; the rest is loaded on
# demand.
EARLY_MODULES = (
    *("virtio_blk", "crc32c_generic", "ext4", "virtio_net"),
    *("overlay", "ib_uverbs", "rdma_ucm", "rdma_rxe"),
)
_FILESYSTEM_OPTIONS = (
    "-q",
    "-t",
    "ext4",
    "-m",
    "0",
    "-O",
    "^has_journal,^metadata_csum",
    "-E",
    "root_owner=0:0",
)


@dataclass(frozen=True)
class NodeImage:
    """The files of a built node image; they belong to the cache and are never written."""

    kernel: Path
    initramfs: Path
    root_disk: Path


def build() -> NodeImage:
    """The node image of this checkout, from the cache or built in a minute; raises LabError."""
    base = _packages()
    key = cache.key_of(
        base.name,
        cache.tree_key(NODE_IMAGE_SOURCES),
        _source(__file__),
        _source(initramfs.__file__),
    )

    def fill(draft: Path) -> None:
        with step("building the node image: disk, kernel and initramfs"):
            _make_disk(base / "base.tar", draft)

    home = cache.entry("node-image", key, fill)
    return NodeImage(home / "vmlinuz", home / "initramfs.cpio", home / "root.ext4")


def package_list() -> list[str]:
    """The packages of the node image, in the order of their file."""
    lines = (NODE_IMAGE_SOURCES / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _packages() -> Path:
    packages = package_list()
    arguments = [
        "--variant=minbase",
        "--format=tar",
        f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        # The nodes boot from our own initramfs; making Debian's costs ten seconds.
        '--essential-hook=chroot "$1" dpkg-divert --local --rename --add /usr/sbin/update-initramfs'
        ' && ln -s /bin/true "$1/usr/sbin/update-initramfs"',
        SUITE,
    ]

    def fill(draft: Path) -> None:
        with step(f"building the node image: {len(packages)} packages of Debian {SUITE}"):
            tools.run("mmdebstrap", *arguments, draft / "base.tar", deadline_s=1800)

    return cache.entry("node-packages", cache.key_of(*arguments), fill)


def _make_disk(archive: Path, draft: Path) -> None:
    """Unpack, customise and pack in one process, so that it can be one user namespace where we are
    not root.
    """
    tree = draft / "tree"
    tools.run(
        "sh",
        NODE_IMAGE_SOURCES / "make-disk",
        archive,
        NODE_IMAGE_SOURCES,
        tree,
        draft / "root.ext4",
        ROOT_DISK_SIZE,
        " ".join(_FILESYSTEM_OPTIONS),
        deadline_s=600,
        env={"PATH": f"{Path(tools.find('mke2fs')).parent}:/usr/sbin:/usr/bin:/sbin:/bin"},
        as_root=True,
    )
    kernels = sorted((tree / "usr/lib/modules").iterdir())
    if len(kernels) != 1:
        raise LabError(
            f"the node image has {len(kernels)} kernels, not one: {[k.name for k in kernels]}"
        )
    kernel = kernels[0].name
    (draft / "vmlinuz").write_bytes((tree / "boot" / f"vmlinuz-{kernel}").read_bytes())
    early = initramfs.early_user_space(tree, kernel, NODE_IMAGE_SOURCES / "init", EARLY_MODULES)
    (draft / "initramfs.cpio").write_bytes(early)
    tools.run("rm", "-rf", tree, deadline_s=120, as_root=True)


def _source(module_file: str) -> bytes:
    return Path(module_file).read_bytes()
