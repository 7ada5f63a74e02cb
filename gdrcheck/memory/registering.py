"""Registering a range of a GPU buffer with a NIC, by either method."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gdrcheck.gpu.buffers import Buffer, prove
from gdrcheck.gpu.export import FLAGS, PLAIN, Export, export
from gdrcheck.memory.recorder import Held, Recorder, Stopped
from gdrcheck.registration import Method, Proof, RangeKind, Refusal, Region
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.memory import (
    REMOTE,
    Access,
    Registration,
    register_dmabuf,
    register_peermem,
)


@dataclass(frozen=True)
class Range:
    """A piece of a buffer, and what it is called in the results."""

    kind: RangeKind
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Registered:
    """A registered range; ``region`` is complete once it is deregistered."""

    kind: RangeKind
    held: Held[Registration]
    exported: Export | None
    other_refused: str = ""

    @property
    def registration(self) -> Registration:
        """Where work requests find the range."""
        return self.held.resource

    def region(self) -> Region:
        """What came back and how long it took."""
        made, exported = self.registration, self.exported
        return Region(
            range=self.kind,
            requested_address=made.requested_address,
            requested_bytes=made.requested_bytes,
            address=made.address,
            length_bytes=made.length_bytes,
            lkey=made.lkey,
            rkey=made.rkey,
            flag=exported.flag if exported else None,
            export_us=exported.export_us if exported else None,
            register_us=self.held.opened_us,
            deregister_us=self.held.closed_us,
            other_refused=self.other_refused,
        )


def looked_at(recorder: Recorder, buffer: Buffer) -> Proof:
    """What the driver says of the buffer. Stopped when it does not answer."""
    with recorder.stage("prove", "whole", buffer.length_bytes):
        return prove(buffer)


def insist(recorder: Recorder, proof: Proof) -> None:
    """Stopped unless it is the GPU's own memory: nothing else may be registered in its name."""
    if not proof.gpu_memory:
        text = f"this is not memory of the GPU that a NIC may reach: {proof.text()}"
        refusal = Refusal("prove", text, range="whole", length_bytes=proof.length_bytes)
        raise recorder.refuse(refusal)


class Registrar:
    """Registers ranges of GPU buffers with one NIC by one method; refusals go to the recorder."""

    def __init__(
        self, recorder: Recorder, device: Device, method: Method, access: Access = REMOTE
    ) -> None:
        self.recorder = recorder
        self.device = device
        self.method: Method = method
        self._access = access
        self._flags = FLAGS
        self._worked = False
        # What was said of the mapping type that is not tried any more.
        self._other_refused = ""

    @contextmanager
    def registered(self, buffer: Buffer, place: Range) -> Iterator[Registered]:
        """The range of the buffer; undone at the end of the block: region, descriptor.

        Stopped, with the refusal in the recorder, when either driver refuses.
        """
        with contextlib.ExitStack() as stack:
            if self.method == "peermem":
                yield self._by_pointer(stack, buffer, place)
            else:
                yield self._by_dmabuf(stack, buffer, place)

    def _by_pointer(self, stack: contextlib.ExitStack, buffer: Buffer, place: Range) -> Registered:
        buffer.check_range(place.offset_bytes, place.length_bytes)
        pointer = buffer.address + place.offset_bytes
        region = register_peermem(self.device, pointer, place.length_bytes, self._access)
        return Registered(place.kind, self._held(stack, region, place), None)

    def _by_dmabuf(self, stack: contextlib.ExitStack, buffer: Buffer, place: Range) -> Registered:
        exported = self._exported(stack, buffer, place)
        try:
            held = self._of_dmabuf(stack, exported, place)
        except Stopped:
            if exported.flag != "pcie" or self._worked:
                raise
            # A GPU that is coherent with the CPU exports for PCIe, whether or not the NIC can be
            # reached that way: that shows only here, and the plain mapping is the usual one there.
            self._flags, self._other_refused = PLAIN, self.recorder.set_aside()
            exported = self._exported(stack, buffer, place)
            held = self._of_dmabuf(stack, exported, place)
        self._worked = True
        refused = self._other_refused or "; ".join(exported.refused)
        return Registered(place.kind, held, exported, refused)

    def _exported(self, stack: contextlib.ExitStack, buffer: Buffer, place: Range) -> Export:
        length = place.length_bytes
        exporting = export(buffer, place.offset_bytes, length, flags=self._flags)
        held = self.recorder.held(exporting, "export", "export", place.kind, length)
        return stack.enter_context(held).resource

    def _of_dmabuf(
        self, stack: contextlib.ExitStack, exported: Export, place: Range
    ) -> Held[Registration]:
        fd, offset = exported.fd, exported.offset_bytes
        region = register_dmabuf(self.device, fd, offset, place.length_bytes, self._access)
        return self._held(stack, region, place)

    def _held(
        self,
        stack: contextlib.ExitStack,
        region: AbstractContextManager[Registration],
        place: Range,
    ) -> Held[Registration]:
        kind, length = place.kind, place.length_bytes
        return stack.enter_context(
            self.recorder.held(region, "register", "deregister", kind, length)
        )
