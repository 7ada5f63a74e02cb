"""How long the page of a large run takes to be made and to open, and how large it is.

python -m benchmarks.page [--nodes 1000] [--rails 8] [--rounds 4 all] [--modes gpu-gpu] [--repeat 5]

Rounds ``all``: each node with each other one. Opening is from the navigation until the first heat
map is drawn, in headless Chromium, from file://. Bars: 25 MB, and 3 s to open (the median).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.made_up import rounds_of
from gdrcheck.report import page
from gdrcheck.transfer import MODES
from tests.report import made
from tests.report.browser import Browser, Tab, browser

BAR_BYTES, BAR_S = 25_000_000, 3.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One page. ``render_s`` is processor time; ``open_s`` is of each time that it was opened."""

    title: str
    render_s: float
    size_bytes: int
    open_s: tuple[float, ...]

    @property
    def missed(self) -> bool:
        """Whether it is over a bar."""
        return self.size_bytes > BAR_BYTES or statistics.median(self.open_s) > BAR_S

    def text(self) -> str:
        """One line."""
        median, most = statistics.median(self.open_s), max(self.open_s)
        return (
            f"{self.title}: made in {self.render_s:.1f} s of CPU, {self.size_bytes / 1e6:.1f} MB, "
            f"opened in {median:.2f} s (median of {len(self.open_s)}, longest {most:.2f} s)"
        )


def measure(
    chromium: Browser, folder: Path, options: argparse.Namespace, rounds: int | Literal["all"]
) -> Measured:
    """Make one page in ``folder`` and open it."""
    summary, data = made.run(
        options.nodes, options.rails, rounds, slow=options.nodes // 2, modes=options.modes
    )
    path = folder / f"rounds-{rounds}.html"
    start_s = time.process_time()
    path.write_text(page.render(summary, data), encoding="utf-8")
    render_s = time.process_time() - start_s
    del summary, data
    return Measured(
        title=f"{options.nodes} nodes, {options.rails} rails, rounds {rounds}",
        render_s=render_s,
        size_bytes=path.stat().st_size,
        open_s=tuple(_opened_s(chromium, path) for _ in range(options.repeat)),
    )


def _opened_s(chromium: Browser, path: Path) -> float:
    tab = Tab(chromium)
    tab.open(path)
    tab.until("performance.getEntriesByName('first map').length")
    taken_ms = tab.js("performance.getEntriesByName('first map')[0].startTime")
    tab.close()
    return float(taken_ms) / 1000


def main() -> int:
    """Prints a line a page; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--rounds", type=rounds_of, nargs="+", default=[4, "all"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["gpu-gpu"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to leave the pages")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as temporary, browser() as chromium:
        for rounds in options.rounds:
            found = measure(chromium, options.folder or Path(temporary), options, rounds)
            print(found.text(), flush=True)
            missed |= found.missed
    most_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(f"most memory, the made-up data included: {most_bytes >> 20} MiB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
