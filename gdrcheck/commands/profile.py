"""``gdrcheck profile``: checks a profile, prints its schema, writes a first one from facts."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck import __version__
from gdrcheck.commands.judging import Judged, judge
from gdrcheck.commands.output import say
from gdrcheck.draft import Draft, draft
from gdrcheck.facts import Facts
from gdrcheck.facts_file import load_facts
from gdrcheck.outcome import InputError
from gdrcheck.profile_file import load_profile, parse_profile
from gdrcheck.results.plain import one_line
from gdrcheck.schemas import schema_text
from gdrcheck.show.profile_text import as_text
from gdrcheck.show.words import wrapped


def run(args: argparse.Namespace) -> int:
    """Do what ``args`` asks for; 0. Ends by the parser's error unless that is one thing."""
    if (args.source is None) == (args.action is None):
        args.refuse("expected one of: check FILE, schema, --from FACTS")
    if args.source is not None:
        _write(args.source)
    elif args.action == "check":
        _check(args.file, as_json=args.json)
    else:
        print(schema_text("profile"), end="")
    return 0


def _check(file: Path, *, as_json: bool) -> None:
    profile = load_profile(file, datetime.now(UTC).date())
    if as_json:
        print(profile.model_dump_json(indent=2))
        return
    print(f"{file}: valid")
    for key in profile.missing_core():
        print(f"{file}: {key} is left out: the verdict will be INCOMPLETE at best")


def _write(source: Path) -> None:
    """Print a first profile of the node whose facts are in the file ``source``.

    InputError when the facts lack a part of the mandatory core, or when rules find a fault.
    """
    facts = load_facts(source)
    try:
        found = draft(facts)
    except InputError as error:
        raise InputError(
            *(f"{source}: no profile can be made: {one_line(text)}" for text in error.problems)
        ) from error
    text = as_text(found.profile, _head(facts))
    # What is written is what will be read: the file's own checks have the last word.
    profile = parse_profile(text, f"profile from {source}", datetime.now(UTC).date())
    judged = judge(profile, facts)
    if judged.findings:
        raise InputError(
            f"{source}: no profile is made of a node with findings; repair it first:",
            *(f"  {one_line(finding.text())}" for finding in judged.findings),
        )
    print(text, end="")
    sys.stdout.flush()
    say(_remarks(found, judged), sys.stderr)


def _head(facts: Facts) -> list[str]:
    node = one_line(facts.node).encode("ascii", "backslashreplace").decode()
    head = [
        f"A first profile, written by gdrcheck {__version__} from the facts of node {node}. It "
        "promises what that node is, not what was bought: read every line, and correct it where "
        "the two differ.",
        "The node should have been judged without findings first: a run of it alone, with this "
        "profile. Here only its facts were judged; no memory was registered, nothing was sent.",
    ]
    if facts.emulated:
        head.insert(0, "EMULATED: the facts are not those of real hardware.")
    return head


def _remarks(found: Draft, judged: Judged) -> list[str]:
    """What is not in the profile, by reason, and what could not be judged."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for what, why in found.left_out:
        by_reason[why].append(what)
    lines = ["left out of the profile:"] if by_reason else []
    for why, whats in by_reason.items():
        lines += wrapped(f"{', '.join(whats)}: {why}")
    lines += ["could not be judged:"] if judged.errors else []
    return [*lines, *(line for error in judged.errors for line in wrapped(error))]
