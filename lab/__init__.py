"""The Soft-RoCE lab: virtual nodes with real sshd, podman, RDMA verbs and PCIe topology, without
hardware.
"""
