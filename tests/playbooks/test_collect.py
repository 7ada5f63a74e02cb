"""The host collector on its way through the playbook, on one local node with a FAKE engine."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from .conftest import Place
from .test_flow import container, node, results

__all__ = ["node"]

KEEP = """#!/bin/sh
stat -c '%U:%G %a %n' "$HOST" "$HOST"/* "$HOST"/config/* > "$OUT/modes"
cp "$HOST"/*.* "$OUT"
echo '{"exit_code": 0, "reason": "", "finished": true}' > "$OUT/done.json"
"""
# A Python that does not get through the collector.
PYTHON = f"""#!/bin/sh
case "$*" in *gdrcheck_collect*) echo "told to fail" >&2; exit 1;; esac
exec {sys.executable} "$@"
"""
TASKS_ON_A_NODE = 8


def tree(node: Place, files: dict[str, bytes]) -> None:
    """Files below the root that the node's facts are read from."""
    for name, content in files.items():
        path = Path(node.environment["GDRCHECK_ROOT"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_the_container_sees_what_the_collector_wrote(node: Place) -> None:
    slot = "sys/bus/pci/devices/0000:01:00.0"
    tree(node, {
        "etc/os-release": b'PRETTY_NAME="Some Linux 1"\n',
        f"{slot}/class": b"0x020000\n",
        f"{slot}/config": bytes(256),
    })  # fmt: skip
    container(node, KEEP)
    node.play()
    home = results(node) / "nodes/node1"
    values = json.loads((home / "host.json").read_text())
    assert values["os"] == "Some Linux 1"
    assert values["config_spaces"] == {"saved": 1, "failed": {}}
    # The tree has no kernel log: that keeps nothing else from being read.
    assert values["kernel_log"] == {"unreadable": "/dev/kmsg: No such file or directory"}
    modes = {
        name.rpartition("/")[2]: f"{owner} {mode}"
        for owner, mode, name in map(str.split, (home / "modes").read_text().splitlines())
    }
    # On a node it runs by become, so as root.
    user = f"{Path(home).owner()}:{Path(home).group()}"
    assert modes == {
        "host": f"{user} 755", "config": f"{user} 755",
        "host.json": f"{user} 644", "0000:01:00.0": f"{user} 644",
    }  # fmt: skip


def test_modules_that_the_profile_promises_are_looked_at(node: Place) -> None:
    profile = node.folder / "profiles/small.yml"
    profile.write_text(profile.read_text() + "expect: {modules: [my_module]}\n")
    tree(node, {
        "proc/sys/kernel/osrelease": b"6.1.0\n",
        "lib/modules/6.1.0/modules.dep": b"updates/my_module.ko:\n",
        "lib/modules/6.1.0/modules.builtin": b"kernel/ib_core.ko\n",
        "sbin/modinfo": b'#!/bin/sh\necho "filename: (builtin)"\necho "version: of $6"\n',
    })  # fmt: skip
    Path(node.environment["GDRCHECK_ROOT"], "sbin/modinfo").chmod(0o755)
    container(node, KEEP)
    node.play()
    values = json.loads((results(node) / "nodes/node1/host.json").read_text())
    assert values["modules"]["my_module"]["version"] == "of my_module"
    assert values["modules"]["ib_core"]["path"] == "(builtin)"


def test_neighbours_are_learned_where_the_inventory_says_so(node: Place) -> None:
    tree(node, {
        "sys/class/infiniband/rxe0/parent": b"eth2\n",
        "sys/class/net/eth2/type": b"1\n",
        "usr/sbin/lldpcli": b"""#!/bin/sh\necho '{"lldp": [{}]}'\n""",
    })  # fmt: skip
    Path(node.environment["GDRCHECK_ROOT"], "usr/sbin/lldpcli").chmod(0o755)
    container(node, KEEP)
    node.play("-e", "gdrcheck_neighbours=lldp")
    values = json.loads((results(node) / "nodes/node1/host.json").read_text())
    assert values["neighbours"] == {"eth2": {"unreadable": "lldpd knows no LLDP neighbour of it"}}


def test_a_collector_that_fails_is_named_and_the_run_goes_on(node: Place, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    hosts = node.folder / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(sys.executable, str(python)))
    container(node, KEEP)
    done = node.play()
    home = results(node) / "nodes/node1"
    assert (home / "done.json").exists()
    assert "told to fail" in done.stdout
    assert "ignored=1" in done.stdout
    # For the probes, which else would take it for a run without a collector.
    assert "told to fail" in (home / "failure.txt").read_text()
    assert not (home / "host.json").exists()


def test_a_node_that_has_the_image_runs_few_tasks(node: Place) -> None:
    # Ours names a task only when there is something to tell of it.
    node.environment["ANSIBLE_STDOUT_CALLBACK"] = "default"
    done = node.play()
    # With one node the controller's own tasks are counted at it, so count the names.
    tasks = re.findall(r"^TASK \[(.*?)\]", done.stdout, re.MULTILINE)
    first, last = (
        tasks.index("gdrcheck : Check the node"),
        tasks.index("gdrcheck : Unpack the results"),
    )
    ours = tasks[first:last]
    assert "gdrcheck : Read what the container cannot read" in ours
    assert len(ours) <= TASKS_ON_A_NODE
