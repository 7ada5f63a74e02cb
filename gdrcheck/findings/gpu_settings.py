"""Codes about how a GPU is set, and what firmware it runs."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-VBIOS",
        title="A GPU's VBIOS is not the promised one",
        meaning="The version of the firmware on the board does not match the profile's pattern.",
        evidence="nvmlDeviceGetVbiosVersion, the board's part number, and expect.vbios.",
        causes=(
            "An update left this GPU out, or was done on this one alone.",
            "The board was replaced, or is of another lot or of another kind.",
            "The new version is written, but the node was not powered off and on since.",
        ),
        repair=(
            "Read: `nvidia-smi --query-gpu=pci.bus_id,vbios_version --format=csv`.",
            "Update the GPU's firmware with the tool of the server's maker, for all GPUs alike, "
            "and power the node off and on.",
            "If the node is right, correct expect.vbios in the profile.",
        ),
        source="NVML API reference (nvmlDeviceGetVbiosVersion)",
    ),
    Entry(
        code="GPU-COMPUTE-MODE",
        title="A GPU is not in the promised compute mode",
        meaning=(
            "The mode says how many processes may use the GPU: any number, one, or none. In mode "
            "prohibited nothing can use it; in mode exclusive_process a second program fails."
        ),
        evidence="nvmlDeviceGetComputeMode, and expect.compute_mode.",
        causes=(
            "Somebody or a job's prologue set it, and nobody set it back.",
            "It was set by hand and lost at a restart or a reset, which bring it back to default.",
        ),
        repair=(
            "Set it: `nvidia-smi -i SLOT -c DEFAULT` (or EXCLUSIVE_PROCESS, PROHIBITED).",
            "Have it set at each start of the node, since it does not outlast one.",
            "If the node is right, correct expect.compute_mode in the profile.",
        ),
        source="NVML API reference (nvmlDeviceGetComputeMode), nvidia-smi(1)",
    ),
    Entry(
        code="GPU-PERSISTENCE",
        title="Persistence of a GPU is not as promised",
        meaning=(
            "Without persistence the driver lets go of an unused GPU: the next program waits "
            "seconds for its start, and settings such as the power limit are lost."
        ),
        evidence="nvmlDeviceGetPersistenceMode, and expect.persistence.",
        causes=(
            "The service nvidia-persistenced does not run, or runs without persistence.",
            "The mode was set by hand and lost at a restart.",
        ),
        repair=(
            "Read: `systemctl status nvidia-persistenced`; `nvidia-smi -q -i SLOT | grep Persist`.",
            "Switch it on: `systemctl enable --now nvidia-persistenced`; in its unit no option "
            "`--no-persistence-mode`.",
            "Without the service: `nvidia-smi -i SLOT -pm 1`, at each start of the node.",
            "If the node is right, correct expect.persistence in the profile.",
        ),
        source="NVIDIA Driver Persistence, nvidia-smi(1)",
    ),
    Entry(
        code="GPU-POWER-LIMIT",
        title="A GPU may draw less power than it should",
        meaning=(
            "The limit in force is below the promised one, or, without a promise, below what the "
            "GPU is made for: then it is a warning. Under full load the GPU lowers its clocks."
        ),
        evidence="nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementDefaultLimit.",
        causes=(
            "Somebody set a lower limit, for a test or for lack of power or cooling.",
            "The limit was raised by hand and lost at a restart, without persistence.",
            "The management controller caps the power of the node.",
        ),
        repair=(
            "Read: `nvidia-smi -q -d POWER -i SLOT`.",
            "Set it: `nvidia-smi -i SLOT -pl WATTS`, with persistence on.",
            "If it stays lower, look for a cap in the management controller: "
            "`ipmitool dcmi power get_limit`.",
            "If the lower limit is meant, write it into the profile: expect.power_limit_w.",
        ),
        source="NVML API reference (power management), nvidia-smi(1)",
    ),
    Entry(
        code="GPU-CONFIDENTIAL",
        title="Confidential computing of the GPUs is not as promised",
        meaning=(
            "In this mode the GPU's memory is closed to other devices and copies are encrypted: "
            "GPUDirect does not work, and copies are slower. Off, the memory is not protected."
        ),
        evidence="nvmlSystemGetConfComputeState, and expect.confidential_computing.",
        causes=(
            "The mode was switched for another use of the node and not switched back.",
            "The virtual machine is a confidential one, or is not.",
        ),
        repair=(
            "Read: `nvidia-smi conf-compute -f`.",
            "Switch the mode of each GPU on the host with NVIDIA's gpu-admin-tools, and reset it.",
            "If the node is right, correct expect.confidential_computing in the profile.",
        ),
        source="NVIDIA Confidential Computing deployment guide, NVML API reference",
    ),
)
