"""Text from nodes and other tools, made harmless: it can neither steer a terminal nor forge a line.

What cannot be seen is written as an escape, so that it is shown instead of obeyed.
"""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

# What XML 1.0 cannot hold, \r, which its readers turn into \n, and what steers a terminal or the
# order of letters: C1 controls, other line ends, bidirectional marks.
UNSEEN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd"
    "\U00010000-\U0010ffff]"
)


def visible(text: str) -> str:
    """``text`` with every character that is not shown written as ``\\x1b`` or ``\\u2028``."""
    return UNSEEN.sub(lambda match: _escape(ord(match.group())), text)


def one_line(text: str) -> str:
    """``text``, visible and in one line: its line breaks are written as ``\\n``."""
    # Nearly all texts of a large run.
    if text.isascii() and text.isprintable():
        return text
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def first_line(text: str) -> str:
    """The first line of ``text``, visible."""
    return visible(text.strip().partition("\n")[0])


def in_lines(model: M) -> M:
    """``model`` with every text in it, keys included, in one line."""
    return type(model).model_validate(_walk(model.model_dump()))


def _walk(value: object) -> object:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {_walk(key): _walk(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_walk(one) for one in value)
    return value


def _escape(number: int) -> str:
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
