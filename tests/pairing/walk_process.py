"""Walks as one node in a process of its own, which tests can kill: DIRECTORY NODE."""

from __future__ import annotations

import sys
from pathlib import Path

from gdrcheck import run
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import PairWalk
from tests.pairing.support import SECRET, Faults


def main(directory: Path, node: str) -> None:
    spec = run.load(directory / "run.json")
    result = RendezvousResult.load(directory / "rendezvous.json")
    command = Faults(directory).command
    with PairWalk(spec, node, SECRET, result, directory / node, command=command) as walk:
        walk.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
