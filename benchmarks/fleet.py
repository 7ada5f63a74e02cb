"""How long it takes to compare a fleet: the facts of made-up nodes are read from their files, and
the cases about what differs between nodes are made of them.

python -m benchmarks.fleet [--nodes 1000]        bar: 10 s, and the five odd nodes, only they
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from gdrcheck.outcome import Outcome
from gdrcheck.results.differences import all_differences
from gdrcheck.results.incoming import FACTS_FILE, read_node
from tests.results import many

BAR_S = 10.0


def write(folder: Path, count: int) -> int:
    """Writes the facts of ``count`` nodes as they arrive in a run; returns the bytes of one."""
    facts = many.fleet(count, {name: change for name, (change, _) in many.FIVE.items()})
    for name, one in facts.items():
        (folder / name).mkdir()
        (folder / name / FACTS_FILE).write_text(one.model_dump_json())
    return (folder / next(iter(facts)) / FACTS_FILE).stat().st_size


def main() -> int:
    """Prints the times; 1 when they miss the bar, or other nodes are named than the odd ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    count = parser.parse_args().nodes
    spec = many.run_of(many.names(count))
    with tempfile.TemporaryDirectory() as name:
        size_bytes = write(Path(name), count)
        start_s = time.monotonic()
        reports = {
            node.name: read_node(Path(name) / node.name, node.name, spec.run_id, "")
            for node in spec.nodes
        }
        read_s = time.monotonic() - start_s
        cases = all_differences(spec, reports)
        whole_s = time.monotonic() - start_s
    findings = [one for case in cases if case.outcome is Outcome.FAILED for one in case.findings]
    found = sorted(finding.where.node for finding in findings)
    odd = sorted(name for name in many.FIVE if name in reports)
    print(f"{count} nodes with 8 GPUs and 8 NICs, {size_bytes} bytes of facts each")
    print(f"read {read_s:.1f} s, compared {whole_s - read_s:.1f} s, together {whole_s:.1f} s")
    print(f"odd: {', '.join(found)}")
    return int(whole_s > BAR_S or found != odd)


if __name__ == "__main__":
    sys.exit(main())
