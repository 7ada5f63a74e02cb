"""Stands in for the watcher of XIDs: says its process id, and lives until it is ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
