"""The versions of what is in the image, as its build recorded them."""

from __future__ import annotations

from pathlib import Path

from pydantic_core import from_json

from gdrcheck import __version__
from gdrcheck.facts import Unreadable
from gdrcheck.probes.reading import read_bytes

RECORD = "opt/gdrcheck/versions.json"
# Names of packages that hold libibverbs, with Debian and with others.
RDMA_CORE = ("libibverbs1", "rdma-core", "libibverbs")


def read_versions(root: Path) -> dict[str, str]:
    """Package name → version. Outside an image only gdrcheck's own."""
    found = {"gdrcheck": __version__}
    data = read_bytes(root / RECORD)
    if isinstance(data, Unreadable):
        return {**found, "image": f"unreadable: {data.unreadable}"}
    try:
        record = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        return {**found, "image": f"unreadable: versions.json: {error}"}
    for group in ("apt", "pip"):
        packages = record.get(group) if isinstance(record, dict) else None
        if isinstance(packages, dict):
            found.update({name: str(version) for name, version in packages.items()})
    return found


def rdma_core_version(versions: dict[str, str]) -> str | Unreadable:
    """The version of the image's rdma-core, by what ``read_versions`` returned."""
    for name in RDMA_CORE:
        if name in versions:
            return versions[name]
    why = versions.get("image", "versions.json names no libibverbs")
    return Unreadable(unreadable=why.removeprefix("unreadable: "))
