"""The types that tell how two GPUs of a node use each other's memory. Nothing here needs a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gdrcheck.mismatch import Mismatch, Verdict

Means = Literal["copy", "read in place", "write in place"]


@dataclass(frozen=True, slots=True)
class PeerReach:
    """Whether CUDA lets the first of two GPUs use the second's memory, and the other way round."""

    there: bool
    back: bool

    @property
    def both(self) -> bool:
        """Whether each may use the other's."""
        return self.there and self.back


@dataclass(frozen=True, slots=True)
class PeerTransfer:
    """One transfer from the memory of ``source`` to ``sink``, and what the sink finds at its end.

    ``copy`` is the work of a copy engine. ``read in place``: a kernel of the sink looks at the
    source's memory where it is; ``write in place``: a kernel of the source writes the sink's.
    ``at_source``: what the source finds in its own memory once the sink found wrong bytes, None
    if all are right there; nothing is looked at for ``write in place``.
    """

    means: Means
    offset_bytes: int
    length_bytes: int
    verdict: Verdict
    at_source: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class PeerRate:
    """Copies one after the other, and what the sink's GPU finds after the last of them."""

    length_bytes: int
    copies: int
    gbytes_per_s: float
    wrong: Mismatch | None


@dataclass(frozen=True, slots=True)
class PeerWay:
    """Everything that was moved one way, between the GPUs at two slots."""

    source: str
    sink: str
    transfers: tuple[PeerTransfer, ...]
    rate: PeerRate
