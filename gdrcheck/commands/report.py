"""``gdrcheck report``: the page of a run that was merged before."""

from __future__ import annotations

import argparse

from gdrcheck.commands.output import say
from gdrcheck.outcome import InputError
from gdrcheck.report import page


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path; returns 0, whatever the verdict of the run was.

    InputError when the folder is not that of a merged run.
    """
    if not args.run.is_dir():
        raise InputError(f"{args.run}: no such folder; expected the folder of a run after a merge")
    say([str(page.write(args.run))])
    return 0
