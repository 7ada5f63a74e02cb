"""The Ansible inventory of a lab."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from lab.access import USER
from lab.machine import control_address
from lab.paths import INVENTORY_SOURCES
from lab.state import LabState


def write(directory: Path, lab: LabState) -> None:
    """Write `<directory>/inventory`: hosts.yml for this lab, and the checkout's group_vars and
    profiles.
    """
    home = directory / "inventory"
    if INVENTORY_SOURCES.is_dir():
        shutil.copytree(INVENTORY_SOURCES, home, dirs_exist_ok=True)
    home.mkdir(exist_ok=True)
    (home / "hosts.yml").write_text(hosts_yaml(directory, lab))


def hosts_yaml(directory: Path, lab: LabState) -> str:
    """The text of hosts.yml. JSON strings are YAML strings, so any path is quoted rightly."""
    known_hosts = f"-o UserKnownHostsFile='{directory}/known_hosts'"
    options = f"{known_hosts} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    shared = {
        "ansible_host": "127.0.0.1",
        "ansible_user": USER,
        "ansible_ssh_private_key_file": f"{directory}/id_ed25519",
        "ansible_ssh_common_args": options,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    lines = [f"# Written by `python3 -m lab up --name {lab.name}`.", "gpu:", "  vars:"]
    lines += [f"    {key}: {json.dumps(value)}" for key, value in shared.items()]
    lines.append("  hosts:")
    for node in lab.nodes:
        lines.append(f"    node{node.number}:")
        lines.append(f"      ansible_port: {node.ssh_port}")
        lines.append(f"      gdrcheck_address: {control_address(node.number)}")
    return "\n".join(lines) + "\n"
