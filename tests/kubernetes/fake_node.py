"""Stands for ``gdrcheck node``: leaves what a node leaves, without any hardware.

``FAKE_NODE`` says what becomes of it: ``healthy``, ``bad`` (its port is down), ``hangs``,
``dies``, or ``dies late`` (when all is written). ``FAKE_BAD`` names the nodes of which the others
know that their ports are down.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from gdrcheck import run
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.pairs import scheduled
from tests.node.support import profile
from tests.results import trees
from tests.results.trees import NodeTree, fill, port_down, write_run


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("run", "secret", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--present", required=True)
    parser.add_argument("--lock", type=Path)
    args = parser.parse_args()
    kind = os.environ.get("FAKE_NODE", "healthy")
    assert not any(args.out.iterdir())
    assert len(args.secret.read_text().strip()) == 64
    print(f"this is {args.node}, {kind}", flush=True)
    if kind == "hangs":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
        time.sleep(600)
    with tempfile.TemporaryDirectory() as folder:
        leave(Path(folder) / "run", run.load(args.run), args.node, args.present.split(","), kind)
        for path in (Path(folder) / "run/nodes" / args.node).iterdir():
            shutil.copy(path, args.out)
    if kind == "dies":
        (args.out / "done.json").unlink()
    if kind in ("dies", "dies late"):
        os.kill(os.getpid(), signal.SIGKILL)
    return 1 if kind == "bad" else 0


def leave(root: Path, spec: run.RunSpec, node: str, present: list[str], kind: str) -> None:
    """What ``node`` leaves, below ``root``."""
    trees.RUN_ID = spec.run_id
    write_run(root, spec)
    tree = NodeTree(root, node, image_id=spec.image_id)
    place = Where(node=node, nic="rxe0")
    if kind == "bad":
        tree.case(
            f"port_active[{node}/rxe0]", Outcome.FAILED, findings=[port_down(node)], where=place
        )
        tree.done(exit_code=1)
    else:
        tree.case(f"port_active[{node}/rxe0]", where=place)
    bad = os.environ.get("FAKE_BAD", "").split(",")
    for pair in scheduled(spec):
        if pair.initiator != node or pair.responder not in present:
            continue
        spoiled = next((end for end in pair if end in bad), None)
        if spoiled is None:
            tree.both_ways(pair.responder, promises=profile())
            continue
        for source, sink in (pair, pair[::-1]):
            tree.pair(
                f"{source}/rxe0",
                f"{sink}/rxe0",
                Outcome.BLOCKED,
                blocked_by=f"port_active[{spoiled}/rxe0]",
            )
    tree.rendezvous(
        present,
        ("rxe0",),
        **{one.name: "absent" for one in spec.nodes if one.name not in present},
    )
    fill(root)


if __name__ == "__main__":
    sys.exit(main())
