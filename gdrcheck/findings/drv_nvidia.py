"""Codes about NVIDIA's driver as a whole. ``drv`` takes them in."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="DRV-NVIDIA-MISSING",
        title="NVIDIA's driver is not loaded",
        meaning=(
            "The profile promises GPUs, and NVIDIA's kernel driver is not there. Everything that "
            "needs a GPU is blocked by this finding."
        ),
        evidence=(
            "/sys/module/nvidia, /proc/driver/nvidia, /dev/nvidiactl, the driver that each GPU "
            "is bound to, and what lies on the host's disk."
        ),
        causes=(
            "The driver is not installed, or not for the running kernel (DKMS after an update).",
            "Another driver holds the GPUs: nouveau, or vfio-pci for a virtual machine.",
            "The kernel refused the module: no signature with Secure Boot, or a GPU that this "
            "version does not support.",
            "On Kubernetes the pod that loads the driver has not finished.",
        ),
        repair=(
            "Read which driver has the GPUs: `lspci -nnk -d 10de:`.",
            "Try it on the host: `modprobe nvidia`, then "
            "`dmesg | grep -i -E 'nvrm|nvidia' | tail`.",
            "Install the driver for this kernel (`uname -r`; `dkms status`).",
            "Refused with Secure Boot on (`mokutil --sb-state`): enrol the key that the module is "
            "signed with.",
            "Blacklist nouveau in /etc/modprobe.d and rebuild the initial RAM disk "
            "(`update-initramfs -u`, or `dracut -f`), or give the GPUs back from vfio-pci; then "
            "restart the node.",
        ),
        source="README of NVIDIA's Linux driver, modprobe(8), mokutil(1)",
    ),
    Entry(
        code="DRV-NVIDIA-VERSION",
        title="NVIDIA's driver is of another version than promised",
        meaning=(
            "The loaded kernel driver is not of the version that the profile promises. Nodes of "
            "one group with different drivers fail in different ways."
        ),
        evidence="/proc/driver/nvidia/version, or /sys/module/nvidia/version.",
        causes=(
            "The node was left out of an upgrade, or an automatic update took it along.",
            "The new version is installed, and the old one still loaded.",
            "The profile was not brought up to date.",
        ),
        repair=(
            "Compare: `head -1 /proc/driver/nvidia/version` (loaded); "
            "`modinfo -F version nvidia` (installed).",
            "Install the promised version, and the fabric manager of the same version where there "
            "is one; then restart the node.",
            "Or correct expect.driver in the profile.",
        ),
        source="README of NVIDIA's Linux driver",
    ),
    Entry(
        code="DRV-NVIDIA-PROPRIETARY",
        title="NVIDIA's kernel module is not of the promised kind",
        meaning=(
            "There is an open and a proprietary kernel module of the same driver. Only the open "
            "one can export GPU memory as a dma-buf, and GPUs from Blackwell on need it."
        ),
        evidence="The first line of /proc/driver/nvidia/version.",
        causes=(
            "The proprietary package was installed, which older guides and some distributions "
            "choose.",
            "An upgrade changed from one kind to the other.",
            "The profile's expect.open_module is wrong.",
        ),
        repair=(
            "Read what is loaded: `head -1 /proc/driver/nvidia/version` (the open one says so).",
            "Read what is installed: `modinfo -F license nvidia` (Dual MIT/GPL is the open one).",
            "Install the other kind (for example nvidia-open, or nvidia-driver-VERSION-server-open "
            "on Ubuntu), and restart the node. GPUs older than Turing have no open one.",
            "Or correct expect.open_module in the profile.",
        ),
        source="README of NVIDIA's Linux driver, chapter on open kernel modules",
    ),
    Entry(
        code="DRV-CUDA-OLD",
        title="The driver supports too old a version of CUDA",
        meaning=(
            "The newest CUDA version that NVIDIA's driver supports is older than promised. "
            "Programs that were built with the promised version do not start."
        ),
        evidence="NVML's answer about the driver's CUDA version (`nvidia-smi` shows the same).",
        causes=(
            "The driver is older than the rest of the group's.",
            "The profile promises the version of a toolkit that needs a newer driver.",
        ),
        repair=(
            "Read it on the host: `nvidia-smi` (first lines: CUDA Version).",
            "Install a newer driver; CUDA's release notes list the least version for each.",
            "Or correct expect.cuda in the profile.",
        ),
        source="nvmlSystemGetCudaDriverVersion, CUDA release notes",
    ),
    Entry(
        code="DRV-FABRIC-MANAGER",
        title="The NVSwitch fabric is not ready",
        meaning=(
            "On machines with NVSwitches a service configures the fabric after the driver is "
            "loaded. Until that is complete CUDA does not start (error 802, system not yet "
            "initialized). Also: the service is not in the state that the profile promises."
        ),
        evidence=(
            "NVML's fabric state of each GPU, where one applies, the NVSwitches on PCI, and the "
            "state of nvidia-fabricmanager.service by the host collector."
        ),
        causes=(
            "The service is not installed or not enabled.",
            "Its version differs from the driver's: it must be the same, to the last number.",
            "HGX B200 and newer: the package nvlsm is not installed, or the module ib_umad is not "
            "loaded, and the service does not start without them.",
            "An NVSwitch or an NVLink is faulty, and the service gave up.",
            "The fabric is still being configured: the node was started a moment ago.",
        ),
        repair=(
            "Read: `systemctl status nvidia-fabricmanager`; `nvidia-smi -q | grep -A 3 Fabric`.",
            "Install the version of the driver (nvidia-fabricmanager), then "
            "`systemctl enable --now nvidia-fabricmanager`.",
            "HGX B200 and newer: install nvlsm, `modprobe ib_umad` (permanently in "
            "/etc/modules-load.d), and start the service again.",
            "Read why it stopped, and which links and switches failed: "
            "`journalctl -b -u nvidia-fabricmanager`; /var/log/fabricmanager.log.",
            "Restart the node; if the same link or switch fails again, power it off and on, then "
            "have the board replaced.",
        ),
        source="NVIDIA's Fabric Manager user guide, nvmlDeviceGetGpuFabricInfo",
    ),
)
