"""Codes about CUDA on a node, and about each GPU in it."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-CUDA-FAILED",
        title="A call of the CUDA driver fails",
        meaning=(
            "CUDA does not start, does not open the GPU or does not do what was asked for, with an "
            "error that no other code stands for."
        ),
        evidence="The call, name and number of the error, what it means, candidates.",
        causes=(
            "libcuda.so.1 is not in the container: it was started without the GPUs.",
            "The module nvidia_uvm is not loaded, or /dev/nvidia-uvm is not in the container "
            "(CUDA_ERROR_UNKNOWN).",
            "A process holds the GPU alone, or its compute mode is prohibited "
            "(CUDA_ERROR_DEVICE_UNAVAILABLE).",
            "The GPU had an error: an Xid in the kernel log (launch failed, uncorrectable ECC).",
        ),
        repair=(
            "Read the kernel's messages: `dmesg | grep -i -E 'NVRM|Xid' | tail`.",
            "See what the container has: `ls -l /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm`.",
            "Load the module on the host: `modprobe nvidia_uvm`.",
            "Read the compute mode: `nvidia-smi --query-gpu=index,compute_mode --format=csv`; "
            "`nvidia-smi -i SLOT -c DEFAULT` sets the usual one.",
            "Generate the CDI file again: `nvidia-ctk cdi generate "
            "--output=/etc/cdi/nvidia.yaml`, and start with `--device nvidia.com/gpu=all`.",
        ),
        source="CUDA driver API (CUresult), NVIDIA Container Toolkit documentation",
    ),
    Entry(
        code="GPU-CUDA-DRIVER-OLD",
        title="NVIDIA's driver is too old for the CUDA in this image",
        meaning=(
            "The host's driver does not have the calls, or does not load the kernels, that this "
            "image uses. It is the same for all GPUs of the node; they may be in good order."
        ),
        evidence="The CUDA version of the driver, the one that is needed, the CUDA error.",
        causes=(
            "The driver is older than 525, the first one for CUDA 12.",
            "The image is for newer drivers than the cluster has.",
        ),
        repair=(
            "Use an image of gdrcheck that is made for this driver.",
            "Read the version on the host: `nvidia-smi` (first lines: CUDA Version).",
            "Or install a newer driver: CUDA's release notes list the least one for each version.",
        ),
        source="CUDA driver API (cuDriverGetVersion), CUDA compatibility guide",
    ),
    Entry(
        code="GPU-CUDA-FABRIC",
        title="CUDA does not start: the system is not yet initialized (error 802)",
        meaning=(
            "The GPUs belong to an NVSwitch fabric that is not configured. NVML works, and CUDA "
            "starts on none of them."
        ),
        evidence=(
            "CUDA error 802, the state of nvidia-fabricmanager.service, NVML's fabric state of "
            "each GPU, the NVSwitches."
        ),
        causes=(
            "nvidia-fabricmanager does not run, or gave up.",
            "Its version differs from the driver's: it must be the same, to the last number.",
            "HGX B200 and newer: nvlsm is not installed, or ib_umad is not loaded.",
            "An NVSwitch or an NVLink is faulty.",
            "The node was started a moment ago, and the fabric is being configured.",
        ),
        repair=(
            "Read: `systemctl status nvidia-fabricmanager`; `nvidia-smi -q | grep -A 3 Fabric`.",
            "Start it, once and at each boot: `systemctl enable --now nvidia-fabricmanager`.",
            "Compare versions: `nv-fabricmanager --version`; `head -1 "
            "/proc/driver/nvidia/version`.",
            "HGX B200 and newer: install nvlsm, `modprobe ib_umad`, and start the service again.",
            "Read why it stopped: `journalctl -b -u nvidia-fabricmanager`; "
            "/var/log/fabricmanager.log.",
        ),
        source="CUDA driver API (CUDA_ERROR_SYSTEM_NOT_READY), NVIDIA's Fabric Manager user guide",
    ),
    Entry(
        code="GPU-CUDA-MISMATCH",
        title="libcuda in the container does not fit the kernel driver",
        meaning=(
            "The libcuda.so.1 that was loaded is not the one of the loaded kernel module (errors "
            "803 and 804), or is a stub for building programs. CUDA starts on no GPU."
        ),
        evidence="The CUDA error, and the version of the kernel module.",
        causes=(
            "The driver was upgraded, and the old kernel module is still loaded.",
            "The CDI file is of the old driver, so that old libraries come into the container.",
            "The image brings a libcuda of its own: a compatibility package, or the toolkit's "
            "stub.",
        ),
        repair=(
            "Compare: `head -1 /proc/driver/nvidia/version`; `modinfo -F version nvidia`.",
            "They differ: restart the node, or unload and load the modules.",
            "Generate the CDI file again: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`.",
            "See which libcuda the container has: `ldconfig -p | grep libcuda`; unset "
            "LD_LIBRARY_PATH if it names a compat or stubs folder.",
        ),
        source="CUDA driver API (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_STUB_LIBRARY), CUDA compatibility "
        "guide",
    ),
    Entry(
        code="GPU-CUDA-NONE",
        title="CUDA shows no GPU at all",
        meaning=(
            "The driver answers and NVML shows GPUs, and CUDA has none in this process. All that "
            "needs a GPU is blocked by this finding."
        ),
        evidence="GPUs that NVML shows, CUDA_VISIBLE_DEVICES, module nvidia_uvm.",
        causes=(
            "CUDA_VISIBLE_DEVICES is set, and empty or wrong.",
            "The container's list of allowed devices has /dev/nvidiactl, but no GPU.",
            "MIG is on, and no GPU has a MIG device.",
            "The GPUs are in a state in which CUDA does not start them (fabric, reset required).",
        ),
        repair=(
            "Read it in the container: `env | grep VISIBLE_DEVICES`; unset it.",
            "See what the container has: `ls -l /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm`.",
            "Start with all of them: `--device nvidia.com/gpu=all`.",
            "Read the MIG mode and the devices: `nvidia-smi -L`.",
            "Read the kernel's messages: `dmesg | grep -i -E 'NVRM|Xid' | tail`.",
        ),
        source="CUDA driver API (cuInit, cuDeviceGetCount), CUDA C++ Programming Guide "
        "(environment variables)",
    ),
    Entry(
        code="GPU-CUDA-UNSEEN",
        title="CUDA does not show a GPU that the driver shows",
        meaning=(
            "The GPU is on PCI and NVML answers for it, and it is not among CUDA's devices in this "
            "process: it was looked for by UUID and PCI address. Nothing can run on it."
        ),
        evidence=(
            "CUDA's devices with address and UUID, CUDA_VISIBLE_DEVICES, MIG mode and devices, "
            "compute mode."
        ),
        causes=(
            "CUDA_VISIBLE_DEVICES names only some of the GPUs.",
            "MIG is on, and the GPU has no MIG device that this container was given. CUDA shows "
            "one MIG device to a process.",
            "The container's list of allowed devices lacks this GPU's node.",
            "Its compute mode is prohibited.",
        ),
        repair=(
            "Read it in the container: `env | grep VISIBLE_DEVICES`; unset it.",
            "Read MIG and compute mode: `nvidia-smi "
            "--query-gpu=pci.bus_id,mig.mode.current,compute_mode --format=csv`.",
            "MIG not wanted: drain the node, then `nvidia-smi -i SLOT -mig 0`.",
            "Prohibited: `nvidia-smi -i SLOT -c DEFAULT`.",
            "Start with all of them: `--device nvidia.com/gpu=all`.",
        ),
        source="CUDA C++ Programming Guide (environment variables, compute modes), NVIDIA "
        "Multi-Instance GPU User Guide",
    ),
    Entry(
        code="GPU-GONE",
        title="A GPU stopped answering during the run",
        meaning=(
            "The driver answered for this GPU before, and then failed with an error that tells "
            "nothing else: as it does when a GPU falls off the bus or stops. Whatever uses the GPU "
            "later is blocked by this finding."
        ),
        evidence="The call and error, the kernel's lines about the GPU before the checks.",
        causes=(
            "The GPU fell off the bus (Xid 79), by power, heat or a bad connection.",
            "The GPU or its firmware stopped (Xid 119, 120, 154: reset required).",
            "Somebody reset the GPU, or unbound its driver, while the checks ran.",
            "A fault of the driver.",
        ),
        repair=(
            "Read the kernel's messages: `dmesg -T | grep -i -E 'Xid|fallen off' | tail`.",
            "See whether it answers now: `nvidia-smi -i SLOT`; `lspci -s SLOT`.",
            "Drain the node, then `nvidia-smi --gpu-reset -i SLOT`; if that fails, restart it, or "
            "power it off and on.",
            "Read power and heat: `ipmitool sel elist`; `nvidia-smi -q -d TEMPERATURE,POWER`.",
            "If it happens again, have the GPU replaced.",
        ),
        source="NVIDIA Xid catalogue, CUDA driver API (CUresult)",
    ),
    Entry(
        code="GPU-MEMORY-FULL",
        title="The GPU has too little free memory for the checks",
        meaning=(
            "CUDA could not allocate memory on the GPU, or not even open it. A drained GPU has "
            "nearly all of its memory free."
        ),
        evidence="The call and error, the GPU's memory, the processes that NVML shows on it.",
        causes=(
            "Another process uses the GPU's memory.",
            "A process that was killed left its memory behind: it is still ending.",
            "The MIG device is a small one.",
        ),
        repair=(
            "List who uses it: `nvidia-smi --query-compute-apps=gpu_bus_id,pid,used_memory "
            "--format=csv`.",
            "Drain the node, end those processes, and run the checks again.",
            "Nobody, and still full: look for processes in state D (`ps -eo stat,pid,cmd | grep "
            "'^D'`), then `nvidia-smi --gpu-reset -i SLOT`, or restart the node.",
        ),
        source="CUDA driver API (cuMemAlloc, CUDA_ERROR_OUT_OF_MEMORY)",
    ),
)
