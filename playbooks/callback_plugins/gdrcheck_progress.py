"""Shows a run as it goes: a live line for each task, and a line that stays for each long one."""

from __future__ import annotations

import atexit
import functools
import os
import select
import sys
import threading
import time
from pathlib import Path

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default

sys.path.append(str(Path(__file__).resolve().parents[2]))

from gdrcheck.progress import Phase

DOCUMENTATION = r"""
name: gdrcheck_progress
type: stdout
short_description: Ansible's own output without a line per host, with a line of progress
description:
  - While a task lasts, a terminal shows one line that is written over every second, with the task's
    name, on how many hosts it has ended, which hosts fail, how long it has taken and is likely to
    take, and which hosts are slow. Without a terminal it is a plain line every 15 seconds.
  - A task that took two seconds or more, or that failed somewhere, leaves one line.
  - Hosts on which all went well are named with C(-v) only. Failures are shown as always.
  - The result of the run comes last, below the recap.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""

LIVE_S = 1
PLAIN_S = 15
# What the checks of each node take before the rounds of pairs begin: a minute or two.
NODE_CHECKS_S = 90
# The task of which the plan says how long it takes.
PLANNED_ACTION = "gdrcheck_wait"
# The task whose message is the result of the run.
RESULT_TASK = "Show the result"
ERASE = "\r\x1b[K"
# Of a terminal that does not tell its width.
COLUMNS = 80


class CallbackModule(Default):
    """The callback plugin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gdrcheck_progress"

    def __init__(self):
        super().__init__()
        # Ansible forks while it holds this lock, so no child inherits it from the thread below.
        self._lock = self._display._lock
        self._line = Line(sys.stdout)
        self._line.give_way_to(self._display, self._lock)
        self._phase = None
        self._hosts = set()
        self._pairs_s = 0.0
        self._result = ""
        self._forks = context.CLIARGS.get("forks") or 1
        atexit.register(self._leave)
        threading.Thread(target=self._report, name=self.CALLBACK_NAME, daemon=True).start()

    def v2_playbook_on_play_start(self, play):
        self._end()
        variables = play.get_variable_manager().get_vars(play=play)
        self._hosts = set(variables.get("ansible_play_hosts_all", ()))
        super().v2_playbook_on_play_start(play)

    # Ansible passes is_conditional and ignore_errors by their names.
    def v2_playbook_on_task_start(self, task, is_conditional):
        self._end()
        super().v2_playbook_on_task_start(task, is_conditional)
        self._begin(task)

    def v2_playbook_on_handler_task_start(self, task):
        self._end()
        super().v2_playbook_on_handler_task_start(task)
        self._begin(task)

    def v2_playbook_on_stats(self, stats):
        self._end()
        super().v2_playbook_on_stats(stats)
        self._show_result()

    def v2_runner_on_start(self, host, task):
        super().v2_runner_on_start(host, task)
        with self._lock:
            if self._phase is not None:
                self._phase.start(host.get_name())

    def v2_runner_on_ok(self, result):
        plan = (result.result.get("ansible_facts") or {}).get("gdrcheck_plan")
        if isinstance(plan, dict):
            self._pairs_s = float(plan.get("pairs_s", 0))
        self._done(result, failed=tells_of_trouble(result.result))
        if result.task.name == RESULT_TASK and "msg" in result.result:
            self._handle_warnings_and_exception(result)
            self._result = str(result.result["msg"])
        elif self._run_is_verbose(result):
            super().v2_runner_on_ok(result)
        else:
            self._handle_warnings_and_exception(result)

    def v2_runner_on_unreachable(self, result):
        self._done(result, failed=True)
        if not result.task.ignore_unreachable:
            self._hosts.discard(result.host.get_name())
        super().v2_runner_on_unreachable(result)

    def v2_runner_on_skipped(self, result):
        with self._lock:
            if self._phase is not None:
                self._phase.skip(result.host.get_name())
        super().v2_runner_on_skipped(result)
        # Those of hosts that are not displayed as well.
        self._handle_warnings_and_exception(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._done(result, failed=True)
        if not ignore_errors:
            self._hosts.discard(result.host.get_name())
        super().v2_runner_on_failed(result, ignore_errors=ignore_errors)

    def _begin(self, task):
        planned_s = self._pairs_s + NODE_CHECKS_S if task.action == PLANNED_ACTION else 0
        hosts = 1 if task.run_once else len(self._hosts)
        phase = Phase(task.name or task.get_name().strip(), hosts, self._forks, planned_s)
        with self._lock:
            self._phase = phase

    def _done(self, result, *, failed):
        with self._lock:
            if self._phase is not None:
                self._phase.end(result.host.get_name(), failed=failed)

    def _end(self):
        """Leave a line of the task that is over, if it is worth one."""
        with self._lock:
            phase, self._phase = self._phase, None
        if phase is not None and (text := phase.last_line()):
            self._display.display(text)

    def _show_result(self):
        """The last that is shown, however long the recap is."""
        text, self._result = self._result, ""
        if text:
            self._display.display(text)

    def _leave(self):
        """Also of a run that was interrupted: no line stays behind, and the result is shown."""
        with self._lock:
            self._phase = None
            self._line.clear()
        self._show_result()

    def _report(self):
        """Shows how far the task is, until there is nobody to show it to."""
        while True:
            time.sleep(LIVE_S if self._line.live else PLAIN_S)
            with self._lock:
                if self._phase is None:
                    continue
                try:
                    self._line.show(self._phase.line(self._line.room()))
                except (OSError, ValueError):
                    return


def tells_of_trouble(result):
    """Whether a module that did its part says that the node is not as it should be."""
    return bool(result.get("findings") or result.get("problem") or result.get("exit_code"))


class Line:
    """The line at the cursor of ``stream``. ``live``: a terminal, on which it is written over."""

    def __init__(self, stream):
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._stream = stream
        self._shown = False

    def give_way_to(self, display, lock):
        """From now on whatever Ansible's display shows, by whomever, takes the place of the line.

        A warning or an error that stood behind the line would be erased with it.
        """
        shows = display.display

        @functools.wraps(shows)
        def shown(*arguments, **options):
            with lock:
                self.clear()
                shows(*arguments, **options)

        display.display = shown

    def room(self):
        """How many letters there are room for: a full row would begin the next one."""
        if not self.live:
            return sys.maxsize
        return (os.get_terminal_size(self._stream.fileno()).columns or COLUMNS) - 1

    def show(self, text):
        """Show ``text`` in place of what the line shows; without a terminal as a line of its own.

        Not while nobody reads: Ansible would have to wait as well. OSError or ValueError when it
        cannot be written.
        """
        if not select.select([], [self._stream], [], 0)[1]:
            return
        if self.live:
            self._shown = True
            self._write(ERASE + text[: self.room()])
        else:
            self._write(f"... {text}\n")

    def clear(self):
        """Take the live line away, if the terminal is still there."""
        if self._shown:
            self._shown = False
            try:
                self._write(ERASE)
            except (OSError, ValueError):
                self.live = False

    def _write(self, text):
        self._stream.write(text)
        self._stream.flush()
