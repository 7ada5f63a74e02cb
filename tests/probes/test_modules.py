"""Kernel modules: what is loaded, and what is on the disk."""

from __future__ import annotations

from pathlib import Path

from gdrcheck.facts import Module
from tests.probes.test_host import host, tree, why, write_json


def modules(root: Path) -> dict[str, Module]:
    found = host(root).modules
    assert isinstance(found, tuple)
    return {module.name: module for module in found}


FIELDS = ("path", "version", "source_version", "version_magic", "license")


def test_modules_are_what_is_loaded_and_what_is_on_the_disk(tmp_path: Path) -> None:
    tree(
        tmp_path, **{"sys/module/nvidia/version": "580.1\n", "sys/module/nvidia/srcversion": "AB\n"}
    )
    (tmp_path / "sys/class/infiniband_verbs").mkdir()
    write_json(
        tmp_path,
        modules={
            "nvidia": dict.fromkeys(FIELDS) | {"path": "/lib/x.ko", "source_version": "CD"},
            "ib_core": dict.fromkeys(FIELDS) | {"path": "(builtin)"},
            "mlx5_ib": {"unreadable": "modinfo: died"},
            "also_this": dict.fromkeys(FIELDS),
        },
    )
    found = modules(tmp_path)
    nvidia = found["nvidia"]
    assert (nvidia.loaded, nvidia.version, nvidia.source_version) == (True, "580.1", "AB")
    assert (nvidia.path, nvidia.disk_source_version) == ("/lib/x.ko", "CD")
    assert (found["ib_core"].loaded, found["ib_core"].version) == (True, None)
    assert found["ib_uverbs"].loaded is True  # it is the one that makes that class
    assert (found["also_this"].loaded, found["also_this"].path) == (False, None)
    assert found["mlx5_ib"].loaded is False
    assert "modinfo: died" in why(found["mlx5_ib"].path)
    assert "efa" in why(found["efa"].path)
    assert host(tmp_path).loaded_modules == ("nvidia",)
