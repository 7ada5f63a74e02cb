"""Where the facts of a command come from: a file, this machine, or a captured tree."""

from __future__ import annotations

import argparse
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdrcheck import probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.facts_file import load_facts
from gdrcheck.outcome import InputError

QUIET_S = 2.0
UNNAMED = "this machine"


def facts_of(args: argparse.Namespace) -> Facts:
    """The facts that ``args`` asks for. InputError when the file or folder holds none."""
    if args.source is not None:
        given = [f"--{name}" for name in ("also", "node") if getattr(args, name)]
        if given:
            raise InputError(f"{given[0]} says what to read; expected it without --from")
        return load_facts(args.source)
    _refuse_what_is_no_tree(args.root)
    with patience("reading this machine"):
        facts = probes.collect(args.node or UNNAMED, args.root, args.also)
    if args.node is None:
        facts = facts.model_copy(update={"node": facts.host.hostname})
    _refuse_what_is_not_there(facts, args)
    return facts


def _refuse_what_is_no_tree(root: Path) -> None:
    expected = "expected / or the folder of a captured tree"
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except OSError as error:
        raise InputError(f"--root {root}: {error.strerror}; {expected}") from error
    if not is_folder:
        raise InputError(f"--root {root}: is no folder; {expected}")
    if not (root / "sys").is_dir():
        raise InputError(f"--root {root}: has no folder sys; {expected}")


def _refuse_what_is_not_there(facts: Facts, args: argparse.Namespace) -> None:
    """InputError for slots that the user named and that the machine does not have."""
    if isinstance(facts.pci, Unreadable):
        return
    absent = [slot for slot in args.also if facts.pci.function(slot) is None]
    if absent:
        raise InputError(*(f"--also {slot}: no such PCI function; see lspci -D" for slot in absent))


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Says on standard error that ``what`` goes on, if it takes long."""
    timer = threading.Timer(QUIET_S, print, (f"{what} ...",), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
