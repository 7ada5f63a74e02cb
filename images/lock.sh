#!/usr/bin/env bash
# Regenerates the hash-locked requirements/*.txt from pyproject.toml.
#
#   images/lock.sh             keep the versions that are locked already, as far as they still fit
#   images/lock.sh --upgrade   move every package to its newest fitting version
#
# The index is the one that the machine is set up for; neither it nor a path goes into the files.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check uv

# lock NAME EXTRA... : the project's own dependencies and those of the extras. What dev.txt has is
# the version for all, so that what runs on the controller and in the image is what was tested.
lock() {
    local name=$1 out="requirements/$1.txt" constraint=()
    if [[ $name != dev ]]; then constraint=(--constraint requirements/dev.txt); fi
    shift
    local extras=()
    for extra in "$@"; do extras+=(--extra "$extra"); done
    "$scratch/venv/bin/uv" pip compile pyproject.toml "${extras[@]}" \
        --output-file "$out" "${upgrade[@]}" "${constraint[@]}" \
        --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
    sed -i "1i # The ${name} environment. Locked by images/lock.sh from pyproject.toml; do not edit." "$out"
    echo "$out: $(grep -c '==' "$out") packages"
}

upgrade=("$@")
lock dev controller dev
lock controller controller
lock image image

# The newer line of the driver's binding, which the tests run as well: it cannot be in one
# environment with the line of the image.
echo "cuda-bindings>=13,<14" | "$scratch/venv/bin/uv" pip compile - \
    --output-file requirements/cuda13.txt "${upgrade[@]}" \
    --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
sed -i "1i # cuda-bindings 13, for tests beside the locked 12. Locked by images/lock.sh; do not edit." \
    requirements/cuda13.txt

# cuda.h of the same line as the image's binding, to build perftest with: the image itself has none.
echo "nvidia-cuda-runtime-cu12>=12.9,<13" | "$scratch/venv/bin/uv" pip compile - \
    --output-file requirements/cuda-headers.txt "${upgrade[@]}" \
    --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
sed -i "1i # cuda.h, to build perftest with. Locked by images/lock.sh; do not edit." \
    requirements/cuda-headers.txt
