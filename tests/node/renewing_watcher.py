"""Stands in for the watcher of XIDs: watches the one GPU, and gives signs of life until its end."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck.xids import WatchBegun, written
from tests import facts as builders

path = Path(sys.argv[1])
path.write_text(written(WatchBegun(time=datetime.now(UTC), watched=(builders.GPU_SLOT,))))
while True:
    time.sleep(0.05)
    os.utime(path)
