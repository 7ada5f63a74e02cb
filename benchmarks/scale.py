"""How long a merge takes, verdict and page included, and how much memory: of made-up runs.

python -m benchmarks.scale [--nodes 10 100 1000] [--rounds 4] [--wide] [--repeat 3] [--folder DIR]

Bars: 60 s and 1.5 GiB whatever the size, and per node no more than twice the smallest run's time;
per case with ``--wide``, which tells of pairs as nodes do in a wide run: with all rounds a node has
the more of them the more nodes there are.
Each size is merged several times: times are the medians, memory is the most. A machine that has
other work shows longer times than CPU seconds tell: so both are here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from benchmarks import made_up
from gdrcheck.results.summary import Summary

BAR_S = 60.0
WATCH_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BAR_BYTES = 3 << 29
# A merge of a few nodes is mostly the start of the interpreter; linear means: not by the square.
MOST_TIMES_PER_NODE = 2.0
WRITTEN = ("junit.xml", "data.json.gz", "report.html", "summary.json")


@dataclass(frozen=True, slots=True)
class Merged:
    """One merge. ``cpu_s`` is of all its processes together, and so is ``most_bytes``, the largest
    resident size: what they share is in it several times.
    """

    nodes: int
    cases: int
    verdict: str
    wall_s: float
    cpu_s: float
    most_bytes: int
    sizes_bytes: dict[str, int]

    def text(self) -> str:
        """One line."""
        sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in self.sizes_bytes.items())
        return (
            f"{self.nodes} nodes, {self.cases} cases: {self.wall_s:.1f} s, CPU {self.cpu_s:.1f} s "
            f"({self.cpu_s / self.cases * 1e6:.3g} us a case), "
            f"{self.most_bytes / (1 << 20):.0f} MiB ({self.most_bytes / self.cases:.0f} bytes a "
            f"case), {self.verdict}; {sizes}"
        )


def merge(folder: Path, nodes: int) -> Merged:
    """Merge what is in ``folder`` in processes of its own. RuntimeError if there is no verdict."""
    command = [sys.executable, "-m", "gdrcheck", "merge", str(folder)]
    start_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = _Memory(process.pid)
    with seen:
        _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - start_s
    process.returncode = os.waitstatus_to_exitcode(status)
    summary = folder / "summary.json"
    if process.returncode not in (0, 1, 2) or not summary.exists():
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    result = Summary.model_validate_json(summary.read_bytes())
    return Merged(
        nodes=nodes,
        cases=sum(result.counts.values()),
        verdict=str(result.verdict),
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        most_bytes=max(seen.most_bytes, used.ru_maxrss << 10),
        sizes_bytes={
            name: (folder / name).stat().st_size for name in WRITTEN if (folder / name).exists()
        },
    )


class _Memory:
    """Watches what a process and its children hold together, while the block lasts."""

    def __init__(self, pid: int) -> None:
        self.most_bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(WATCH_S):
            self.most_bytes = max(self.most_bytes, resident_bytes(self._pid))


def resident_bytes(pid: int) -> int:
    """What the process and all below it hold; 0 for those that have ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * PAGE_BYTES + sum(resident_bytes(int(child)) for child in children)


def middle(runs: Sequence[Merged]) -> Merged:
    """The merges of one run as one: the medians of the times, and the most memory."""
    return replace(
        runs[0],
        wall_s=median(run.wall_s for run in runs),
        cpu_s=median(run.cpu_s for run in runs),
        most_bytes=max(run.most_bytes for run in runs),
    )


def missed(runs: Sequence[Merged], *, wide: bool = False) -> list[str]:
    """The bars that these runs, smallest first, miss, in words."""
    found = []
    for run in runs:
        if run.wall_s > BAR_S:
            found.append(f"{run.nodes} nodes took {run.wall_s:.0f} s, more than {BAR_S:.0f}")
        if run.most_bytes > BAR_BYTES:
            found.append(f"{run.nodes} nodes took {run.most_bytes >> 20} MiB")
    first, last = runs[0], runs[-1]
    what, few, many = "node", first.nodes, last.nodes
    if wide:
        what, few, many = "case", first.cases, last.cases
    times = (last.cpu_s / many) / (first.cpu_s / few)
    if times > MOST_TIMES_PER_NODE:
        found.append(f"a {what} of {last.nodes} costs {times:.1f} times one of {first.nodes}")
    return found


def measure(
    folder: Path, nodes: int, rounds: int | Literal["all"], repeat: int, *, wide: bool = False
) -> Merged:
    """Make up a run of ``nodes`` below ``folder``, unless it is there, and merge it so often."""
    run = folder / f"nodes{nodes}-rounds{rounds}{'-wide' if wide else ''}"
    if not run.exists():
        made_up.write(run, nodes, rounds, wide=wide)
    return middle([merge(run, nodes) for _ in range(repeat)])


def main() -> int:
    """Prints a line a size; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=made_up.rounds_of, default=4)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to make up the runs, and keep them")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as temporary:
        for nodes in sorted(options.nodes):
            folder = options.folder or Path(temporary)
            runs.append(measure(folder, nodes, options.rounds, options.repeat, wide=options.wide))
            print(runs[-1].text(), flush=True)
    problems = missed(runs, wide=options.wide)
    for problem in problems:
        print(f"missed: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
