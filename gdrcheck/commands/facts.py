"""``gdrcheck facts``: what a machine is, as a tree or as facts.json."""

from __future__ import annotations

import argparse
import time

from gdrcheck.commands.output import print_json, say
from gdrcheck.commands.source import facts_of
from gdrcheck.results.plain import in_lines
from gdrcheck.show import facts_tree


def run(args: argparse.Namespace) -> int:
    """Print the facts; 0. InputError when a file or folder that was named holds none."""
    facts = facts_of(args)
    if args.json:
        print_json(facts)
    else:
        say(facts_tree.as_lines(in_lines(facts), time.time()))
    return 0
