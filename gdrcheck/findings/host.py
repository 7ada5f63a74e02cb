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
            "The container was started without --cap-add IPC_LOCK.",
            "The container runs as a user other than root: the capability is then in the bounding "
            "set only, and not effective.",
            "A security policy of the engine or of the cluster takes the capability away.",
        ),
        repair=(
            "Compare: grep -E 'CapEff|CapBnd' /proc/self/status inside the container.",
            "Start the container as root with --cap-add IPC_LOCK, or with --ulimit memlock=-1:-1.",
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
            "The container engine's default limit is in force, for want of --ulimit memlock=-1:-1.",
            "The service that starts the containers has LimitMEMLOCK set, and the hard limit "
            "cannot be raised from inside.",
            "A line in /etc/security/limits.conf limits the user.",
        ),
        repair=(
            "Read the limit where the container runs: grep locked /proc/self/limits.",
            "Start the container with --ulimit memlock=-1:-1.",
            "Set LimitMEMLOCK=infinity in the unit of the engine or of the batch system, then "
            "restart it.",
        ),
        source="getrlimit(2), systemd.exec(5), limits.conf(5)",
    ),
)
