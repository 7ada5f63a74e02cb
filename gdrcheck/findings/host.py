"""Codes about the operating system and the container that the checks run in."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="HOST-CAP-IPCLOCK",
        title="CAP_IPC_LOCK is missing or has no effect",
        meaning=(
            "The process neither holds CAP_IPC_LOCK as an effective capability nor has an "
            "unlimited memlock limit, so the kernel refuses to pin more memory than the limit "
            "allows. Registering memory with a NIC pins it."
        ),
        evidence=(
            "Bit 14 of CapEff in /proc/self/status, the user id, RLIMIT_MEMLOCK, and the outcome "
            "of registering more memory than the kernel's default limit."
        ),
        causes=(
            "The container was started without `--cap-add IPC_LOCK`.",
            "The container runs as a user other than root: the capability is then in the bounding "
            "set only, and not effective.",
            "A security policy of the engine or of the cluster takes the capability away.",
        ),
        repair=(
            "Compare inside the container: `grep -E 'CapEff|CapBnd' /proc/self/status`.",
            "Start the container as root with `--cap-add IPC_LOCK`, or with "
            "`--ulimit memlock=-1:-1`.",
            "On Kubernetes add IPC_LOCK to securityContext.capabilities and run as user 0, or "
            "raise the memlock limit of the container runtime's service.",
        ),
        source="capabilities(7), getrlimit(2), Linux drivers/infiniband/core/umem.c",
    ),
    Entry(
        code="HOST-MEMLOCK-LIMIT",
        title="The limit on locked memory is too small",
        meaning=(
            "RLIMIT_MEMLOCK is finite and smaller than what has to be registered, and no "
            "capability lifts it. Small registrations work and large ones fail with ENOMEM, "
            "although memory is free."
        ),
        evidence=(
            "Soft and hard RLIMIT_MEMLOCK as in /proc/self/limits, and the largest size that "
            "still registered."
        ),
        causes=(
            "The container engine's default limit is in force, for want of "
            "`--ulimit memlock=-1:-1`.",
            "The service that starts the containers has LimitMEMLOCK set, and the hard limit "
            "cannot be raised from inside.",
            "A line in /etc/security/limits.conf limits the user.",
        ),
        repair=(
            "Read the limit inside the container: `grep locked /proc/self/limits`.",
            "Start the container with `--ulimit memlock=-1:-1`.",
            "Set `LimitMEMLOCK=infinity` in the unit of the engine or of the batch system, then "
            "`systemctl daemon-reload`, and restart it.",
        ),
        source="getrlimit(2), systemd.exec(5), limits.conf(5)",
    ),
    Entry(
        code="HOST-OS",
        title="The node runs another distribution than promised",
        meaning=(
            "The distribution, or its version, is not the one that the profile promises. Nodes of "
            "one group that differ here differ in kernel, drivers and tuning as well."
        ),
        evidence="PRETTY_NAME of the host's /etc/os-release, by the host collector.",
        causes=(
            "The node was installed from another image, or was left out of an upgrade.",
            "An automatic update went to the next release.",
            "The profile belongs to another group of nodes.",
        ),
        repair=(
            "Read it on the node: `cat /etc/os-release`.",
            "Install the node again from the image of its group.",
            "Or correct expect.os in the profile.",
        ),
        source="os-release(5)",
    ),
    Entry(
        code="HOST-KERNEL",
        title="The node runs another kernel than promised",
        meaning=(
            "The running kernel's release does not match the profile. Drivers outside the kernel's "
            "own tree are built for one release, and tuning is measured with one."
        ),
        evidence="/proc/sys/kernel/osrelease.",
        causes=(
            "A new kernel was installed and the node was not restarted, or restarted too early.",
            "The boot loader starts another entry than the one that was meant.",
            "The node was left out of an upgrade.",
        ),
        repair=(
            "Compare the running kernel with the installed ones: `uname -r`; `ls /lib/modules`.",
            "Choose the entry in the boot loader and restart the node.",
            "Hold the package back (`apt-mark hold PACKAGE`, or `dnf versionlock add PACKAGE`), so "
            "that it does not happen again, or correct expect.kernel.",
        ),
        source="uname(2), proc_sys_kernel(5)",
    ),
    Entry(
        code="HOST-COMMAND-LINE",
        title="The kernel was started without a promised parameter",
        meaning=(
            "A word that the profile promises is not on the kernel's command line, for example "
            "`iommu=pt`. The setting that it stands for is then the kernel's default."
        ),
        evidence="/proc/cmdline.",
        causes=(
            "The boot loader's configuration was changed, and not written, or not on this node.",
            "The node was not restarted since.",
            "The parameter has another name on this kernel or processor.",
        ),
        repair=(
            "Read what the kernel was given: `cat /proc/cmdline`.",
            "Debian, Ubuntu: add the word to GRUB_CMDLINE_LINUX in /etc/default/grub, and run "
            "`update-grub`; files in /etc/default/grub.d win over it.",
            "Red Hat: `grubby --update-kernel=ALL --args=WORD`.",
            "Restart the node.",
            "Or correct expect.command_line in the profile.",
        ),
        source="Linux Documentation/admin-guide/kernel-parameters.txt",
    ),
    Entry(
        code="HOST-IOMMU",
        title="DMA addresses are not handled as promised",
        meaning=(
            "The IOMMU is off, passes addresses through, or translates them, other than the "
            "profile promises. With translation, transfers between GPU and NIC go through the "
            "root complex: slower, and on some machines faulty."
        ),
        evidence=(
            "The units in /sys/class/iommu and the types of the groups of NVIDIA's GPUs and of "
            "the network functions in /sys/kernel/iommu_groups."
        ),
        causes=(
            "The kernel's command line lacks `iommu=pt` (on Arm `iommu.passthrough=1`), or has it "
            "where it should not.",
            "The IOMMU is switched on, or off, in the firmware's setup (VT-d, AMD-Vi, SMMU).",
            "The kernel's built-in default differs: CONFIG_IOMMU_DEFAULT_PASSTHROUGH, or "
            "CONFIG_INTEL_IOMMU_DEFAULT_ON.",
            "Observed mixed: single functions were given another domain by hand, or by a quirk of "
            "the kernel.",
        ),
        repair=(
            "Read: `ls /sys/class/iommu`; `cat /sys/kernel/iommu_groups/*/type | sort | uniq -c`.",
            "To pass addresses through, put `iommu=pt` on the kernel's command line, on Arm "
            "`iommu.passthrough=1`, and restart the node.",
            "To translate: `iommu.passthrough=0`, and on Intel `intel_iommu=on` where the kernel "
            "does not switch it on by itself.",
            "To have none: `intel_iommu=off`, or `amd_iommu=off`; Arm has no such parameter, only "
            "the firmware's setup.",
            "Or change the setting in the firmware's setup, and compare it with a good node.",
            "Or correct expect.iommu in the profile.",
        ),
        source="Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups, "
        "Documentation/admin-guide/kernel-parameters.txt",
    ),
)
