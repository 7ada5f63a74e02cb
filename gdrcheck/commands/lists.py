"""``gdrcheck lists``: the good and the bad nodes of a run, for schedulers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from gdrcheck.commands.output import say
from gdrcheck.outcome import InputError
from gdrcheck.results import compare_side, scheduler_files
from gdrcheck.results.scheduler_lists import sort_nodes

MAX_SHOWN = 10


def run(args: argparse.Namespace) -> int:
    """Write the files and say what they hold; 0. InputError when the run is none, or measured
    nothing on purpose.
    """
    if not args.run.is_dir():
        what = "a file, and a baseline has no lists" if args.run.exists() else "no such folder"
        raise InputError(f"{args.run}: {what}; expected a folder of results, results/RUN-ID")
    side = compare_side.read(args.run)
    if side.summary.check_mode:
        raise InputError(f"{args.run}: check mode, nothing was measured: no node is good or bad")
    found = sort_nodes(side.summary, side.data)
    folder = args.out if args.out is not None else args.run / "lists"
    paths = scheduler_files.write(folder, scheduler_files.contents(side.summary, found))
    say(
        [
            f"run {side.summary.run_id}, {side.summary.verdict}: {len(found.good)} good, "
            f"{len(found.bad)} bad, {len(found.unknown)} neither",
            *_told("bad", found.bad),
            *_told("neither", found.unknown),
            *map(str, paths),
            *([scheduler_files.undecided_line(found)] if found.unknown else []),
            "the scripts are for you to read and run; gdrcheck runs neither",
        ]
    )
    return 0


def _told(word: str, nodes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The first nodes, each with the first reason; the files have all."""
    for name, why in islice(nodes.items(), MAX_SHOWN):
        more = f", and {len(why) - 1} more reasons" if len(why) > 1 else ""
        yield f"{word}: {name}: {why[0]}{more}"
    if len(nodes) > MAX_SHOWN:
        yield f"{word}: and {len(nodes) - MAX_SHOWN} more nodes"
