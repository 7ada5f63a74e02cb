"""A pytest plugin by which the real checks read another root than that of the live machine.

Sets it when it is imported: the checks take it over when they are.
"""

from __future__ import annotations

import os
from pathlib import Path

from gdrcheck import probes

probes.LIVE_ROOT = Path(os.environ["GDRCHECK_TEST_ROOT"])
