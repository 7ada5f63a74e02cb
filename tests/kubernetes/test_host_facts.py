"""The host collector as the component host-facts starts it: in a container, about the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.rendering import REPOSITORY

# In a mount namespace of its own /etc is another one, and what is written is out of others' sight.
CONTAINER = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/out" "$1/etc"
echo 'PRETTY_NAME="Of the container"' >"$1/etc/os-release"
mount --bind "$1/etc" /etc
"$2" -m gdrcheck.host_collector --out "$1/out" --mounts-of "$3" >&2
cd "$1/out"
cat host.json 2>/dev/null || cat failure.txt
"""


def collected(folder: Path, process: str, *namespaces: str) -> subprocess.CompletedProcess[str]:
    """What the collector left, in namespaces of its own."""
    return subprocess.run(
        [
            *("unshare", "--mount", *namespaces, "sh", "-c", CONTAINER, "sh"),
            *(str(folder), sys.executable, process),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="entering the mounts of a process takes root")
def test_it_reads_what_the_hosts_process_sees(tmp_path: Path) -> None:
    done = collected(tmp_path, f"/proc/{os.getpid()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["os"] != "Of the container"
    own = Path("/etc/os-release").read_text()
    assert found["os"] == own.partition('PRETTY_NAME="')[2].partition('"')[0]
    assert list(tmp_path.iterdir()) == []


def test_why_it_may_not_is_left_for_the_checks(tmp_path: Path) -> None:
    process = f"/proc/{os.getpid()}"
    done = collected(tmp_path, process, "--user", "--map-root-user")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{process}/ns/mnt: ")
    assert "Operation not permitted" in done.stdout or "Permission denied" in done.stdout


def test_no_reason_can_be_left_where_nothing_can_be_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "gdrcheck.host_collector", "--out", tmp_path / "none"),
            *("--mounts-of", "/proc/self"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"--out: {tmp_path / 'none'}: No such file or directory" in done.stderr
