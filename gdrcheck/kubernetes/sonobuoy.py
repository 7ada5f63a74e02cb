"""What Sonobuoy's worker waits for beside a plugin: results in a folder, and a file that says so.

Source: sonobuoy.io/docs, Plugins: the plugin writes the path of its results into ``done``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

VARIABLES = ("SONOBUOY_RESULTS_DIR", "RESULTS_DIR")
DONE_FILE = "done"


def folder_of(environment: Mapping[str, str]) -> Path | None:
    """The folder that Sonobuoy wants the results in; None when this is no plugin of it."""
    for name in VARIABLES:
        if text := environment.get(name):
            return Path(text)
    return None


def deliver(folder: Path, junit: Path) -> None:
    """Copy ``junit`` to ``folder`` and tell the worker. OSError if that cannot be done.

    Without a file nothing is told: the worker then reports a plugin that timed out, not one that
    passed.
    """
    if not junit.is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / junit.name
    shutil.copyfile(junit, target)
    (folder / DONE_FILE).write_text(str(target))
