"""The versions of what is in the image, as its build recorded them."""

from __future__ import annotations

import json
from pathlib import Path

from gdrcheck import __version__

RECORD = "opt/gdrcheck/versions.json"


def read_versions(root: Path) -> dict[str, str]:
    """Package name → version. Outside an image only gdrcheck's own."""
    found = {"gdrcheck": __version__}
    try:
        record = json.loads((root / RECORD).read_bytes())
    except (OSError, ValueError) as error:
        return {**found, "image": f"unreadable: {error}"}
    for group in ("apt", "pip"):
        packages = record.get(group) if isinstance(record, dict) else None
        if isinstance(packages, dict):
            found.update({str(name): str(version) for name, version in packages.items()})
    return found
