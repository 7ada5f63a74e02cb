"""Codes about GPUs, on one node."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="GPU-MISSING",
        title="A GPU that the profile promises is not there",
        meaning=(
            "PCI shows fewer of NVIDIA's GPUs than the profile promises. GPUs are numbered in PCI "
            "order, so it is always the last numbers that are missing: compare the slots with "
            "those of a good node to see which board it is."
        ),
        evidence="NVIDIA's display functions in /sys/bus/pci/devices, and gpus.count.",
        causes=(
            "The GPU did not come up at boot, or fell off the bus and the slot was removed.",
            "The board is not seated, has no power, or is switched off in the firmware.",
            "A PCIe switch or a riser above it is down: several GPUs are missing together.",
            "In a virtual machine: the hypervisor does not pass the GPU through.",
            "gpus.count is too large for this node.",
        ),
        repair=(
            "List what there is, here and on a good node: `lspci -Dnn -d 10de:`.",
            "Read the kernel's messages: `dmesg | grep -i -E 'pcie|10de|NVRM'`.",
            "Read the management controller's log (power, temperature, presence of the board): "
            "`ipmitool sel elist`.",
            "Power the node off and on, at the mains if the board has power of its own; a warm "
            "reboot does not reset all boards.",
            "Reseat the board or have it replaced.",
            "If the node has fewer GPUs by design, correct gpus.count in the profile.",
        ),
        source="PCI Code and ID Assignment Specification (class 03h), lspci(8)",
    ),
    Entry(
        code="GPU-EXTRA",
        title="There are more GPUs than the profile promises",
        meaning=(
            "PCI shows more of NVIDIA's GPUs than the profile promises. The first ones in PCI "
            "order were taken for the promised ones, which may be the wrong ones. How far the GPUs "
            "and NICs of rails are apart was not judged."
        ),
        evidence="NVIDIA's display functions in /sys/bus/pci/devices, and gpus.count.",
        causes=(
            "gpus.count is too small, or the node belongs to another group of the inventory.",
            "A display adapter of NVIDIA's is in the node beside the compute GPUs.",
            "Virtual functions of a GPU (SR-IOV, vGPU) were switched on.",
        ),
        repair=(
            "List them: `lspci -Dnn -d 10de:`; `nvidia-smi -L`.",
            "Correct gpus.count, or move the node to the group that it belongs to.",
            "Remove what should not be there; switch virtual functions off: "
            "`/usr/lib/nvidia/sriov-manage -d SLOT`.",
        ),
        source="PCI Code and ID Assignment Specification (class 03h), gdrcheck's own rule: the "
        "count in the profile is exact",
    ),
    Entry(
        code="GPU-NVML-FAILED",
        title="NVIDIA's driver is loaded, but NVML cannot be asked",
        meaning=(
            "NVML, the driver's management library, does not answer in this container: nothing "
            "can be said of any GPU. All checks of the GPUs are blocked by this finding."
        ),
        evidence="NVML's error, or what the process that asks it was doing when its time was up.",
        causes=(
            "The container was started without the GPUs: libnvidia-ml.so.1 or /dev/nvidiactl is "
            "not in it (NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED).",
            "The driver was upgraded and the old kernel module is still loaded "
            "(NVML_ERROR_LIB_RM_VERSION_MISMATCH).",
            "A GPU hangs, and with it every call into the driver (no answer within the deadline).",
            "The device nodes are not allowed to this user or this cgroup "
            "(NVML_ERROR_NO_PERMISSION, NVML_ERROR_UNKNOWN).",
            "The image lacks the Python package nvidia-ml-py.",
        ),
        repair=(
            "Run `nvidia-smi` on the host. If it fails there too, it is the driver.",
            "Works on the host: generate the CDI file again (`nvidia-ctk cdi generate "
            "--output=/etc/cdi/nvidia.yaml`) and start with `--device nvidia.com/gpu=all`.",
            "Version mismatch: restart the node, or unload and load the modules; compare "
            "`head -1 /proc/driver/nvidia/version` with `modinfo -F version nvidia`.",
            "No answer: `dmesg | grep -i -E 'NVRM|Xid'`; processes in state D "
            "(`ps -eo stat,pid,cmd | grep '^D'`) need a restart of the node.",
            "No permission: start the container anew, since `systemctl daemon-reload` on the host "
            "can take the GPUs from one that runs.",
            "Library found, but not the package: `python3 -c 'import pynvml'` in the image; use "
            "an image that has it.",
        ),
        source="NVML API reference (nvmlReturn_t), NVIDIA Container Toolkit documentation",
    ),
    Entry(
        code="GPU-LOST",
        title="A GPU is on PCI, but the driver does not answer for it",
        meaning=(
            "The GPU's PCI function exists and NVML answers for the node, but not for this GPU. "
            "Nothing can run on it."
        ),
        evidence="NVML's error for the GPU, the kernel's driver of the function, Xid messages.",
        causes=(
            "The GPU fell off the bus (Xid 79) or waits for a reset (NVML_ERROR_GPU_IS_LOST, "
            "NVML_ERROR_RESET_REQUIRED).",
            "The driver could not start it (RmInitAdapter failed): firmware, power, heat, memory.",
            "The container was given only some of the node's GPUs.",
            "The function is bound to another driver (vfio-pci, nouveau), or to none.",
        ),
        repair=(
            "Compare `nvidia-smi -L` on the host with the list in the container.",
            "Missing in the container only: pass all GPUs in with `--device nvidia.com/gpu=all`.",
            "Read the kernel's messages: `dmesg | grep -i -E 'Xid|RmInitAdapter|fallen off'`.",
            "Read the driver of the function: `lspci -k -s SLOT`.",
            "Drain the node, then `nvidia-smi --gpu-reset -i SLOT`; if that fails, restart the "
            "node, or power it off and on.",
            "If it comes back lost, have the GPU replaced.",
        ),
        source="NVIDIA Xid catalogue (79), NVML API reference (nvmlReturn_t)",
    ),
    Entry(
        code="GPU-MODEL",
        title="A GPU is not of the promised model",
        meaning="The driver's name for the GPU does not match the pattern of the profile.",
        evidence="nvmlDeviceGetName, and gpus.model.",
        causes=(
            "The node belongs to another group of the inventory.",
            "The profile names the model otherwise than the driver does.",
            "A board was replaced by one of another kind (memory size, form factor).",
            "The GPU is a vGPU, whose name ends with its profile.",
        ),
        repair=(
            "Read the names: `nvidia-smi -L`.",
            "Correct gpus.model: it is the driver's name, and may have `*` in it.",
            "If the board is another one, have it replaced.",
        ),
        source="NVML API reference (nvmlDeviceGetName)",
    ),
    Entry(
        code="GPU-MIG",
        title="A GPU is not in the promised MIG mode",
        meaning=(
            "MIG splits a GPU into devices of their own. With it on, there is no peer-to-peer "
            "between GPUs and each device reaches a part of the memory; with it off, programs "
            "that expect MIG devices do not start."
        ),
        evidence="nvmlDeviceGetMigMode (the mode in force), the number of MIG devices.",
        causes=(
            "MIG was switched for another use of the node and not switched back.",
            "The mode was changed, but the GPU was not reset since.",
            "The operator or the partition manager of the cluster has another configuration.",
        ),
        repair=(
            "Read: `nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv`.",
            "Drain the node, then `nvidia-smi -i SLOT -mig 0` (or `-mig 1`).",
            "If the mode stays pending: `nvidia-smi --gpu-reset -i SLOT`, or restart the node.",
            "On, but without the devices: make them again (`nvidia-smi mig -i SLOT -cgi PROFILE "
            "-C`); they do not outlast a restart.",
            "Under Kubernetes correct the label nvidia.com/mig.config of the node.",
        ),
        source="NVIDIA Multi-Instance GPU User Guide, NVML API reference (nvmlDeviceGetMigMode)",
    ),
    Entry(
        code="GPU-BAR1-SMALL",
        title="A GPU's BAR1 is smaller than promised",
        meaning=(
            "BAR1 is the window through which NICs reach the GPU's memory over PCIe. When it is "
            "smaller than the memory, registrations beyond its size fail (EFAULT, ENOMEM)."
        ),
        evidence="nvmlDeviceGetBAR1MemoryInfo, and expect.bar1_bytes.",
        causes=(
            "Addressing above 4 GiB or resizable BARs are switched off in the firmware.",
            "In a virtual machine: the window for PCI memory is too small, so that the guest's "
            "firmware could not place the full BAR.",
            "The GPU is of a kind, or in a display mode, that has a BAR1 of 256 MiB only.",
        ),
        repair=(
            "Read it as root: `nvidia-smi -q -d MEMORY -i SLOT` (BAR1); "
            "`lspci -vv -s SLOT` (Region 1).",
            "Look for lack of address space: `dmesg | grep -E 'BAR [0-9].*(no space|fail)'`.",
            "Firmware set-up: switch on Above 4G Decoding and Re-Size BAR Support.",
            "Virtual machine: enlarge the 64-bit PCI window of the guest's firmware (OVMF: "
            "opt/ovmf/X-PciMmio64Mb).",
            "Boards with a choice of display modes: `displaymodeselector --gpumode "
            "physical_display_disabled`, card by card; it switches the display outputs off.",
        ),
        source="NVIDIA GPUDirect RDMA documentation (BAR sizes), NVML API reference",
    ),
)
