"""``gdrcheck facts --capture``: a tree for a bug report or a test, without names and addresses."""

from __future__ import annotations

import argparse
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gdrcheck.anonymise import Anonymiser
from gdrcheck.commands.source import facts_of, patience
from gdrcheck.facts import Facts
from gdrcheck.outcome import InputError
from gdrcheck.probes.capture import Captured, capture

KEY_BYTES = 16
# Names that many machines have, and that stand for something else in other texts.
NO_NAMES = ("localhost", "unknown", "linux", "nvidia", "mlx5", "root")
PAGE = "CAPTURED.txt"
PLURALS = {"process": "processes", "switch": "switches"}
MAX_LISTED = 20


def captured(args: argparse.Namespace) -> Iterator[str]:
    """Write the tree that ``args`` asks for; the lines that say what was done.

    InputError when the folder is not empty, or when the facts are not of a machine or a tree.
    """
    if args.source is not None:
        raise InputError("--capture reads a machine or --root; expected it without --from")
    if args.json:
        raise InputError("--capture writes a tree; expected it without --json")
    out: Path = args.capture
    _refuse_what_holds_something(out)
    facts = facts_of(args)
    anonymiser = Anonymiser(secrets.token_bytes(KEY_BYTES), host_names(facts))
    try:
        with patience("capturing"):
            out.mkdir(parents=True, exist_ok=True)
            done = capture(facts, args.root, out, anonymiser)
            page = [*_page(done, anonymiser)]
            (out / PAGE).write_text("\n".join(page) + "\n")
    except OSError as error:
        place = error.filename or out
        raise InputError(
            f"--capture {out}: {place}: {error.strerror}; what is there is not whole: remove it"
        ) from error
    yield f"captured below {out}: {done.files} files, {done.size_bytes >> 10} KiB"
    yield from (
        page[:-1] if len(page) <= MAX_LISTED else [*page[:MAX_LISTED], f"more in {out / PAGE}"]
    )
    yield "look through it before you give it away; it is read by:"
    yield f"  gdrcheck facts --root {out}"


def host_names(facts: Facts) -> list[str]:
    """The names by which texts may call the machine: with its domain and without."""
    name = facts.host.hostname
    return [one for one in (name, name.partition(".")[0]) if one.lower() not in NO_NAMES]


def _refuse_what_holds_something(out: Path) -> None:
    expected = "expected a new or an empty folder"
    try:
        if any(out.iterdir()):
            raise InputError(f"--capture {out}: is not empty; {expected}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"--capture {out}: {error.strerror}; {expected}") from error


def _page(done: Captured, anonymiser: Anonymiser) -> Iterator[str]:
    kinds = Counter(anonymiser.replaced.values())
    listed = (f"{count} {_plural(kind) if count > 1 else kind}" for kind, count in kinds.items())
    yield f"replaced, the same always by the same: {', '.join(sorted(listed)) or 'nothing'}"
    yield f"left out: {len(done.left_out) or 'nothing'}"
    for path, why in sorted(done.left_out.items()):
        yield f"  {anonymiser.free_text(path)}: {anonymiser.free_text(why)}"
    yield "not read, so not in it: all other files of the machine"


def _plural(kind: str) -> str:
    return PLURALS.get(kind, f"{kind}es" if kind.endswith("s") else f"{kind}s")
