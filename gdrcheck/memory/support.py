"""The probes that cost nothing, before memory is touched."""

from __future__ import annotations

from gdrcheck.gpu.context import Gpu
from gdrcheck.registration import Support
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.memory import dmabuf_probe_errno


def support(gpu: Gpu, device: Device) -> Support:
    """What the NIC says of dma-buf, and the GPU of GPUDirect RDMA.

    VerbsError if the NIC's answer has no errno.
    """
    attributes = gpu.device.attributes
    return Support(
        dmabuf_errno=dmabuf_probe_errno(device),
        dmabuf_attribute=attributes.dmabuf,
        gdr_attribute=attributes.gdr,
    )
