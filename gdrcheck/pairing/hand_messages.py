"""What two ends that were started by hand say to each other before their session begins.

In a run of a playbook the run document and the rendezvous say all this.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gdrcheck.findings.model import Finding
from gdrcheck.pairing.messages import Body, NodeName, RailInfo, Text

MAX_FINDINGS = 8
# Two of them, and room around, are what an end of a measurement has in memory.
MAX_MESSAGE_BYTES = 16 << 20


class Settings(Body):
    """What the caller says for both ends. ``timeout_s`` is how long all of it may take.

    ``largest_bytes`` is the size of the largest message.
    """

    TYPE: ClassVar[str] = "settings"
    traffic_class: int = Field(default=0, ge=0, le=255)
    path_mtu: Literal[256, 512, 1024, 2048, 4096] | None = None
    queue_pairs: int = Field(default=4, ge=1, le=16)
    atomics: bool = False
    largest_bytes: int = Field(ge=1, le=MAX_MESSAGE_BYTES)
    timeout_s: Annotated[float, Field(ge=10, le=86_400, allow_inf_nan=False)]
    time_scale: Annotated[float, Field(ge=0.1, le=100, allow_inf_nan=False)] = 1


class End(Body):
    """One end: its name, its rail, ``about`` it in words, and what it found wrong with itself.

    ``gpu_unwanted``: its user wants host memory only.
    """

    TYPE: ClassVar[str] = "end"
    node: NodeName
    rail: RailInfo
    about: Text
    emulated: bool
    software: bool
    gpu_unwanted: bool = False
    findings: tuple[Finding, ...] = Field(default=(), max_length=MAX_FINDINGS)


class Greeting(Body):
    """The caller's first message. Answer: ``Greeted``."""

    TYPE: ClassVar[str] = "greeting"
    end: End
    settings: Settings


class Greeted(Body):
    """The listener's answer; ``Serving`` follows. Its name is never that of the caller."""

    TYPE: ClassVar[str] = "greeted"
    end: End


BODIES: dict[str, type[Body]] = {body.TYPE: body for body in (Greeting, Greeted)}
