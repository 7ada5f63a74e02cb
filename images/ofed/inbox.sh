# The distribution's own rdma-core, without what it depends on for a host's sake (77 MB): udev names
# devices and loads modules, which is the host's business, and its installation touches device
# nodes; perl runs a few old scripts of infiniband-diags.
ofed_prepare() {
    apt_without udev perl
}
