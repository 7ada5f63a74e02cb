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
        help="folder of the run, results/RUN-ID: run.json, and nodes/NAME/ with what each node "
        "sent; the run's secret is removed from it",
    )
    parser.add_argument(
        "--states",
        metavar="FILE",
        help="JSON with the playbook's view of each node; - reads standard input; kept as "
        "RESULTS_DIR/states.json, which counts when this option is left out "
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
