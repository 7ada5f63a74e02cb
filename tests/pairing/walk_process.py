"""Walks as one node in a process of its own, which tests can kill: DIRECTORY NODE."""

from __future__ import annotations

import sys
from pathlib import Path

from gdrcheck import run
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import PairWalk
from tests.pairing.fleet import SMALL
from tests.pairing.support import SECRET, Faults


def main(directory: Path, node: str) -> None:
    with PairWalk(
        run.load(directory / "run.json"),
        node,
        SECRET,
        RendezvousResult.load(directory / "rendezvous.json"),
        directory / node,
        plan=lambda _: SMALL,
        command=Faults(directory).command,
    ) as walk:
        walk.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
