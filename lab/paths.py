"""Where the lab keeps things: the checkout, the user's cache, and one state directory per lab."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parent.parent
NODE_IMAGE_SOURCES = REPOSITORY / "images" / "lab-node"
INVENTORY_SOURCES = REPOSITORY / "lab" / "inventory"

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


def _xdg(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home() / default


def cache_directory() -> Path:
    """The user's cache of everything that is built: `$XDG_CACHE_HOME/gdrcheck`."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "gdrcheck"


def state_directory(name: str) -> Path:
    """The directory of the lab called `name`; raises LabError for a name that will not do."""
    if not _NAME.fullmatch(name):
        raise LabError(
            f"lab name {name!r}: use 1 to 31 lower-case letters, digits and dashes, no dash first"
        )
    return _xdg("XDG_STATE_HOME", ".local/state") / "gdrcheck" / "labs" / name
