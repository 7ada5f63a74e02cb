"""``gdrcheck profile``: checks a profile, prints its schema, writes a first one from facts."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck import __version__
from gdrcheck.commands.judging import Judged, judge
from gdrcheck.commands.output import say
from gdrcheck.draft import Draft, draft
from gdrcheck.facts import Facts, GpuHealth, Nvml, Unreadable
from gdrcheck.facts_file import load_facts, place_of
from gdrcheck.outcome import InputError
from gdrcheck.profile_file import load_profile, parse_profile
from gdrcheck.proposal import Left
from gdrcheck.results.plain import one_line
from gdrcheck.schemas import schema_text
from gdrcheck.show import notices
from gdrcheck.show.profile_text import as_text
from gdrcheck.show.words import by_place, wrapped

# The collector's topic, see host_collector/kernel_log.py.
XID = "xid"
SHOWN_XIDS = 5
REGISTRATION_LEFT_OPEN = (
    "Left open, since facts do not tell what was bought: how GPU memory must register with a NIC. "
    "As long as nothing is said that is `registration: any`: one of dma-buf and peermem must work. "
    "Else write `registration: dmabuf`, `peermem` or `both`."
)


def run(args: argparse.Namespace) -> int:
    """Do what ``args`` asks for; 0. Ends by the parser's error unless that is one thing."""
    if (args.source is None) == (args.action is None):
        args.refuse("expected one of: check FILE, schema, --from FACTS")
    if args.source is not None:
        _write(args.source, args.without)
    elif args.without:
        args.refuse("--without goes with --from FACTS")
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


def _write(source: Path, without: Sequence[str]) -> None:
    """Print a first profile of the node whose facts are in the file ``source``.

    InputError when the facts lack a part of the mandatory core, when a fault keeps a NIC from the
    rail that it belongs to, or when rules find a fault.
    """
    facts, place = load_facts(source), place_of(source)
    try:
        found = draft(facts, without)
    except InputError as error:
        raise InputError(
            *(f"{place}: no profile can be made: {one_line(text)}" for text in error.problems)
        ) from error
    text = as_text(found.profile, _head(facts, found))
    # What is written is what will be read: the file's own checks have the last word.
    profile = parse_profile(text, f"profile from {place}", datetime.now(UTC).date())
    judged = judge(profile, facts)
    if judged.findings:
        raise InputError(
            f"{place}: no profile is made of a node with findings; repair it first:",
            *(f"  {one_line(finding.text())}" for finding in judged.findings),
        )
    print(text, end="")
    sys.stdout.flush()
    say(_remarks(facts, found, judged), sys.stderr)


def _head(facts: Facts, found: Draft) -> list[str]:
    head = [
        *notices.of_devices(found.devices, emulated=facts.emulated),
        f"A first profile, written by gdrcheck {__version__} from the facts of node {facts.node}. "
        "It promises what that node is, not what was bought: read every line, and correct it where "
        "the two differ.",
        "The node should have been judged without findings first: a run of it alone, with this "
        "profile. Here only its facts were judged; no memory was registered, nothing was sent.",
    ]
    if found.profile.gpus is not None and found.profile.gpus.count:
        head.append(REGISTRATION_LEFT_OPEN)
    paragraphs = [_ascii(text) for text in head]
    if found.no_rails:
        title = "NICs that serve no rail here, and GPUs that have none:"
        paragraphs.append("\n".join([title, *map(_ascii, _by_reason(found.no_rails))]))
    return paragraphs


def _ascii(text: str) -> str:
    return one_line(text).encode("ascii", "backslashreplace").decode()


def _by_reason(left_out: Iterable[Left]) -> list[str]:
    """A sentence for each reason, with all that was left out for it."""
    whats: defaultdict[str, list[str]] = defaultdict(list)
    for what, why in left_out:
        whats[why].append(what)
    return [f"{', '.join(names)}: {why}" for why, names in whats.items()]


def _remarks(facts: Facts, found: Draft, judged: Judged) -> list[str]:
    """What is not in the profile, by reason, what was not judged, and what the GPUs went through.

    Only a fatal Xid of the kernel log breaks a rule: many come from an application's own fault.
    """
    left_out = _by_reason((*found.no_rails, *found.left_out))
    log = () if isinstance(facts.host.kernel_log, Unreadable) else facts.host.kernel_log
    xids = [line.text for line in log if line.topic == XID]
    parts = {
        "left out of the profile:": left_out,
        "power limits below what the GPUs are made for, and promised so. Are they meant?": (
            _limited(facts)
        ),
        "could not be judged:": by_place(judged.errors),
        f"Xid lines in the kernel log: {len(xids)}. Is this node one to take as the model?": [
            *xids[-SHOWN_XIDS:]
        ],
    }
    return [
        line
        for title, texts in parts.items()
        if texts
        for line in (title, *(one for text in texts for one in wrapped(text)))
    ]


def _limited(facts: Facts) -> list[str]:
    """The GPUs whose power limit is below their default one."""
    gpus = facts.nvml.gpus if isinstance(facts.nvml, Nvml) else ()
    powers = [(gpu.slot, gpu.health.power) for gpu in gpus if isinstance(gpu.health, GpuHealth)]
    return [
        f"{slot}: {power.limit_w:g} of {power.default_w:g} W"
        for slot, power in powers
        if isinstance(power.limit_w, float)
        and isinstance(power.default_w, float)
        and power.limit_w < power.default_w
    ]
