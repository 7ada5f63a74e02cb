"""``gdrcheck facts``: what a machine is, as lines, as facts.json, or as a captured tree."""

from __future__ import annotations

import argparse
import time

from gdrcheck.commands import capture
from gdrcheck.commands.output import print_json, say
from gdrcheck.commands.source import facts_of
from gdrcheck.results.plain import in_lines
from gdrcheck.show import facts_tree


def run(args: argparse.Namespace) -> int:
    """Print or capture the facts; 0. InputError when what was named holds none or is no good."""
    if args.capture is not None:
        say(capture.captured(args))
        return 0
    facts = facts_of(args)
    if args.json:
        print_json(facts)
    else:
        say(facts_tree.as_lines(in_lines(facts), time.time()))
    return 0
