"""Payloads as they are registered, for the work requests of both ends."""

from __future__ import annotations

from dataclasses import dataclass

from gdrcheck.transfer import RegionKey
from gdrcheck.verbs.link import Payload
from gdrcheck.verbs.memory import Registration
from gdrcheck.verbs.protocol import RemoteRegion


@dataclass(frozen=True, slots=True)
class LocalRegion:
    """A payload as it is registered one way; it begins ``payload_offset`` bytes into the region."""

    key: RegionKey
    payload: Payload
    registration: Registration
    payload_offset: int

    @property
    def lkey(self) -> int:
        """What work requests of this end name it by."""
        return self.registration.lkey

    def address(self, offset: int, length: int) -> int:
        """Where work requests find a piece of the payload. ValueError if it is not inside."""
        return self.registration.at(self.payload_offset + offset, length)

    def told(self) -> RemoteRegion:
        """The same for the other end."""
        return RemoteRegion(
            key=self.key,
            address=self.address(0, self.payload.length_bytes),
            rkey=self.registration.rkey,
            length_bytes=self.payload.length_bytes,
        )
