"""The options of ``gdrcheck node``. Light: the command line loads this for its help."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck node`` to ``parser``."""
    parser.add_argument("--run", type=Path, required=True, metavar="FILE", help="the run document")
    parser.add_argument(
        "--secret", type=Path, required=True, metavar="FILE", help="file with the run's secret"
    )
    parser.add_argument("--node", required=True, metavar="NAME", help="this node's name in the run")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="empty folder for the results"
    )
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", help="file of the host to lock while this runs"
    )
    parser.add_argument(
        "--present",
        type=names,
        metavar="NODE,NODE",
        help="nodes whose preflight passed (default: all nodes of the run)",
    )


def names(text: str) -> tuple[str, ...]:
    """The names in a list with commas. ArgumentTypeError if one is empty or given twice."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected names with commas between, none of them twice"
        )
    return found
