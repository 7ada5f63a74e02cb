#!/usr/bin/python
"""Runs the host collector: what only root on the host can read, for the container to see."""

from __future__ import annotations

import pathlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import RunDirectory
from ansible.module_utils.gdrcheck_host_collector import collect

DOCUMENTATION = r"""
module: gdrcheck_collect
short_description: Read on a host what the container of a gdrcheck run cannot read
description:
  - Reads PCI configuration spaces, the kernel's log and configuration, module files and services,
    and writes them below the run's directory. Changes nothing else. What cannot be read is written
    down as unreadable and is no failure.
options:
  run_id: {type: str, required: true, description: The run.}
  state_dir: {type: path, required: true, description: Where runs keep their files.}
  modules: {type: list, elements: str, default: [], description: Further kernel modules.}
  neighbours:
    type: str
    choices: [none, lldp]
    default: none
    description: Whether to learn by LLDP which switch ports the NICs' cables lead to.
  root: {type: path, default: /, description: Where everything is read.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Read what the container cannot read
  gdrcheck_collect:
    run_id: 20261130T101500Z-0a1b2c
    state_dir: /var/lib/gdrcheck
"""

RETURN = r"""
complaints: {type: list, returned: success, description: What could not be read, and why.}
"""


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "state_dir": {"type": "path", "required": True},
            "modules": {"type": "list", "elements": "str", "default": []},
            "neighbours": {"type": "str", "choices": ["none", "lldp"], "default": "none"},
            "root": {"type": "path", "default": "/"},
        },
    )
    options = module.params
    out = pathlib.Path(RunDirectory(options["state_dir"], options["run_id"]).at("host"))
    try:
        values = collect(
            out,
            pathlib.Path(options["root"]),
            options["modules"],
            neighbours=options["neighbours"],
        )
    except OSError as error:
        module.fail_json(msg=f"{error.filename or out}: {error.strerror}")
    module.exit_json(changed=True, complaints=values["complaints"])


if __name__ == "__main__":
    main()
