"""The token that both ends of a ping-pong by hand must know, and who they are to each other.

Each end proves that it knows the token, as the nodes of a run prove their secret: docs/channel.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Literal

from gdrcheck.outcome import InputError
from gdrcheck.pairing.handshake import Identity

VARIABLE = "GDRCHECK_TOKEN"
# What a listener makes has 128 bits. A shorter one could be guessed from a recorded handshake.
TOKEN_BYTES = 16
LEAST_CHARS = 16
MAX_CHARS = 1024
WHITE_SPACE = re.compile(r"\s")
# Nobody's run: names and run id are fixed, since neither end knows the other's name beforehand.
RUN_ID = "00000000T000000Z-000000"
CALLER: Literal["caller"] = "caller"
LISTENER: Literal["listener"] = "listener"


def read_token(file: Path | None) -> str | None:
    """The token in ``file`` (``-``: standard input), else in GDRCHECK_TOKEN; None without either.
    An empty variable is none.

    InputError when it is too short to be kept secret, or no token.
    """
    if file is not None:
        return _checked(_text(file), f"--token-file {file}")
    value = os.environ.get(VARIABLE)
    return _checked(value, VARIABLE) if value else None


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_hex(TOKEN_BYTES)


def identity(token: str, end: Literal["caller", "listener"]) -> Identity:
    """Who this end is to the other one, before they know each other's names."""
    return Identity(
        run_id=RUN_ID,
        node=end,
        secret=hashlib.sha256(b"gdrcheck pingpong\0" + token.encode()).digest(),
        image_id="",
        profile_hash=hashlib.sha256(b"").hexdigest(),
    )


def _text(file: Path) -> str:
    try:
        return sys.stdin.read(MAX_CHARS + 2) if str(file) == "-" else file.read_text()
    except OSError as error:
        raise InputError(f"--token-file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--token-file {file}: is no text; expected one line") from error


def _checked(text: str, place: str) -> str:
    token = text.strip()
    if not LEAST_CHARS <= len(token) <= MAX_CHARS:
        raise InputError(
            f"{place}: is {len(token)} characters long; expected {LEAST_CHARS} to {MAX_CHARS}, as "
            "gdrcheck pingpong --listen makes it"
        )
    if WHITE_SPACE.search(token):
        raise InputError(f"{place}: has white space in it; expected one word")
    return token
