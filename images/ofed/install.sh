# Installs Python and the RDMA user space: OFED=inbox, or OFED=doca with DOCA_SOURCE.
set -eu
build=/opt/gdrcheck/build
. "$build/apt.sh"

if [ ! -f "$build/ofed/$OFED.sh" ]; then
    echo "OFED=$OFED is not known; it is one of: inbox, doca" >&2
    exit 1
fi
. "$build/ofed/$OFED.sh"

apt_update
ofed_prepare
apt_install python3 \
    ibverbs-providers ibverbs-utils infiniband-diags libibverbs1 librdmacm1 perftest \
    python3-pyverbs rdmacm-utils
apt_clean
