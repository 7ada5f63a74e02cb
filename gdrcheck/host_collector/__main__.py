"""``python3 -m gdrcheck.host_collector --out DIR``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .collector import HOST_FILE, collect
from .neighbours import WAYS


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. 0, also when values could not be read; 2 when nothing could be written."""
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
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        values = collect(options.out, options.root, options.module, neighbours=options.neighbours)
    except OSError as error:
        place = error.filename or options.out
        print(
            f"--out: {place}: {error.strerror}; expected a folder in which this user may write",
            file=sys.stderr,
        )
        return 2
    print(options.out / HOST_FILE, *values["complaints"], sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
