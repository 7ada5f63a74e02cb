"""``gdrcheck explain``: one code of the catalogue, those that begin alike, or all of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from gdrcheck.findings import catalogue, show
from gdrcheck.findings.model import Entry


def run(args: argparse.Namespace) -> int:
    """Print what ``args`` asks for; 0. InputError when no code begins like the one that it names.

    An area (PORT) or any other beginning of several codes lists them with their titles.
    """
    if args.markdown:
        print(show.as_markdown(catalogue.ENTRIES), end="")
        return 0
    entries = catalogue.ENTRIES if args.list else _entries(args.code)
    if args.json:
        _print_json(entries, as_list=args.list or len(entries) > 1)
    elif args.list or len(entries) > 1:
        print(show.as_list(entries))
    else:
        print(show.as_text(entries[0]))
    return 0


def _entries(code: str) -> Sequence[Entry]:
    begin = code.upper()
    if begin in catalogue.ENTRIES_BY_CODE:
        return (catalogue.ENTRIES_BY_CODE[begin],)
    alike = [entry for entry in catalogue.ENTRIES if entry.code.startswith(begin)]
    whole_words = any(entry.code.startswith(f"{begin.rstrip('-')}-") for entry in alike)
    # One alone may be a code with a letter missing; what is named then is the nearest one.
    return alike if len(alike) > 1 or whole_words else (catalogue.entry(code),)


def _print_json(entries: Sequence[Entry], *, as_list: bool) -> None:
    data = [entry.model_dump(mode="json") for entry in entries]
    print(json.dumps(data if as_list else data[0], indent=2, ensure_ascii=False))
