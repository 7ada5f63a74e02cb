#!/usr/bin/python
"""Waits for the container of a run and packs whatever results there are."""

from __future__ import annotations

import os
import tarfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import CONTAINER_PREFIX, Answer, Engine, RunDirectory, run

DOCUMENTATION = r"""
module: gdrcheck_wait
short_description: Wait for the container of a gdrcheck run and pack its results
description:
  - Waits until the container has ended. One that is still there after its deadline and a margin is
    ended by force. Then its log and its files are packed, whatever there is of them.
options:
  run_id: {type: str, required: true, description: The run.}
  state_dir: {type: path, required: true, description: Where runs keep their files.}
  engine: {type: path, required: true, description: Path of the container engine.}
  margin_s: {type: int, default: 60, description: Patience after the deadline, in seconds.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Wait for the container
  gdrcheck_wait:
    run_id: 20261130T101500Z-0a1b2c
    state_dir: /var/lib/gdrcheck
    engine: /usr/bin/podman
"""

RETURN = r"""
exit_code: {type: int, returned: always, description: Of the container; null when it is not known.}
timed_out: {type: bool, returned: always, description: Whether it had to be ended by force.}
problem: {type: str, returned: always, description: Why there is no exit code; empty when there is.}
archive: {type: str, returned: always, description: Path of results.tar.gz.}
"""

LOG_BYTES = 16 << 20


def wait(engine: Engine, directory: RunDirectory, margin_s: float) -> dict:
    """Wait for the end; what became of the container."""
    name = CONTAINER_PREFIX + directory.run_id
    container = directory.recall("container")
    if not container:
        return outcome(problem="the container was never started here")
    elapsed_s = time.clock_gettime(time.CLOCK_BOOTTIME) - container["started_boottime_s"]
    left_s = max(container["deadline_s"] + margin_s - elapsed_s, 1)
    # podman looks four times a second unless told otherwise, at the cost of what is measured.
    interval = ["--interval", "1s"] if engine.name == "podman" else []
    answer = engine.run("wait", *interval, name, deadline_s=left_s)
    if answer.code is None:
        return outcome(
            timed_out=True,
            problem=f"the container had not ended {container['deadline_s'] + margin_s:g} s "
            "after its start and was ended by force",
        )
    return exit_code(answer)


def exit_code(answer: Answer) -> dict:
    """What `engine wait` said."""
    lines = answer.output.split()
    if answer.ok and lines and lines[-1].lstrip("-").isdigit():
        return outcome(exit_code=int(lines[-1]))
    return outcome(problem=f"the container is gone: {answer.reason()}")


def outcome(exit_code: int | None = None, timed_out: bool = False, problem: str = "") -> dict:
    """The part of the module's result that is about the container."""
    return {"exit_code": exit_code, "timed_out": timed_out, "problem": problem}


def keep_log(engine: Engine, directory: RunDirectory) -> None:
    """Put what the container printed beside its files."""
    answer = engine.run("logs", CONTAINER_PREFIX + directory.run_id)
    text = answer.output + answer.error if answer.ok else f"no log: {answer.reason()}\n"
    with open(directory.at("out", "container.log"), "w") as file:
        file.write(text[-LOG_BYTES:])


def pack(directory: RunDirectory) -> str:
    """Pack the regular files of ``out``; readable by the user who logs in."""
    path = directory.at("results.tar.gz")
    draft = f"{path}.draft"
    with tarfile.open(draft, "w:gz", compresslevel=3) as archive:
        for name in sorted(os.listdir(directory.at("out"))):
            file = directory.at("out", name)
            if os.path.isfile(file) and not os.path.islink(file):
                archive.add(file, arcname=name, recursive=False)
    os.chmod(draft, 0o644)
    os.replace(draft, path)
    return path


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "state_dir": {"type": "path", "required": True},
            "engine": {"type": "path", "required": True},
            "margin_s": {"type": "int", "default": 60},
        },
    )
    options = module.params
    engine = Engine(options["engine"])
    directory = RunDirectory(options["state_dir"], options["run_id"])
    if not os.path.isdir(directory.at("out")):
        module.fail_json(msg=f"{directory.path} is gone")
    ended = wait(engine, directory, options["margin_s"])
    if ended["timed_out"]:
        run([engine.path, "kill", CONTAINER_PREFIX + directory.run_id], 60)
    keep_log(engine, directory)
    module.exit_json(changed=True, archive=pack(directory), **ended)


if __name__ == "__main__":
    main()
