"""Codes about the health of a GPU: its memory, the driver's errors, its clocks."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-ECC-UNCORRECTABLE",
        title="A GPU's memory had errors that could not be corrected",
        meaning=(
            "Data was lost: ECC found errors that it cannot correct since the driver was loaded, "
            "or more of them in SRAM over the GPU's life than a healthy one has. Programs that "
            "used the memory died or computed with wrong data."
        ),
        evidence=(
            "nvmlDeviceGetTotalEccErrors (volatile, uncorrected), the SRAM threshold of "
            "nvmlDeviceGetSramEccErrorStatus; counts over the GPU's life are shown beside them."
        ),
        causes=(
            "Cells of the GPU's memory fail; rows of HBM can be replaced by spare ones at a reset.",
            "SRAM of the GPU fails, which cannot be repaired.",
            "A single event (radiation, a dip of the supply voltage).",
            "The GPU is too hot, or its power supply is faulty.",
        ),
        repair=(
            "Drain the node and read: `nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT -i SLOT`.",
            "Reset the GPU, which replaces the rows: `nvidia-smi --gpu-reset -i SLOT`; where GPUs "
            "share NVLinks it resets all of them, or restart the node.",
            "Run NVIDIA's own test of memory: `dcgmi diag -r 3`.",
            "If errors come back, the threshold is exceeded or a remap failed, have the GPU "
            "replaced.",
        ),
        source="NVIDIA GPU Memory Error Management, NVML API reference (ECC)",
    ),
    Entry(
        code="GPU-ECC-MODE",
        title="ECC of a GPU is not as promised",
        meaning=(
            "With ECC off, errors of the memory go unseen into results; with it on, some GPUs "
            "have a little less memory and bandwidth."
        ),
        evidence="nvmlDeviceGetEccMode: the mode in force, and the one after the next reset.",
        causes=(
            "It was switched on this GPU or node alone.",
            "It was switched, but the GPU was not reset since: the pending mode differs.",
            "A board was replaced by one with another setting.",
        ),
        repair=(
            "Read: `nvidia-smi --query-gpu=ecc.mode.current,ecc.mode.pending --format=csv`.",
            "Drain the node, then `nvidia-smi -i SLOT -e 1` (or `-e 0`).",
            "Reset the GPU (`nvidia-smi --gpu-reset -i SLOT`), or restart the node.",
            "If the node is right, correct expect.ecc in the profile.",
        ),
        source="NVML API reference (nvmlDeviceGetEccMode), nvidia-smi(1)",
    ),
    Entry(
        code="GPU-ROW-REMAP",
        title="A GPU's memory waits for a repair, or could not be repaired",
        meaning=(
            "Bad rows of the memory are replaced by spare ones. Pending: the replacement becomes "
            "effective at the next reset, and until then the bad row is in use or the memory "
            "around it is blocked. Failed: there was no spare row left."
        ),
        evidence="nvmlDeviceGetRemappedRows: corrected, uncorrected, pending, failed.",
        causes=(
            "The memory had an uncorrectable error since the last reset (pending).",
            "The bank has no spare rows left, or the record could not be written (failed).",
        ),
        repair=(
            "Read: `nvidia-smi -q -d ROW_REMAPPER -i SLOT`.",
            "Pending: drain the node and reset the GPU (`nvidia-smi --gpu-reset -i SLOT`), or "
            "restart the node; then run the checks again.",
            "Failed: have the GPU replaced; the maker takes it back for this.",
        ),
        source="NVIDIA GPU Memory Error Management (row remapping), NVML API reference",
    ),
    Entry(
        code="GPU-PAGES-RETIRED",
        title="Pages of a GPU's memory wait for being retired",
        meaning=(
            "The memory had errors, and the driver wants to take the pages out of use. They are "
            "still in use until the driver is loaded anew."
        ),
        evidence="nvmlDeviceGetRetiredPagesPendingStatus, and the retired pages by cause.",
        causes=(
            "A double bit error, or two single bit errors at one address, since the driver was "
            "loaded (GPUs before Ampere).",
        ),
        repair=(
            "Drain the node, then `nvidia-smi --gpu-reset -i SLOT`, or restart the node.",
            "Read what was retired: `nvidia-smi -q -d PAGE_RETIREMENT -i SLOT`.",
            "With 60 pages or more, or more after each run, have the GPU replaced.",
        ),
        source="NVIDIA Dynamic Page Retirement, NVML API reference",
    ),
    Entry(
        code="GPU-RESET-NEEDED",
        title="The driver asks for a reset of a GPU or a restart of the node",
        meaning=(
            "After an error the driver tells what brings the GPU back to order. Until then it may "
            "refuse work, compute wrongly, or lack its NVLinks."
        ),
        evidence="The recovery action that NVML tells (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION).",
        causes=(
            "An error of the GPU since it was started; the kernel log has an Xid about it, and "
            "154 when the action changed.",
            "Memory waits for being replaced by spare rows.",
        ),
        repair=(
            "Read: `nvidia-smi -q -i SLOT | grep -i 'recovery action'`; `dmesg | grep -i xid`.",
            "Drain the node and do what is asked: `nvidia-smi --gpu-reset -i SLOT`, or restart it.",
            "If the driver asks again after the next run, have the GPU replaced.",
        ),
        source="NVML API reference (nvmlDeviceGpuRecoveryAction_t), NVIDIA Xid catalogue (154)",
    ),
    Entry(
        code="GPU-XID",
        title="The driver logged an error of a GPU",
        meaning=(
            "Xid is the number that NVIDIA's driver gives an error. Since the start of the node "
            "those count that call for a reset or a repair; during this run all do but mere "
            "notices, since nothing else was to run on the GPU."
        ),
        evidence="Number, class, meaning and text of the Xid; when it was (kernel log, or NVML).",
        causes=(
            "Class hardware: the GPU, its memory, its NVLinks, its slot or its power failed.",
            "Class driver: an error of the driver or of the GPU's firmware.",
            "Class application: a program did something illegal; during this run, the checks "
            "themselves or a program that should not have been there.",
            "An old message: the GPU was reset since, but the node not restarted.",
        ),
        repair=(
            "Look the number up in NVIDIA's Xid catalogue; what comes before: "
            "`dmesg -T | grep -B5 -i xid`.",
            "Hardware: drain the node, reset the GPU (`nvidia-smi --gpu-reset -i SLOT`) or restart "
            "the node, and run the checks again.",
            "79: read power, heat and the seat of the board in the management controller's log "
            "(`ipmitool sel elist`); power the node off and on.",
            "119 and 120: update the driver and the GPU's firmware.",
            "If it comes back after a restart, have the GPU replaced.",
        ),
        source="NVIDIA Xid errors (Xid catalogue)",
    ),
    Entry(
        code="GPU-THROTTLED",
        title="A GPU slows its clocks, although its work does not ask for it",
        meaning=(
            "While data was copied to it, the GPU held its clocks down because of heat, or "
            "because the board or the system told it to. It computes slower than its like."
        ),
        evidence=(
            "nvmlDeviceGetCurrentClocksEventReasons under load: hw_slowdown, hw_thermal, "
            "hw_power_brake or sw_thermal; clocks, power and temperatures beside them."
        ),
        causes=(
            "hw_thermal, sw_thermal: too hot. A fan or a pump stands, the air's way is blocked, "
            "the heat sink is loose.",
            "hw_power_brake: the system asks for less power. A power supply failed or is not "
            "plugged in, or the rack's power is capped.",
            "hw_slowdown alone: heat or power, as told by the board.",
        ),
        repair=(
            "Read: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i SLOT`.",
            "Compare the temperature with other GPUs of the node and with other nodes.",
            "Read fans and power supplies: `ipmitool sdr`; `ipmitool sel elist`.",
            "Repair cooling or power, then run the checks again.",
        ),
        source="NVML API reference (nvmlClocksEventReasons)",
    ),
)
