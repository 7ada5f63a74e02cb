"""The commands about results that are there, with their options. Light: every help needs this."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

COMPARE_EXAMPLES = """\
examples:
  gdrcheck compare results/20260102T030405Z-0a1b2c results/latest
  gdrcheck baseline results/latest accepted.json.gz
  gdrcheck compare accepted.json.gz results/latest     against a run that was saved
  gdrcheck compare --json accepted.json.gz results/latest > comparison.json

exit codes: 0 NEW is no worse than OLD (it may fail as OLD did), 1 it is worse,
2 the two cannot be compared, or one of them is not readable
what counts as worse, and when a number is slower: docs/compare.md
"""
BASELINE_EXAMPLES = """\
examples:
  gdrcheck baseline results/latest accepted.json.gz
  gdrcheck compare accepted.json.gz results/latest

A baseline that is there is replaced, any other file is not.
exit codes: 0 saved, whatever the verdict of the run; 2 RUN is no run, or FILE cannot be written
"""
LISTS_EXAMPLES = """\
files, all written anew each time; none of them is ever run by gdrcheck:
  good.txt     names of nodes of which everything was measured and nothing is open
  bad.txt      name, tab, reasons: the evidence names this node
  unknown.txt  name, tab, reasons: neither; for example no result, or not measured
  drain.sh     scontrol update NodeName=... State=DRAIN for each bad node (Slurm)
  cordon.sh    kubectl cordon for each bad node (Kubernetes)

examples:
  gdrcheck lists results/latest                  into results/latest/lists/
  gdrcheck lists results/latest --out lists
  less lists/drain.sh                            read it, then
  sh lists/drain.sh

exit codes: 0 written, whatever the verdict of the run; 2 RUN is no run, or a file that is not
from here is in the way
"""
REPORT_EXAMPLES = """\
examples:
  gdrcheck report results/latest

Made of summary.json and data.json.gz, which a merge wrote; nothing is judged again.
exit codes: 0 written, whatever the verdict of the run; 2 RUN is no run that was merged
"""
RUN_HELP = "folder of the run, results/RUN-ID"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line. ``add`` adds its options to its parser."""

    name: str
    text: str
    add: Callable[[argparse.ArgumentParser], None]
    handler: Callable[[argparse.Namespace], int]


def _add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck compare`` to ``parser``."""
    _examples(parser, COMPARE_EXAMPLES)
    either = "folder of the run, or a file that gdrcheck baseline wrote"
    parser.add_argument("old", type=Path, metavar="OLD", help=f"the run to compare with: {either}")
    parser.add_argument("new", type=Path, metavar="NEW", help=f"the run in question: {either}")
    parser.add_argument("--all", action="store_true", help="every case and number, not one screen")
    parser.add_argument(
        "--json", action="store_true", help="as JSON; schema: gdrcheck schema comparison"
    )


def _add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck baseline`` to ``parser``."""
    _examples(parser, BASELINE_EXAMPLES)
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="file to write, for example accepted.json.gz"
    )


def _add_lists(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck lists`` to ``parser``."""
    _examples(parser, LISTS_EXAMPLES)
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the files (default: RUN/lists)"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck report`` to ``parser``."""
    _examples(parser, REPORT_EXAMPLES)
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)


def _examples(parser: argparse.ArgumentParser, text: str) -> None:
    parser.epilog = text
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def _compare(args: argparse.Namespace) -> int:
    from gdrcheck.commands import compare

    return compare.run(args)


def _baseline(args: argparse.Namespace) -> int:
    from gdrcheck.commands import compare

    return compare.save(args)


def _lists(args: argparse.Namespace) -> int:
    from gdrcheck.commands import lists

    return lists.run(args)


def _report(args: argparse.Namespace) -> int:
    from gdrcheck.commands import report

    return report.run(args)


COMMANDS = (
    Command(
        "report",
        "write the page of a run that was merged, report.html, into its folder",
        _add_report,
        _report,
    ),
    Command(
        "compare",
        "compare a run with an earlier one: what fails now, is fixed, or got slower",
        _add_compare,
        _compare,
    ),
    Command(
        "baseline",
        "save a run as one file that later runs are compared with",
        _add_baseline,
        _baseline,
    ),
    Command(
        "lists",
        "write the good and the bad nodes of a run, and scripts to drain the bad ones",
        _add_lists,
        _lists,
    ),
)
