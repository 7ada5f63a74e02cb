"""The options of ``gdrcheck merge``. Light: the command line loads this for its help."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck merge`` to ``parser``."""
    parser.add_argument(
        "results_dir",
        type=Path,
        metavar="RESULTS_DIR",
        help="folder of the run: run.json, and nodes/NAME/ with what each node sent",
    )
    parser.add_argument(
        "--states",
        metavar="FILE",
        help="JSON with the playbook's view of each node; - reads standard input "
        "(a node that it does not name did its part if it left results)",
    )
    parser.add_argument(
        "--extra-junit",
        type=Path,
        metavar="DIR",
        help="folder with JUnit files of other tools, taken in as suites of their own",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON instead of text"
    )
