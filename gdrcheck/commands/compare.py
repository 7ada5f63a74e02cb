"""``gdrcheck compare`` and ``gdrcheck baseline``: a run against an earlier one."""

from __future__ import annotations

import argparse

from gdrcheck.commands.output import print_json, say
from gdrcheck.results import compare_side
from gdrcheck.results.compare import compare
from gdrcheck.results.compare_text import MAX_LINES, lines


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 0 when NEW is no worse than OLD, 1 when it is. InputError when they
    cannot be compared.
    """
    old, new = compare_side.read(args.old), compare_side.read(args.new)
    comparison = compare(old, new, str(args.old), str(args.new))
    if args.json:
        print_json(comparison)
    else:
        say(lines(comparison, None if args.all else MAX_LINES))
    return comparison.exit_code


def save(args: argparse.Namespace) -> int:
    """Write the baseline; 0. InputError when the run is none, or the file cannot be written."""
    baseline = compare_side.read(args.run)
    compare_side.save(baseline, args.file)
    summary = baseline.summary
    say([f"{args.file}: run {summary.run_id}, {len(summary.nodes)} nodes, {summary.verdict}"])
    return 0
