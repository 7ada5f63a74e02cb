"""The forms of words that Kubernetes takes: what an option may be, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass

# RFC 1123; a Service's and a namespace's name are such labels.
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PREFIX = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/"
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
# An extended resource, unlike cpu, always has a domain.
RESOURCE = re.compile(_PREFIX + _NAME)
KEY = re.compile(f"({_PREFIX})?{_NAME}")
VALUE = re.compile(f"({_NAME})?")
# multus: namespace/name@interface.
NETWORK = re.compile(
    rf"({LABEL.pattern}/)?[a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?(@[a-z0-9_.-]{{1,15}})?"
)
QUANTITY = re.compile(r"[1-9][0-9]{0,5}(Ki|Mi|Gi|Ti)")
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
# A colon before a slash is that of a registry's port, any other that of the tag.
_IMAGE = re.compile(
    r"(?P<name>([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+(([._-]+|/)[a-z0-9]+)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class Image:
    """A reference to an image. Either ``digest`` or ``tag`` is empty, and a digest says more."""

    name: str
    tag: str
    digest: str

    @property
    def is_of_this_machine(self) -> bool:
        """Whether no registry that another machine could reach is in the name."""
        host, slash, _ = self.name.partition("/")
        return not slash or host == "localhost" or not {*host} & {*".:"}


def image(text: str) -> Image | None:
    """The parts of ``text``; None if it is no reference."""
    match = _IMAGE.fullmatch(text)
    if match is None:
        return None
    digest = match["digest"] or ""
    return Image(match["name"], "" if digest else match["tag"] or "latest", digest)


def quantity_bytes(text: str) -> int:
    """The bytes that a ``QUANTITY`` says."""
    return int(text[:-2]) * _UNITS[text[-2:]]
