#!/usr/bin/python
"""Waits for the pods of a Job and keeps the log of each: the results are in there."""

from __future__ import annotations

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import Answer, run, write

DOCUMENTATION = r"""
module: gdrcheck_job
short_description: Wait for the pods of a gdrcheck Job and save their logs
description:
  - Saves the log of each pod as soon as it has ended, before anything can remove it. Returns when
    the Job has ended, or when no pod runs any more and those that are left find no node or cannot
    be started, or when for long no pod could be made or started at all.
  - Talks to the cluster by kubectl alone, and only reads.
options:
  kubectl: {type: str, default: kubectl, description: Name or path of kubectl.}
  namespace: {type: str, required: true, description: Namespace of the Job.}
  job: {type: str, default: gdrcheck, description: Name of the Job.}
  logs: {type: path, required: true, description: Folder for the logs, one a pod; is made.}
  deadline_s: {type: int, required: true, description: When the Job ends itself (s).}
  interval_s: {type: float, default: 5, description: Time between two looks (s).}
  settle_s: {type: int, default: 60, description: For how long nothing may have changed (s).}
  hopeless_s: {type: int, default: 300, description: The same while no pod at all has run (s).}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Wait for the pods
  gdrcheck_job:
    namespace: gdrcheck
    logs: job/logs
    deadline_s: 8250
"""

RETURN = r"""
logs: {type: list, returned: success, description: The files that were written.}
ended: {type: str, returned: success, description: Complete or Failed; empty if the Job goes on.}
failed_indexes: {type: str, returned: success, description: The indexes whose pods failed.}
problems: {type: list, returned: success, description: Pods that never ran or left no log.}
"""

CALL_S = 120
# For as long an answer may fail to come: the API server of a busy cluster restarts now and then.
DEAF_S = 600
MARGIN_S = 120
ENDED = ("Succeeded", "Failed")
STATUSES = ("containerStatuses", "initContainerStatuses")
WAITING = ",".join(f"{one}:.status.{one}[*].state.waiting.reason" for one in STATUSES)
COLUMNS = f"NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,{WAITING}"
# Why the kubelet cannot start a container, in its words; it tries again, to no end.
# https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff
STUCK = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
}
NO_NODE = "<none>"
# Of the pods of this Job, and of none that had its name before.
LABEL = "batch.kubernetes.io/controller-uid"


class Unanswered(Exception):
    """The cluster did not answer; why."""


class Job:
    """The Job as kubectl tells of it, and what was saved of its pods so far."""

    def __init__(self, options: dict) -> None:
        self.options = options
        self.folder = options["logs"]
        self.uid = ""
        self.pods = {}
        self.stuck = {}
        self.saved = {}
        self.suspended = False

    def ask(self, *words: str) -> str:
        """What kubectl answered. Unanswered if it did not."""
        answer = self.kubectl(*words)
        if not answer.ok:
            raise Unanswered(answer.reason())
        return answer.output

    def kubectl(self, *words: str) -> Answer:
        """Run kubectl in the namespace."""
        argv = [self.options["kubectl"], "--namespace", self.options["namespace"], *words]
        return run(argv, CALL_S)

    def value(self, path: str) -> str:
        """One value of the Job."""
        where = "jsonpath={." + path + "}"
        return self.ask("get", "job", self.options["job"], "-o", where).strip()

    def ended(self) -> str:
        """How the Job ended; empty while it has not."""
        words = self.value('status.conditions[?(@.status=="True")].type').split()
        self.suspended = "Suspended" in words
        return next((word for word in words if word in ("Complete", "Failed")), "")

    def look(self) -> None:
        """See what became of the pods, and save the logs of those that have ended."""
        self.uid = self.uid or self.value("metadata.uid")
        chosen = ("-l", f"{LABEL}={self.uid}", "-o", f"custom-columns={COLUMNS}")
        text = self.ask("get", "pods", "--no-headers", *chosen)
        for line in text.splitlines():
            name, phase, node, *waiting = line.split()
            self.pods[name] = (phase, node)
            self.stuck[name] = next(iter(STUCK.intersection(",".join(waiting).split(","))), "")
            if phase in ENDED and name not in self.saved:
                self.save(name)

    def save(self, name: str) -> None:
        """Put a pod's log into the folder. That there is none is seen again at the next look."""
        answer = self.kubectl("logs", name, "--container", "gdrcheck")
        if answer.ok:
            path = os.path.join(self.folder, f"{name}.log")
            write(path, answer.output)
            self.saved[name] = path

    def idle(self) -> bool:
        """Whether pods have ended, and all others find no node or cannot be started."""
        ended = [phase for phase, _ in self.pods.values() if phase in ENDED]
        waiting = [
            name
            for name, (phase, node) in self.pods.items()
            if phase == "Pending" and (node == NO_NODE or self.stuck[name])
        ]
        return bool(ended) and len(ended) + len(waiting) == len(self.pods)

    def all_saved(self) -> bool:
        """Whether the log of each pod that has ended is here."""
        return all(name in self.saved for name, one in self.pods.items() if one[0] in ENDED)

    def hopeless(self) -> bool:
        """Whether no pod could be made, or none of those that have a node can be started."""
        if not self.pods:
            return not self.suspended
        placed = [name for name, (_, node) in self.pods.items() if node != NO_NODE]
        return bool(placed) and all(
            self.pods[name][0] == "Pending" and self.stuck[name] for name in placed
        )

    def problems(self) -> list:
        """Each pod that never ran or whose log could not be had, and why."""
        found = [] if self.pods else [self.why_no_pod()]
        for name, (phase, node) in sorted(self.pods.items()):
            if phase not in ENDED and name not in self.saved:
                self.save(name)
            if name in self.saved:
                continue
            why = f"no log of this pod ({phase} on {node})"
            if self.stuck[name]:
                where = "jsonpath={.status..state.waiting.message}"
                answer = self.kubectl("get", "pod", name, "-o", where)
                why = f"could not be started on {node}: {self.stuck[name]}: {answer.output.strip()}"
            elif node == NO_NODE:
                where = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}'
                answer = self.kubectl("get", "pod", name, "-o", where)
                why = f"found no node: {answer.output.strip() or answer.reason()}"
            found.append(f"{name}: {why}")
        return found

    def why_no_pod(self) -> str:
        """What the cluster says of a Job that has no pods."""
        where = "jsonpath={.items[*].message}"
        chosen = f"involvedObject.kind=Job,involvedObject.name={self.options['job']},type=Warning"
        answer = self.kubectl("get", "events", "--field-selector", chosen, "-o", where)
        return f"{self.options['job']}: no pod was made: {answer.output.strip() or answer.reason()}"


def wait(job: Job, options: dict) -> str:
    """Wait for the end; how the Job ended. Unanswered when the cluster is silent for long."""
    start = heard = changed = time.monotonic()
    before = None
    while True:
        try:
            ended = job.ended()
            job.look()
            heard = time.monotonic()
        except Unanswered:
            if time.monotonic() - heard > DEAF_S:
                raise
            # Nobody knows that nothing has changed.
            changed = time.monotonic()
            time.sleep(options["interval_s"])
            continue
        if job.pods != before:
            before, changed = dict(job.pods), time.monotonic()
        still_s = time.monotonic() - changed
        idle = job.idle() and still_s > options["settle_s"]
        hopeless = job.hopeless() and still_s > options["hopeless_s"]
        # What is not saved now is lost: who waits for this module deletes the Job.
        over = ended and (job.all_saved() or still_s > options["settle_s"])
        if over or idle or hopeless or time.monotonic() - start > options["deadline_s"] + MARGIN_S:
            return ended
        time.sleep(options["interval_s"])


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "kubectl": {"type": "str", "default": "kubectl"},
            "namespace": {"type": "str", "required": True},
            "job": {"type": "str", "default": "gdrcheck"},
            "logs": {"type": "path", "required": True},
            "deadline_s": {"type": "int", "required": True},
            "interval_s": {"type": "float", "default": 5},
            "settle_s": {"type": "int", "default": 60},
            "hopeless_s": {"type": "int", "default": 300},
        },
    )
    options = module.params
    job = Job(options)
    try:
        os.makedirs(options["logs"])
        ended = wait(job, options)
        failed = job.value("status.failedIndexes") if ended else ""
        problems = job.problems()
    except OSError as error:
        module.fail_json(msg=f"{error.filename or options['logs']}: {error.strerror}")
    except Unanswered as error:
        module.fail_json(msg=f"{options['kubectl']}: {error}", logs=sorted(job.saved.values()))
    module.exit_json(
        changed=True,
        ended=ended,
        failed_indexes=failed,
        problems=problems,
        logs=sorted(job.saved.values()),
    )


if __name__ == "__main__":
    main()
