"""Suggests the known word that is nearest to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# difflib's own default: below it, suggestions confuse more often than they help.
CUTOFF = 0.6


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of ``known`` that looks most like ``word``; None if none is near."""
    by_folded = {name.casefold(): name for name in known}
    matches = get_close_matches(word.casefold(), by_folded, n=1, cutoff=CUTOFF)
    return by_folded[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` to end a message with; empty if nothing is near."""
    match = nearest(word, known)
    return f"; did you mean {match}?" if match else ""
