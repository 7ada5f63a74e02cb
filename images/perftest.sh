# perftest.sh TARGET: builds those programs of perftest that gdrcheck runs, with CUDA, into TARGET.
#
# From the distribution's source; of CUDA only cuda.h is there. The programs find the driver's
# libcuda.so.1 on the node: without one they do not start, so the distribution's stay beside them.
set -eu
target=$1
build=/opt/gdrcheck/build
. "$build/apt.sh"

for list in /etc/apt/sources.list.d/*.sources; do
    if [ -f "$list" ]; then sed -i 's/^Types: deb$/Types: deb deb-src/' "$list"; fi
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -s "$list" ]; then sed -i 's/^deb \(.*\)$/deb \1\ndeb-src \1/' "$list"; fi
done
apt_update
apt_install autoconf automake gcc libc6-dev libibumad-dev libibverbs-dev libpci-dev librdmacm-dev \
    libtool make pkg-config xz-utils

if [ -s /run/gdrcheck/ca.pem ]; then export PIP_CERT=/run/gdrcheck/ca.pem; fi
if [ -s /run/gdrcheck/pip.conf ]; then export PIP_CONFIG_FILE=/run/gdrcheck/pip.conf; fi
/tmp/pip/bin/pip install --disable-pip-version-check --no-cache-dir --root-user-action=ignore \
    --require-hashes --no-deps --only-binary :all: --no-compile \
    --target /tmp/cuda --requirement "$build/cuda-headers.txt"

cd "$(mktemp -d)"
# The archive's signature covers each file. Only the tarball is needed, and some mirrors do not pass
# on the .dsc beside it.
apt-get source --quiet --download-only perftest || ls perftest_*.orig.tar.*
tar --extract --strip-components=1 --file perftest_*.orig.tar.*

# stub FUNCTION...: a libcuda to link against.
stub() {
    for function; do echo "int $function(void) { return 999; }"; done |
        gcc -x c -shared -fPIC -Wl,-soname,libcuda.so.1 -o /tmp/cuda/libcuda.so -
}
# What ./configure asks for, then what the code calls.
stub cuMemGetHandleForAddressRange
./autogen.sh
./configure --quiet LDFLAGS=-L/tmp/cuda \
    CUDA_H_PATH=/tmp/cuda/nvidia/cuda_runtime/include/cuda.h
grep '^#define HAVE_CUDA 1' config.h
grep '^#define HAVE_CUDA_DMABUF 1' config.h
make --silent src/cuda_memory.o
stub $(nm --undefined-only src/cuda_memory.o | grep -o '\bcu[A-Z][A-Za-z0-9_]*')
make --silent ib_write_bw ib_send_lat

mkdir -p "$target"
strip -o "$target/ib_write_bw" ib_write_bw
strip -o "$target/ib_send_lat" ib_send_lat
chmod -R a+rX "$target"
