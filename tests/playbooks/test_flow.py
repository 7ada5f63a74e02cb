"""The whole way from preflight to verdict on one local node, with a FAKE engine (fake_bin/podman):
what the container does is decided here. Real containers on real nodes are in tests/lab."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from .conftest import FAKE_BIN, Place, free_port

SILENT_PORT = 1

GOOD = """#!/bin/sh
echo '{"exit_code": 0, "reason": "", "finished": true}' > "$OUT/done.json"
echo printed
"""


@pytest.fixture
def node(place: Place, tmp_path: Path) -> Place:
    """One local node on which everything is in order, as far as preflight looks."""
    root, engine = tmp_path / "root", tmp_path / "engine"
    (root / "dev/infiniband").mkdir(parents=True)
    for name in ("uverbs0", "uverbs1", "rdma_cm"):
        (root / "dev/infiniband" / name).touch()
    engine.mkdir()
    place.environment |= {
        "GDRCHECK_ROOT": str(root),
        "FAKE_ENGINE": str(engine),
        "PATH": f"{FAKE_BIN}:{os.environ['PATH']}",
    }
    place.write(
        "hosts.yml",
        "---\ngpu:\n  vars:\n    ansible_connection: local\n    ansible_become: false\n"
        f"    ansible_python_interpreter: {sys.executable}\n"
        "  hosts:\n    node1:\n      gdrcheck_address: 127.0.0.1\n"
        f"      gdrcheck_port: {free_port('127.0.0.1')}\n",
    )
    place.write(
        "group_vars/gpu.yml",
        f"---\ngdrcheck_profile: small\ngdrcheck_results_dir: {tmp_path / 'results'}\n"
        f"gdrcheck_state_dir: {tmp_path / 'state'}\ngdrcheck_min_free_bytes: 1\n"
        "gdrcheck_engine: podman\n",
    )
    container(place, GOOD)
    return place


def container(node: Place, script: str) -> None:
    """Decide what the container does."""
    program = Path(node.environment["FAKE_ENGINE"], "container")
    program.write_text(script)
    program.chmod(0o755)


def results(node: Place) -> Path:
    """The results of the only run."""
    return (node.folder.parent / "results" / "latest").resolve()


def summary(node: Place) -> dict[str, object]:
    """summary.json of the only run."""
    loaded: dict[str, object] = json.loads((results(node) / "summary.json").read_text())
    return loaded


def assert_clean(node: Place) -> None:
    """Nothing of the run is left on the node."""
    assert os.listdir(node.folder.parent / "state" / "runs") == []
    containers = Path(node.environment["FAKE_ENGINE"], "containers")
    assert [path for path in containers.iterdir() if not path.suffix] == []


def test_results_come_home_and_the_node_is_left_clean(node: Place) -> None:
    done = node.play()
    assert done.returncode != 0, "nothing was measured, so this must not pass"
    home = results(node) / "nodes/node1"
    assert json.loads((home / "done.json").read_text())["exit_code"] == 0
    assert (home / "container.log").read_text().strip() == "printed"
    assert summary(node)["verdict"] == "INCOMPLETE"
    assert "verdict: INCOMPLETE" in done.stdout
    assert_clean(node)


def test_container_gets_least_privilege_and_nothing_else(node: Place) -> None:
    node.play()
    argv = json.loads(Path(node.environment["FAKE_ENGINE"], "run.json").read_text())
    state = f"{node.folder.parent}/state"
    run = f"{state}/runs/{results(node).name}"
    end = argv.index(next(one for one in argv if one.startswith("sha256:")))
    options = [one for one in argv[:end] if not one.startswith(("--name", "--timeout"))]
    assert sorted(options) == sorted([
        "--detach", "--pull=never", "--network=host", "--read-only", "--tmpfs=/tmp",
        "--cap-drop=all", "--cap-add=IPC_LOCK", "--security-opt=no-new-privileges",
        "--ulimit=memlock=-1:-1", "--ulimit=core=0:0", "--pids-limit=4096",
        "--log-driver=json-file", "--log-opt=max-size=16m",
        "--device=/dev/infiniband/uverbs0", "--device=/dev/infiniband/uverbs1",
        "--device=/dev/infiniband/rdma_cm", f"--env=GDRCHECK_IMAGE_ID=sha256:{'a' * 64}",
        f"--volume={run}/in:/run/gdrcheck/in:ro", f"--volume={run}/out:/run/gdrcheck/out",
        f"--volume={run}/host:/run/gdrcheck/host:ro",
        f"--volume={state}/lock:/run/gdrcheck/lock:ro",
    ])  # fmt: skip
    assert argv[end + 1 :] == [
        "node", "--run=/run/gdrcheck/in/run.json", "--secret=/run/gdrcheck/in/secret",
        "--node=node1", "--out=/run/gdrcheck/out", "--lock=/run/gdrcheck/lock", "--present=node1",
    ]  # fmt: skip


def test_secret_is_readable_by_root_alone_and_never_printed(node: Place) -> None:
    container(
        node,
        '#!/bin/sh\nstat -c "%a" "$IN/secret" "$IN/run.json" > "$OUT/modes"\n'
        'cp "$IN/secret" "$OUT/seen"; chmod 644 "$OUT/seen"\n' + GOOD[10:],
    )
    done = node.play("-vvv")
    assert (results(node) / "nodes/node1/modes").read_text().split() == ["400", "644"]
    secret = (results(node) / "nodes/node1/seen").read_text().strip()
    assert len(secret) == 64
    assert secret not in done.stdout
    # People archive the folder of results.
    assert not (results(node) / "secret").exists()


def test_container_that_dies_leaves_what_it_had(node: Place) -> None:
    container(node, '#!/bin/sh\necho half > "$OUT/supervisor.log"\nkill -9 $$\n')
    done = node.play()
    assert done.returncode != 0
    assert (results(node) / "nodes/node1/supervisor.log").read_text() == "half\n"
    assert "no result: the container ended with exit status 137, killed by signal 9" in done.stdout
    assert_clean(node)


def test_container_that_cannot_start(node: Place) -> None:
    Path(node.environment["FAKE_ENGINE"], "refuse-run").touch()
    done = node.play()
    assert done.returncode != 0
    assert "start failed: start:" in done.stdout
    assert "the fake was told to refuse" in done.stdout
    assert_clean(node)


def test_unreachable_node_does_not_keep_the_other_from_running(node: Place) -> None:
    node.write(
        "host_vars/node2.yml",
        "---\nansible_connection: ssh\nansible_host: 127.0.0.1\n"
        f"ansible_port: {SILENT_PORT}\ngdrcheck_address: 192.0.2.202\n",
    )
    hosts = node.folder / "hosts.yml"
    own = own_address()
    hosts.write_text(hosts.read_text().replace("127.0.0.1", own) + "    node2:\n")
    done = node.play()
    assert done.returncode != 0
    assert (results(node) / "nodes/node1/done.json").exists()
    assert "unreachable: preflight: " in done.stdout
    states = {name: one["state"] for name, one in summary(node)["nodes"].items()}
    assert states == {"node1": "ok", "node2": "unreachable"}
    argv = json.loads(Path(node.environment["FAKE_ENGINE"], "run.json").read_text())
    assert "--present=node1" in argv


def test_preflight_says_everything_at_once_and_nothing_starts(node: Place) -> None:
    shutil.rmtree(Path(node.environment["GDRCHECK_ROOT"], "dev/infiniband"))
    Path(node.environment["FAKE_ENGINE"], "no-image").touch()
    done = node.play("-e", "gdrcheck_min_free_bytes=1000000000000000")
    assert done.returncode != 0
    found = {one["finding"]["code"] for one in summary(node)["findings"]}
    assert {"RUN-NO-DEVICES", "RUN-NO-RDMACM", "RUN-NO-IMAGE", "RUN-DISK-FULL"} <= found
    assert not Path(node.environment["FAKE_ENGINE"], "run.json").exists()


def test_second_run_at_once_is_refused(node: Place) -> None:
    state = node.folder.parent / "state"
    state.mkdir()
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = node.play()
    assert done.returncode != 0
    assert "RUN-LOCKED" in {one["finding"]["code"] for one in summary(node)["findings"]}


def test_check_mode_measures_nothing_and_does_not_pass(node: Place) -> None:
    done = node.play("--check")
    assert done.returncode != 0
    assert "nothing measured" in done.stdout
    assert not Path(node.environment["FAKE_ENGINE"], "run.json").exists()
    assert not (node.folder.parent / "state").exists()


def own_address() -> str:
    """An address of this machine that is not loopback; the test is skipped without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("left", [False, True], ids=["sent", "left by an interrupted run"])
def test_archive_is_loaded_where_the_image_is_absent_and_then_removed(
    node: Place, left: bool
) -> None:
    Path(node.environment["FAKE_ENGINE"], "no-image").touch()
    archive = node.folder.parent / "image.tar"
    manifest = json.dumps([{"Config": f"{'a' * 64}.json"}]).encode()
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(manifest)
        tar.addfile(member, io.BytesIO(manifest))
    sent = node.folder.parent / "sent.tar"
    if left:
        sent.write_bytes(archive.read_bytes())
        sent.chmod(0o600)
    variables = {
        "gdrcheck_image_source": "archive",
        "gdrcheck_image_archive": str(archive),
        "gdrcheck_image_archive_remote_path": str(sent),
    }
    node.play("-e", json.dumps(variables))
    assert (results(node) / "nodes/node1/done.json").exists()
    assert not Path(node.environment["FAKE_ENGINE"], "no-image").exists()
    assert not sent.exists()
    # Once it is there, nothing is sent.
    again = node.play("-v", "-e", json.dumps(variables)).stdout
    assert "TASK [gdrcheck : Start the container]" in again
    assert "TASK [gdrcheck : Send the archive]" not in again


def test_interrupted_run_is_removed_by_its_id(node: Place) -> None:
    run_id = "20261130T101500Z-0a1b2c"
    container(node, "#!/bin/sh\nexec sleep 600\n")
    subprocess.run(
        [FAKE_BIN / "podman", "run", f"--name=gdrcheck-{run_id}", "image"],
        env={**os.environ, **node.environment}, check=True,
    )  # fmt: skip
    state = node.folder.parent / "state"
    (state / "runs" / run_id / "out").mkdir(parents=True)
    variables = {"gdrcheck_run_id": run_id, "gdrcheck_state_dir": str(state)}
    done = node.play("-e", json.dumps(variables), playbook="playbooks/clean.yml")
    assert done.returncode == 0, done.stdout
    assert_clean(node)
