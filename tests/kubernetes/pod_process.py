"""A pod as a process of its own: the real entry, with ``fake_node`` in place of ``gdrcheck node``
unless ``REAL_NODE`` is set."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck.kubernetes import sonobuoy
from gdrcheck.kubernetes.node_process import NODE_COMMAND
from gdrcheck.kubernetes.pod import Pod
from gdrcheck.kubernetes.settings import read_settings
from gdrcheck.outcome import InputError
from gdrcheck.report import page

FAKE_COMMAND = (sys.executable, "-m", "tests.kubernetes.fake_node")


def main() -> int:
    try:
        settings = read_settings(
            os.environ, Path(os.environ["POD_ROOT"]), today=datetime.now(UTC).date()
        )
    except InputError as error:
        print(error)
        return 2
    command = NODE_COMMAND if os.environ.get("REAL_NODE") else FAKE_COMMAND
    folder = sonobuoy.folder_of(os.environ)
    return Pod(settings, page.write, sonobuoy_dir=folder, command=command).run()


if __name__ == "__main__":
    sys.exit(main())
