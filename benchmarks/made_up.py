"""Made-up results of a run, as its nodes would have left them: any number of nodes with eight GPUs
and eight NICs each, every case that they owe, numbers that scatter, and some nodes that are bad.

python -m benchmarks.made_up FOLDER [--nodes 100] [--rounds 4] [--wide]

``--wide``: pairs as nodes tell of them in a wide run, by records of whole pairs.
Folder for folder the same for the same arguments, so that two versions can be compared on it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from benchmarks.made_up_cases import (
    SICK_RAIL,
    SICKNESSES,
    Json,
    Sickness,
    line,
    node_phase,
    pair_phase,
)
from benchmarks.made_up_wide import wide_pair_phase
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results.owed import owed_cases
from gdrcheck.results.pairs import scheduled
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.run import NodeSpec, RunSpec
from tests.results import many

NODES_A_LEAF = 32
# Of so many nodes one is bad, in one of these ways after the other.
ONE_BAD_OF = 25


def sick_nodes(names: Sequence[str]) -> dict[str, Sickness]:
    """Which nodes are bad, and how. The first node never is: it led the rendezvous."""
    chosen = names[ONE_BAD_OF // 2 :: ONE_BAD_OF]
    return {name: SICKNESSES[at % len(SICKNESSES)] for at, name in enumerate(chosen)}


def run_of(names: Sequence[str], rounds: int | Literal["all"]) -> RunSpec:
    """A run of these nodes, in leaves of equal size."""
    spec = many.run_of(names)
    nodes = tuple(
        NodeSpec(**node.model_dump() | {"leaf": f"leaf{at // NODES_A_LEAF + 1:02d}"})
        for at, node in enumerate(spec.nodes)
    )
    return spec.model_copy(update={"nodes": nodes, "rounds": rounds})


def write(
    folder: Path, count: int, rounds: int | Literal["all"] = 4, *, wide: bool = False
) -> RunSpec:
    """Write a results folder of ``count`` nodes. FileExistsError if ``folder`` has nodes already.

    ``wide``: pairs are told of by records of whole pairs.

    It holds what a merge reads: run.json, states.json and nodes/<node>/.
    """
    names = many.names(count)
    spec = run_of(names, rounds)
    sick = sick_nodes(names)
    (folder / "nodes").mkdir(parents=True)
    (folder / "run.json").write_text(spec.model_dump_json())
    (folder / "states.json").write_text(_states(names, sick).model_dump_json())
    pairs: dict[str, list[Pair]] = {name: [] for name in names}
    for pair in scheduled(spec):
        pairs[pair.initiator].append(pair)
    facts = many.fleet(count, {})
    rendezvous = _rendezvous(names, sick)
    for name in names:
        if sick.get(name) == "unreachable":
            continue
        directory = folder / "nodes" / name
        directory.mkdir()
        (directory / "facts.json").write_text(facts[name].model_dump_json())
        rendezvous.write(directory / "rendezvous.json")
        owed = [(one.id, one.classname, one.where) for one in owed_cases(spec, name, facts[name])]
        lines = [
            line("run", event="run", **_run_record(spec, name)),
            *node_phase(name, owed, sick.get(name)),
            *(wide_pair_phase if wide else pair_phase)(spec, pairs[name], sick),
        ]
        died = sick.get(name) == "died"
        (directory / "events.jsonl").write_text("".join(lines[: len(lines) // 2 if died else None]))
        if not died:
            code = 1 if any('"outcome": "failed"' in one for one in lines) else 0
            done = {"exit_code": code, "reason": "", "finished": True}
            (directory / "done.json").write_text(json.dumps(done))
    return spec


def _states(names: Sequence[str], sick: Mapping[str, Sickness]) -> SeenStates:
    seen = {
        "died": SeenState(state="timed out", reason="no result after 1800 s"),
        "unreachable": SeenState(state="unreachable", reason="ssh: connect: no route to host"),
    }
    return SeenStates(
        nodes={name: seen.get(sick.get(name, ""), SeenState(state="ok")) for name in names}
    )


def _rendezvous(names: Sequence[str], sick: Mapping[str, Sickness]) -> RendezvousResult:
    return RendezvousResult(
        leader=names[0],
        nodes={
            name: NodeState(state="absent", reason="no sign of life for 120 s")
            if sick.get(name) == "unreachable"
            else NodeState(state="ready", rails=_rails(sick.get(name)))
            for name in names
        },
    )


def _rails(sickness: Sickness | None) -> tuple[RailInfo, ...]:
    down = sickness == "port down"
    return tuple(
        RailInfo(
            id=rail,
            gpu=f"gpu{rail}",
            nic=f"mlx5_{rail}",
            blocked_by="PORT-NOT-ACTIVE" if down and rail == SICK_RAIL else None,
        )
        for rail in range(many.RAILS)
    )


def _run_record(spec: RunSpec, node: str) -> Json:
    return {
        "run_id": spec.run_id,
        "node": node,
        "gdrcheck_version": spec.gdrcheck_version,
        "image_id": spec.image_id,
        "emulated": False,
    }


def rounds_of(text: str) -> int | Literal["all"]:
    """The value of ``--rounds``. ValueError if it is neither a number nor ``all``."""
    return "all" if text == "all" else int(text)


def main() -> int:
    """Writes the folder and says what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=rounds_of, default=4)
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    write(options.folder, options.nodes, options.rounds, wide=options.wide)
    size_bytes = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.nodes} nodes, rounds {options.rounds}: {size_bytes / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
