#!/usr/bin/python
"""Starts the container of a run, detached."""

from __future__ import annotations

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import RunDirectory, run, stop_listener, write

DOCUMENTATION = r"""
module: gdrcheck_start
short_description: Start the container of a gdrcheck run, detached
description:
  - Writes the run document and the secret, and why the host collector failed if it did; ends the
    preflight listener; starts the container.
options:
  run_id: {type: str, required: true, description: The run.}
  state_dir: {type: path, required: true, description: Where runs keep their files.}
  run_document: {type: str, required: true, description: The text of run.json.}
  secret: {type: str, required: true, description: The run's secret.}
  collector_problem: {type: str, default: "", description: Why the host collector failed.}
  argv: {type: list, elements: str, required: true, description: The command that starts it.}
  deadline_s: {type: int, required: true, description: When the container ends itself (s).}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Start the container
  gdrcheck_start:
    run_id: 20261130T101500Z-0a1b2c
    state_dir: /var/lib/gdrcheck
    run_document: "{{ lookup('ansible.builtin.file', 'run.json') }}"
    secret: "{{ lookup('ansible.builtin.file', 'secret') }}"
    argv: [/usr/bin/podman, run, --detach, localhost/gdrcheck:dev]
    deadline_s: 4000
"""

RETURN = r"""
container_id: {type: str, returned: success, description: The container's id.}
"""

START_S = 300
# Nobody removes a run's files before its container has ended and they were collected.
COLLECT_S = 3600


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "state_dir": {"type": "path", "required": True},
            "run_document": {"type": "str", "required": True},
            "secret": {"type": "str", "required": True, "no_log": True},
            "collector_problem": {"type": "str", "default": ""},
            "argv": {"type": "list", "elements": "str", "required": True},
            "deadline_s": {"type": "int", "required": True},
        },
    )
    options = module.params
    directory = RunDirectory(options["state_dir"], options["run_id"])
    directory.make(options["deadline_s"] + COLLECT_S)
    write(directory.at("in", "run.json"), options["run_document"])
    write(directory.at("in", "secret"), options["secret"], mode=0o400)
    if options["collector_problem"]:
        write(directory.at("host", "failure.txt"), options["collector_problem"])
    stop_listener(directory)
    started_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    answer = run(options["argv"], START_S)
    if not answer.ok:
        module.fail_json(msg=f"{' '.join(options['argv'][:2])}: {answer.reason()}")
    directory.remember(
        "container", {"started_boottime_s": started_s, "deadline_s": options["deadline_s"]}
    )
    module.exit_json(changed=True, container_id=answer.output.strip())


if __name__ == "__main__":
    main()
