# wheels.sh TARGET: installs the locked requirements into TARGET, with the distribution's Python.
set -eu
target=$1
build=/opt/gdrcheck/build
. "$build/apt.sh"

apt_update
apt_install python3 python3-venv
python3 -m venv /tmp/pip

if [ -s /run/gdrcheck/ca.pem ]; then export PIP_CERT=/run/gdrcheck/ca.pem; fi
if [ -s /run/gdrcheck/pip.conf ]; then export PIP_CONFIG_FILE=/run/gdrcheck/pip.conf; fi
/tmp/pip/bin/pip install --disable-pip-version-check --no-cache-dir --root-user-action=ignore \
    --require-hashes --no-deps --only-binary :all: --no-compile \
    --target "$target" --requirement "$build/requirements.txt"

# Commands with this stage's interpreter in their first line; nothing calls them.
rm -rf "$target/bin"
# Sources for those who compile against the package.
find "$target" \( -name '*.pxd' -o -name '*.pyx' -o -name '*.in' \) -delete
# The project itself is not a wheel: its code changes too often for this layer.
echo /opt/gdrcheck > "$target/gdrcheck.pth"
python3 -m compileall -q --invalidation-mode unchecked-hash "$target"
chmod -R a+rX "$target"
