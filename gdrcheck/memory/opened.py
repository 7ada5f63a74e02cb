"""What an endpoint child holds open: a device, and payloads registered with it in several ways."""

from __future__ import annotations

import contextlib

from gdrcheck.pattern import Pattern
from gdrcheck.transfer import RegionKey
from gdrcheck.verbs import protocol
from gdrcheck.verbs.buffer import PAGE_BYTES, HostBuffer, HostPayload
from gdrcheck.verbs.device import Device, open_device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.memory import access_of, register
from gdrcheck.verbs.mtu import own_mtu
from gdrcheck.verbs.queue_pair import Path
from gdrcheck.verbs.regions import LocalRegion

# Regions begin and end inside of pages, in the guards: a NIC that takes the page for the region
# writes elsewhere, and what it writes too much lands where it is seen.
UNALIGNED_BYTES = 57
RELAXED = (False, True)
Regions = dict[RegionKey, LocalRegion]


class Opened:
    """What ``open`` and ``open_gpu`` made; ``stack`` undoes it, the last first.

    ProbeError if a step is refused; then all of that step is undone.
    """

    def __init__(self, request: protocol.Open) -> None:
        self.request = request
        self.regions: Regions = {}
        self.has_gpu = False
        with contextlib.ExitStack() as stack:
            self.device: Device = stack.enter_context(open_device(request.device))
            port = self.device.port(request.port)
            self.path = Path(
                port=port,
                gid=self.device.choose_gid(port, request.gid, request.gid_index),
                pkey_index=self.device.pkey_index(request.port, request.pkey),
                traffic_class=request.traffic_class,
                service_level=request.service_level,
                promised_mtu=request.path_mtu,
                completion_s=request.completion_s,
            )
            own_mtu(port.active_mtu, request.path_mtu)
            buffer = HostBuffer(request.buffer_bytes)
            self.pattern = Pattern(buffer.payload_bytes)
            self._register_host(stack, buffer)
            self.stack = stack.pop_all()

    def described(self) -> protocol.Opened:
        """What the parent wants to know and log of the choices made."""
        path = self.path
        return protocol.Opened(
            gid_index=path.gid.index,
            gid=path.gid.gid,
            gid_type=path.gid.type,
            netdev=path.gid.netdev,
            lid=path.port.lid,
            link_layer=path.port.link_layer,
            active_mtu=path.port.active_mtu,
            guid=self.device.guid,
        )

    def open_gpu(self, request: protocol.OpenGpu) -> protocol.GpuOpened:
        """Open the GPU, and register memory of it as the request says."""
        if self.has_gpu:
            raise VerbsError("a GPU is open already", step="open_gpu")
        # Host memory must be measurable where there is no CUDA.
        from gdrcheck.memory.opened_gpu import open_gpu_memory

        with contextlib.ExitStack() as stack:
            made, regions = open_gpu_memory(stack, self, request)
            self.regions |= regions
            self.has_gpu = True
            self.stack.push(stack.pop_all())
        return made

    def port_state(self) -> str:
        """The state of the port; that it cannot be read, when it has gone away."""
        try:
            return self.device.port(self.request.port).state
        except VerbsError as problem:
            return f"unreadable: {problem}"

    def _register_host(self, stack: contextlib.ExitStack, buffer: HostBuffer) -> None:
        payload = HostPayload(buffer, self.pattern)
        for relaxed in RELAXED:
            access = access_of(relaxed=relaxed, atomics=self.request.atomics)
            key = RegionKey(memory="host", method="host", relaxed=relaxed)
            region = register(
                self.device,
                buffer.address + UNALIGNED_BYTES,
                buffer.total_bytes - 2 * UNALIGNED_BYTES,
                access,
            )
            self.regions[key] = LocalRegion(
                key, payload, stack.enter_context(region), PAGE_BYTES - UNALIGNED_BYTES
            )
