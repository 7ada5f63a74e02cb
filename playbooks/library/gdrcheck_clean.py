#!/usr/bin/python
"""Removes what a run made on a node: container, listener, files. Nothing else."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import Engine, RunDirectory, stop_listener

DOCUMENTATION = r"""
module: gdrcheck_clean
short_description: Remove the container, listener and files of a gdrcheck run
options:
  run_id: {type: str, required: true, description: The run.}
  state_dir: {type: path, required: true, description: Where runs keep their files.}
  engine: {type: str, default: auto, description: Name or path of the container engine.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Clean up
  gdrcheck_clean:
    run_id: 20261130T101500Z-0a1b2c
    state_dir: /var/lib/gdrcheck
"""

RETURN = r"""
removed: {type: list, returned: success, description: What was there and is gone.}
"""


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "state_dir": {"type": "path", "required": True},
            "engine": {"type": "str", "default": "auto"},
        },
    )
    options = module.params
    run_id = options["run_id"]
    try:
        directory = RunDirectory(options["state_dir"], run_id)
    except ValueError as error:
        module.fail_json(msg=f"gdrcheck_run_id: {error}")
    removed = ["listener"] if stop_listener(directory) else []
    engine = Engine.find(options["engine"])
    if engine is not None:
        answer = engine.remove(run_id)
        if not answer.ok:
            module.fail_json(msg=f"{engine.path} rm: {answer.reason()}")
        removed += ["container"] if run_id in answer.output else []
    if os.path.isdir(directory.path):
        directory.remove()
        removed.append("files")
    module.exit_json(changed=bool(removed), removed=removed)


if __name__ == "__main__":
    main()
