"""``python3 -m gdrcheck.host_collector --out DIR``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .collector import HOST_FILE, collect
from .neighbours import WAYS
from .reading import write
from .seen_from import enter

FAILURE_FILE = "failure.txt"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. 0, also when values could not be read; 2 when nothing could be written."""
    options = parse(arguments)
    out = options.out
    try:
        if options.mounts_of is not None:
            out = enter(options.mounts_of, out)
        values = collect(out, options.root, options.module, neighbours=options.neighbours)
    except OSError as error:
        place = options.out if error.filename in (None, str(out)) else error.filename
        if options.mounts_of is not None:
            return leave_reason(out, f"{place}: {error.strerror}")
        print(
            f"--out: {place}: {error.strerror}; expected a folder in which this user may write",
            file=sys.stderr,
        )
        return 2
    print(options.out / HOST_FILE, *values["complaints"], sep="\n  ")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="host_collector", description="Reads facts of this host.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="NAME",
        help="a further kernel module to look at; may be repeated",
    )
    parser.add_argument(
        "--neighbours",
        choices=WAYS,
        default="none",
        help="lldp: also learn which switch ports the cables lead to, for at most 35 s",
    )
    parser.add_argument(
        "--mounts-of",
        type=Path,
        metavar="PROC",
        help="read the files that a process sees, given by its folder in /proc: in a privileged "
        "container that of the host's first process. A failure is then left in DIR/failure.txt, "
        "for the checks to tell, and is none of this command",
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def leave_reason(out: Path, why: str) -> int:
    """Says why nothing was read where the checks look for it: they still measure the rest."""
    print(f"nothing was read: {why}", file=sys.stderr)
    try:
        write(out / FAILURE_FILE, why.encode())
    except OSError as error:
        print(f"--out: {out}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
