"""Codes about the ways between GPUs of a node, and between a GPU and the node."""

from __future__ import annotations

from gdrcheck.findings.model import Entry, Severity

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-NVLINK-DOWN",
        title="NVLinks of a GPU are down",
        meaning=(
            "Fewer NVLinks are up than the profile promises, fewer than another GPU of this model "
            "has on the node, or fewer than when the run began. Traffic between GPUs is slower, or "
            "goes over PCIe; with NVSwitches programs may not start at all."
        ),
        evidence="nvmlDeviceGetNvLinkState of each link; what is at the other end of those up.",
        causes=(
            "The link failed its training: a connector, the board, the GPU, an NVSwitch.",
            "The fabric manager does not run, or did not get through with setting the links up.",
            "NVLink was switched off, by an option of the driver or in its fabric partition.",
            "The bridge between two boards is missing or not seated.",
        ),
        repair=(
            "Read: `nvidia-smi nvlink -s -i SLOT`; `dmesg | grep -i -E 'nvlink|xid.* 74'`.",
            "With NVSwitches: `systemctl status nvidia-fabricmanager`, and its log.",
            "Drain the node and restart it; power it off and on if that does not help.",
            "Reseat the bridge or the board; else have the GPU, or the NVSwitch board, replaced.",
            "If the GPU has fewer links by design, correct expect.nvlinks in the profile.",
        ),
        source="NVML API reference (nvmlDeviceGetNvLinkState), NVIDIA Fabric Manager User Guide",
    ),
    Entry(
        code="GPU-NVLINK-ERRORS",
        title="Errors of a GPU's NVLinks grew during the run",
        meaning=(
            "Packets had to be sent again, or a link had to be set up anew. Data is not wrong, "
            "but the link is bad: replays alone are a warning, recoveries are a failure."
        ),
        evidence="nvmlDeviceGetNvLinkErrorCounter (replay, recovery) before and after the run.",
        causes=(
            "A bad contact: connector, bridge, seat of the board.",
            "The GPU or the NVSwitch is faulty or too hot.",
        ),
        repair=(
            "Read: `nvidia-smi nvlink -e -i SLOT`, and again under load.",
            "Drain the node, power it off and on, and run the checks again.",
            "If they grow on, reseat the board or bridge, or have it replaced.",
        ),
        source="NVML API reference (nvmlNvLinkErrorCounter_t), nvidia-smi(1)",
    ),
    Entry(
        code="GPU-NVSWITCH-ERROR",
        title="An NVSwitch logged a fatal error",
        meaning=(
            "SXid is the number that NVIDIA's driver gives an error of an NVSwitch. A fatal one "
            "takes the switch, or links of it, out of use: GPUs behind it do not reach each other."
        ),
        evidence="The lines of the kernel log with SXid since the start of the node.",
        causes=(
            "The NVSwitch, its board or its cooling failed.",
            "A GPU at the other end failed or was reset while links were in use.",
            "An old message: the switch was reset since, but the node not restarted.",
        ),
        repair=(
            "Read: `dmesg -T | grep -i sxid`; the log of `systemctl status nvidia-fabricmanager`.",
            "Look the number up in the Fabric Manager User Guide.",
            "Drain the node, stop the fabric manager, reset all GPUs together "
            "(`nvidia-smi --gpu-reset`), or restart the node.",
            "If it comes back, have the NVSwitch board replaced.",
        ),
        source="NVIDIA Fabric Manager User Guide (NVSwitch SXid errors)",
    ),
    Entry(
        code="GPU-PCIE-REPLAYS",
        title="A GPU's PCIe link repeats packets",
        meaning=(
            "While data was copied, more packets of the link had to be sent again than a sound "
            "link repeats. Data is not wrong, but the link is weak and may lose speed or go down."
        ),
        evidence="nvmlDeviceGetPcieReplayCounter before and after a copy, and the bytes copied.",
        causes=(
            "A bad contact: seat of the board, riser, cable between boards.",
            "A retimer or a PCIe switch on the way, or its firmware.",
            "The GPU or the slot is faulty.",
        ),
        repair=(
            "Read: `nvidia-smi -q -d PCIE -i SLOT`; `nvidia-smi -q -i SLOT | grep -i replay`.",
            "Look for corrected errors of the ports above: `dmesg | grep -i aer`.",
            "Reseat board, riser and cables; move the board to another slot to see what it "
            "follows.",
            "Update the firmware of server, switch and retimers.",
        ),
        severity=Severity.WARN,
        source="NVML API reference (nvmlDeviceGetPcieReplayCounter), PCI Express Base "
        "Specification (data link layer)",
    ),
    Entry(
        code="GPU-PEER-ACCESS",
        title="A GPU cannot reach the memory of another GPU of its node",
        meaning=(
            "CUDA offers no direct way between the two GPUs, although the profile promises one, "
            "their NVLinks are up or the driver calls the way possible. Programs copy through the "
            "host's memory instead, which is slow."
        ),
        evidence="cuDeviceCanAccessPeer, cuCtxEnablePeerAccess, what NVML says of the pair.",
        causes=(
            "The fabric manager has not set up the NVSwitches, or put the GPUs in different "
            "partitions.",
            "In a virtual machine: the GPUs are not passed through as one group.",
            "MIG or confidential computing is on, which excludes peer access.",
            "Over PCIe: the chipset or the driver does not support it between these slots, or "
            "ACS and the IOMMU forbid it.",
        ),
        repair=(
            "Read: `nvidia-smi topo -p2p rw`; `nvidia-smi topo -m`.",
            "With NVSwitches: `systemctl status nvidia-fabricmanager`, and its log.",
            "See whether MIG is on: `nvidia-smi --query-gpu=mig.mode.current --format=csv`.",
            "If these GPUs cannot have it by design, leave expect.peer_access out of the profile.",
        ),
        source="CUDA driver API (peer context memory access), NVML API reference "
        "(nvmlDeviceGetP2PStatus)",
    ),
    Entry(
        code="GPU-PEER-DATA",
        title="Data that one GPU copied to another one of its node arrived wrong",
        meaning=(
            "A pattern was copied from GPU to GPU, no NIC was involved, and bytes differ or did "
            "not arrive. Everything that both GPUs exchange is in doubt."
        ),
        evidence="The first wrong offset, how many bytes, what was found there, in which way.",
        causes=(
            "Over PCIe: the IOMMU translates, or ACS redirects, what GPUs send each other.",
            "An NVLink, a bridge or an NVSwitch is faulty.",
            "The memory of one of the GPUs is faulty.",
            "A fault of the driver.",
        ),
        repair=(
            "Do not use these GPUs together.",
            "Read: `nvidia-smi nvlink -e`; `nvidia-smi topo -m`; `dmesg -T | grep -iE 'xid|aer'`.",
            "Over PCIe: switch the IOMMU off or to passthrough (`iommu=pt`), switch ACS "
            "redirection off, and run the checks again.",
            "If one GPU is in all bad pairs, have it replaced; if one NVSwitch is, its board.",
        ),
        source="CUDA C Programming Guide (peer-to-peer memory access, IOMMU on Linux)",
    ),
)
