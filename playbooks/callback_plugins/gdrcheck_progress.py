"""Says every 15 seconds what a long task is doing and how far it is."""

from __future__ import annotations

import os
import sys
import threading
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: gdrcheck_progress
type: aggregate
short_description: a line of progress for tasks that take long
description:
  - While a task lasts, prints every 15 seconds its name, the time since it began, and on how many
    hosts it has ended.
"""

INTERVAL_S = 15


class CallbackModule(CallbackBase):
    """The callback plugin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gdrcheck_progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._changed = threading.Event()
        self._task = None
        self._hosts = 0
        threading.Thread(target=self._report, name=self.CALLBACK_NAME, daemon=True).start()

    def v2_playbook_on_play_start(self, play):
        variables = play.get_variable_manager().get_vars(play=play)
        self._hosts = len(variables.get("ansible_play_hosts_all", ()))
        self._end()

    # Ansible passes is_conditional and ignore_errors by their names.
    def v2_playbook_on_task_start(self, task, is_conditional):  # noqa: ARG002
        hosts = 1 if task.run_once else self._hosts
        self._task = Task(task.get_name().strip(), hosts)
        self._changed.set()

    def v2_playbook_on_stats(self, _stats):
        self._end()

    def v2_runner_on_ok(self, _result):
        self._done()

    def v2_runner_on_unreachable(self, _result):
        self._done()

    def v2_runner_on_skipped(self, _result):
        self._done()

    def v2_runner_on_failed(self, _result, ignore_errors=False):  # noqa: ARG002
        self._done()

    def _done(self):
        if self._task is not None:
            self._task.done += 1

    def _end(self):
        self._task = None
        self._changed.set()

    def _report(self):
        while True:
            if self._changed.wait(INTERVAL_S):
                self._changed.clear()
            elif (task := self._task) is not None:
                # One write without Python's buffers and locks: Ansible forks at any moment.
                os.write(sys.__stdout__.fileno(), task.line().encode())


class Task:
    """One task while it lasts."""

    def __init__(self, name, hosts):
        self.name = name
        self.hosts = hosts
        self.done = 0
        self.began = time.monotonic()

    def line(self):
        """``... Wait for the container: 45 s, 3 of 8 hosts done``"""
        elapsed_s = time.monotonic() - self.began
        return f"... {self.name}: {elapsed_s:.0f} s, {self.done} of {self.hosts} hosts done\n"
