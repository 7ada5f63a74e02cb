"""Results in the log of a pod: lines that can be found again among others, whole or not at all.

``GDRCHECK|ID|begin|{header}``, then ``GDRCHECK|ID|N|BASE64`` for N from 0 on, then
``GDRCHECK|ID|end|``. What stands before ``GDRCHECK`` in a line (a time, the pod's name) is passed
over, and so are lines in between, those of another pod's block too. Length and SHA-256 in the
header tell a whole block from one that the log has lost a part of.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdrcheck import __version__
from gdrcheck.outcome import Verdict
from gdrcheck.pairing.messages import NodeName
from gdrcheck.run import RUN_ID_PATTERN

# A container runtime cuts lines at 16 KiB.
LINE_BYTES = 6000
# The header of index 0 names every node, and a run may have 10,000 with names of 253 characters.
MAX_LINE_CHARS = 4 << 20
# Of one block, and of all in the logs that are read at once.
MAX_BLOCK_BYTES = 512 << 20
MAX_TOTAL_BYTES = 1 << 30
MAX_BLOCKS = 20_000
MAX_SHOWN = 3
_LINE = re.compile(r"GDRCHECK\|([0-9a-f]{16})\|(begin|end|[0-9]{1,6})\|(.*)")


Kind = Literal["node", "run"]


class Header(BaseModel):
    """What a block is. ``of`` is the node whose pod wrote it.

    A ``node`` block has the run document and this node's results; a ``run`` block has besides what
    index 0 gathered and saw. ``verdict`` is that of the run, in the block of a run; ``omitted`` are
    the nodes whose results index 0 had, and which are in their own blocks only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    kind: Kind
    run_id: str = Field(pattern=RUN_ID_PATTERN)
    of: NodeName
    gdrcheck_version: Annotated[str, Field(max_length=100)]
    verdict: Verdict | None = None
    omitted: tuple[NodeName, ...] = ()
    length_bytes: int = Field(ge=1, le=MAX_BLOCK_BYTES)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def lines(self) -> int:
        """How many lines of data the block has."""
        return -(-self.length_bytes // LINE_BYTES)

    def text(self) -> str:
        """The block in words."""
        whose = f"node {self.of}" if self.kind == "node" else "the run"
        return f"the results of {whose} in run {self.run_id}"


@dataclass(frozen=True, slots=True)
class Block:
    """A whole block. ``source`` is the log that it began in."""

    header: Header
    content: bytes
    source: str

    @property
    def of_run(self) -> bool:
        """Whether index 0 wrote it, of the whole run."""
        return self.header.kind == "run"


def block_lines(header: Header, content: bytes) -> Iterator[str]:
    """The lines of a block; ``header`` is that of ``content``."""
    text = header.model_dump_json(exclude_defaults=True)
    id_ = hashlib.sha256(text.encode()).hexdigest()[:16]
    yield f"GDRCHECK|{id_}|begin|{text}"
    for number in range(header.lines):
        piece = content[number * LINE_BYTES : (number + 1) * LINE_BYTES]
        yield f"GDRCHECK|{id_}|{number}|{base64.b64encode(piece).decode()}"
    yield f"GDRCHECK|{id_}|end|"


def header_of(
    content: bytes,
    *,
    kind: Kind,
    run_id: str,
    of: str,
    verdict: Verdict | None = None,
    omitted: tuple[str, ...] = (),
) -> Header:
    """The header of a block with ``content``."""
    return Header(
        kind=kind,
        run_id=run_id,
        of=of,
        gdrcheck_version=__version__,
        verdict=verdict,
        omitted=omitted,
        length_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


@dataclass(slots=True)
class _Open:
    """A block as far as it has been read."""

    source: str
    header: Header | None = None
    parts: dict[int, bytes] = field(default_factory=dict)
    orphans: int = 0
    ended: bool = False
    refused: bool = False


class BlockReader:
    """Finds the blocks in logs. ``problems`` are what is wrong with them, a line each."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._open: dict[str, _Open] = {}
        self._total_bytes = 0

    def feed(self, line: str, source: str) -> None:
        """Take in one line of the log called ``source``."""
        match = _LINE.search(line)
        if match is None:
            return
        id_, what, rest = match.groups()
        block = self._open.get(id_)
        if block is None:
            if len(self._open) >= MAX_BLOCKS:
                self._complain(f"{source}: more than {MAX_BLOCKS} blocks")
                return
            block = self._open[id_] = _Open(source)
        if what == "begin":
            self._begin(id_, block, rest.strip(), source)
        elif what == "end":
            block.ended = True
        else:
            self._part(block, int(what), rest.strip(), source)

    def blocks(self) -> list[Block]:
        """The whole blocks; whatever is not whole becomes a problem."""
        found = []
        for block in self._open.values():
            header = block.header
            if block.refused:
                continue
            if header is None:
                self._complain(
                    f"{block.source}: {block.orphans} lines of results whose beginning is "
                    "missing: the log was cut off or rotated; expected the whole log of the pod"
                )
                continue
            missing = [number for number in range(header.lines) if number not in block.parts]
            if missing or not block.ended:
                self._complain(self._torn(block, header, missing))
                continue
            content = b"".join(block.parts[number] for number in range(header.lines))
            digest = hashlib.sha256(content).hexdigest()
            if (len(content), digest) != (header.length_bytes, header.sha256):
                self._complain(f"{block.source}: {header.text()} are damaged: the sum is wrong")
                continue
            found.append(Block(header, content, block.source))
        return found

    def _begin(self, id_: str, block: _Open, text: str, source: str) -> None:
        try:
            header = Header.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            self._complain(f"{source}: a block of results has a wrong header: {place}")
            block.refused = True
            return
        if block.header is not None:
            if block.header != header:
                self._complain(f"{source}: two different blocks are called {id_}")
                block.refused = True
            return
        self._total_bytes += header.length_bytes
        if self._total_bytes > MAX_TOTAL_BYTES:
            self._complain(f"{source}: the results are larger than {MAX_TOTAL_BYTES >> 20} MiB")
            block.refused = True
            return
        block.header = header

    def _part(self, block: _Open, number: int, text: str, source: str) -> None:
        # Without a header nothing says how much may come.
        if block.header is None or number >= block.header.lines:
            block.orphans += 1
            return
        try:
            piece = base64.b64decode(text, validate=True)
        except binascii.Error:
            piece = b""
        if not piece or len(piece) > LINE_BYTES:
            self._complain(f"{source}: line {number} of {block.header.text()} is damaged")
            return
        if block.parts.setdefault(number, piece) != piece:
            self._complain(f"{source}: line {number} of {block.header.text()} is there twice")

    def _torn(self, block: _Open, header: Header, missing: list[int]) -> str:
        shown = ", ".join(map(str, missing[:MAX_SHOWN]))
        more = f" and {len(missing) - MAX_SHOWN} more" if len(missing) > MAX_SHOWN else ""
        what = f"of {header.lines} lines, {shown}{more} are missing" if missing else "no end"
        return (
            f"{block.source}: {header.text()} are not whole ({what}): the log was cut off, rotated "
            "or mixed up; expected the whole log of the pod"
        )

    def _complain(self, problem: str) -> None:
        if len(self.problems) < MAX_BLOCKS and problem not in self.problems[-1:]:
            self.problems.append(problem)
