"""What the pods of a Kubernetes Job say to index 0, and index 0 to them.

In a run of a playbook the controller does all this over ssh.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gdrcheck.pairing.messages import Body, NodeName, Short
from gdrcheck.run import RUN_ID_PATTERN

# Characters of JSON text in one part: even if each had to be escaped, the frame can hold them.
DOCUMENT_CHARS = 10_000
# Base64 of this many bytes, and the little around it, fit a frame.
RESULT_BYTES = 45_000
# More than any node leaves, and few enough for the memory of index 0.
MAX_ARCHIVE_BYTES = 64 << 20
MAX_WHY = 10


class Arrived(Body):
    """A pod is there. ``token`` tells this process from one that took its place.

    ``held_run`` is the run whose document it holds already, when it comes back.
    """

    TYPE: ClassVar[str] = "job-arrived"
    index: int = Field(ge=0)
    token: str = Field(pattern=r"^[0-9a-f]{32}$")
    node: NodeName
    address: Short
    held_run: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None


class DocumentPart(Body):
    """A part of the run document and who takes part, as JSON; ``last`` ends it."""

    TYPE: ClassVar[str] = "job-document"
    text: Annotated[str, Field(max_length=DOCUMENT_CHARS)]
    last: bool


class ResultPart(Body):
    """A part of the archive with a node's results, as base64; ``last`` ends it."""

    TYPE: ClassVar[str] = "job-result"
    data: Annotated[str, Field(max_length=RESULT_BYTES * 4 // 3, pattern=r"^[A-Za-z0-9+/]*=*$")]
    last: bool


class JobVerdict(Body):
    """The verdict of the run, the exit code of the pod that hears it, and why it is that."""

    TYPE: ClassVar[str] = "job-verdict"
    verdict: Literal["PASS", "FAIL", "INCOMPLETE"]
    exit_code: Literal[0, 1, 2]
    why: tuple[Annotated[str, Field(max_length=500)], ...] = Field(default=(), max_length=MAX_WHY)


class VerdictTaken(Body):
    """The verdict has arrived; this pod needs index 0 no more."""

    TYPE: ClassVar[str] = "job-verdict-taken"


BODIES: dict[str, type[Body]] = {
    body.TYPE: body for body in (Arrived, DocumentPart, ResultPart, JobVerdict, VerdictTaken)
}
