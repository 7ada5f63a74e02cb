"""The options of ``facts``, ``topo`` and ``profile``. Light: every help text needs this."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from gdrcheck.facts.base import SLOT_PATTERN

FACTS_EXAMPLES = """\
examples:
  gdrcheck facts                         what this machine is, with or without GPU, NIC, root
  gdrcheck facts --json > facts.json     the same as data; schema: gdrcheck schema facts
  gdrcheck facts --from facts.json       facts that were collected elsewhere, or in a run
  ssh node1 gdrcheck facts --json | gdrcheck facts --from -
  gdrcheck facts --capture captured      a tree for a bug report, names and addresses replaced

What only root can read of a host (PCIe settings, kernel log, files of modules, systemd units) is
left in a folder, and found there until the next boot, by (in a checkout)
  sudo python3 -m gdrcheck.host_collector --out /run/gdrcheck/host
"""
TOPO_EXAMPLES = """\
examples:
  gdrcheck topo                                             rails as the topology suggests them
  gdrcheck topo --profile inventory/profiles/h200_ib.yml    rails as the profile promises them
  gdrcheck topo --from results/latest/nodes/node1/facts.json
  gdrcheck topo --also 0000:41:00.0                         with a function that is neither
"""
PROFILE_EXAMPLES = """\
examples:
  gdrcheck profile --from facts.json > inventory/profiles/h200_ib.yml
  gdrcheck profile --from facts.json --without mlx5_2 mlx5_8     these serve no rail
  gdrcheck profile check inventory/profiles/h200_ib.yml
  gdrcheck profile schema
"""


def add_facts(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck facts`` to ``parser``."""
    _examples(parser, FACTS_EXAMPLES)
    _add_source(parser)
    parser.add_argument(
        "--node", metavar="NAME", help="name of the node in the facts (default: its host name)"
    )
    parser.add_argument("--json", action="store_true", help="print facts.json")
    parser.add_argument(
        "--capture",
        type=Path,
        metavar="DIR",
        help="write all that was read to DIR, names and addresses replaced, for a bug report or a "
        "test; gdrcheck facts --root DIR reads it",
    )


def add_topo(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck topo`` to ``parser``."""
    _examples(parser, TOPO_EXAMPLES)
    _add_source(parser)
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="the profile that says what the rails are"
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON; schema: gdrcheck schema topology"
    )
    parser.set_defaults(node=None)


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of ``gdrcheck profile`` to ``parser``."""
    _examples(parser, PROFILE_EXAMPLES)
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FACTS",
        help="write a first profile from facts.json (-: standard input) of a node that was judged "
        "without findings",
    )
    parser.add_argument(
        "--without",
        action="extend",
        nargs="+",
        default=[],
        metavar="NIC",
        help="with --from: RDMA devices that serve no rail, for example storage ports",
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    parser.set_defaults(refuse=parser.error)
    text = "say all that is wrong in a profile"
    check = actions.add_parser("check", help=text, description=text)
    check.add_argument("file", type=Path, metavar="FILE", help="for example profiles/h200_ib.yml")
    check.add_argument("--json", action="store_true", help="print the profile, defaults filled in")
    text = "print the profile's JSON Schema"
    actions.add_parser("schema", help=text, description=text)


def _examples(parser: argparse.ArgumentParser, text: str) -> None:
    parser.epilog = text
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def _add_source(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="a facts.json (-: standard input), not this machine",
    )
    source.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="read a captured tree below DIR (default: this machine)",
    )
    parser.add_argument(
        "--also",
        type=slot,
        action="extend",
        nargs="+",
        default=[],
        metavar="SLOT",
        help="further PCI functions, for example 0000:41:00.0 or 41:00.0",
    )


def slot(text: str) -> str:
    """The PCI slot in ``text`` as sysfs writes it. ArgumentTypeError if it is none."""
    full = text.lower() if text.count(":") == 2 else f"0000:{text.lower()}"
    if not re.fullmatch(SLOT_PATTERN, full):
        raise argparse.ArgumentTypeError(f"{text!r} is no PCI slot such as 0000:41:00.0")
    return full
