"""Printing what comes from nodes, so that it can neither steer a terminal nor end the command."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from typing import TextIO

from pydantic import BaseModel

from gdrcheck.results.plain import one_line


def say(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print ``lines``, each as one line, with escapes for what cannot be seen or encoded.

    ``stream`` is standard output unless given.
    """
    stream = stream or sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    for line in lines:
        print(one_line(line), file=stream)


def print_json(model: BaseModel) -> None:
    """Print ``model`` as JSON in ASCII."""
    text = json.dumps(model.model_dump(mode="json"), indent=1)
    # The only control character that JSON leaves as it is.
    print(text.replace("\x7f", "\\u007f"))
