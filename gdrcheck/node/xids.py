"""The watcher of XIDs, a process beside the phases of a node for as long as they run."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdrcheck.facts import Facts, Nvml
from gdrcheck.node.process import PACKAGE_ROOT, CheckProcess
from gdrcheck.results.incoming import XIDS_FILE

LOG = logging.getLogger(__name__)
MODULE = "gdrcheck.probes.xid_watch"
LOG_FILE = "xid_watch.log"
# Without persistence mode the driver starts each GPU for the one who asks: some seconds a GPU.
START_S = 30.0
LOOK_AGAIN_S = 0.05


@contextmanager
def watching_xids(facts: Facts | None, out: Path, module: str = MODULE) -> Iterator[None]:
    """XIDs go to ``xids.jsonl`` in ``out`` until the end of the block, if NVML knows of GPUs.

    The block begins when they are watched, so that none of it is missed, or that has failed.
    A watcher that does not start or does not live on says why in that file or in its log; the
    checks that read the file find it out.
    """
    if facts is None or not isinstance(facts.nvml, Nvml) or not facts.nvml.gpus:
        yield
        return
    argv = (sys.executable, "-m", module, str(out / XIDS_FILE))
    with CheckProcess(argv, out / LOG_FILE, cwd=PACKAGE_ROOT) as watcher:
        _await_first_line(out / XIDS_FILE, watcher)
        yield
        if (returncode := watcher.poll()) is not None:
            LOG.warning("the watcher of XIDs ended with %d, before the run", returncode)
        if stuck := watcher.end():
            LOG.warning("the watcher of XIDs: %s", stuck)


def _await_first_line(path: Path, watcher: CheckProcess) -> None:
    """Returns once the watcher has said what it watches, or why not, or has ended."""
    deadline = time.monotonic() + START_S
    while watcher.poll() is None and not (path.exists() and path.stat().st_size):
        if time.monotonic() > deadline:
            LOG.warning("the watcher of XIDs did not begin within %g s", START_S)
            return
        time.sleep(LOOK_AGAIN_S)
