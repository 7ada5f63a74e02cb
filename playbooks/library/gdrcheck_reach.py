#!/usr/bin/python
"""Whether this node reaches others at their channel addresses, and finds the right ones there."""

from __future__ import annotations

import json
import socket
import threading
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: gdrcheck_reach
short_description: Whether a node reaches others at their channel addresses
description:
  - Connects to the listener that gdrcheck_preflight left on each target and compares its answer
    with the run and node that are expected there. Judges nothing.
options:
  run_id: {type: str, required: true, description: The run.}
  deadline_s: {type: float, required: true, description: How long one try may last, in seconds.}
  targets:
    type: list
    elements: dict
    required: true
    description: The nodes to reach.
    suboptions:
      node: {type: str, required: true, description: Name.}
      address: {type: str, required: true, description: Address.}
      port: {type: int, required: true, description: Port.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Reach the others
  gdrcheck_reach:
    run_id: 20261130T101500Z-0a1b2c
    deadline_s: 5
    targets: [{node: node2, address: 192.0.2.2, port: 18600}]
"""

RETURN = r"""
reached: {type: dict, returned: always, description: By target; empty when it was reached.}
"""

RETRY_S = 0.5


def reach(run_id: str, target: dict, deadline_s: float) -> str:
    """Empty when the target answers with its own name, otherwise what happened instead."""
    place = f"{target['address']} port {target['port']}"
    end = time.monotonic() + deadline_s
    while True:
        try:
            answer = ask(target["address"], target["port"], max(end - time.monotonic(), 0.1))
            break
        # Not yet the same as TimeoutError in Python 3.9.
        except socket.timeout:  # noqa: UP041
            return f"{place}: no answer within {deadline_s:g} s"
        except OSError as error:
            # A loaded listener may drop one connection; whoever is really away stays away.
            if time.monotonic() + RETRY_S > end or isinstance(error, socket.gaierror):
                return f"{place}: {error.strerror or error}"
            time.sleep(RETRY_S)
    if answer.get("run_id") == run_id and answer.get("node") == target["node"]:
        return ""
    who = answer.get("node")
    return f"{place}: {f'{who} answers there' if who else 'something else answers there'}"


def ask(address: str, port: int, deadline_s: float) -> dict:
    """The answer of a listener; empty when it is not one of ours."""
    connection = socket.create_connection((address, port), timeout=deadline_s)
    with connection, connection.makefile("rb") as stream:
        line = stream.readline(4096)
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def reach_all(run_id: str, targets: list, deadline_s: float) -> dict:
    """All targets at the same time."""
    reached = {}

    def one(target: dict) -> None:
        reached[target["node"]] = reach(run_id, target, deadline_s)

    threads = [threading.Thread(target=one, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return reached


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "deadline_s": {"type": "float", "required": True},
            "targets": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "node": {"type": "str", "required": True},
                    "address": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    options = module.params
    reached = reach_all(options["run_id"], options["targets"], options["deadline_s"])
    module.exit_json(changed=False, reached=reached)


if __name__ == "__main__":
    main()
