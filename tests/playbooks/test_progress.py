"""The line of progress: what it says at each moment, and that it gives way to everything else."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock, Timer
from types import ModuleType
from typing import BinaryIO, TextIO

import pytest
import yaml

from .conftest import REPOSITORY

# Of one run of a playbook, which is then killed.
LIMIT_S = 300
ERASE = "\r\x1b[K"


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Told:
    """A phase, and what it is told at which second."""

    def __init__(
        self, module: ModuleType, hosts: int, forks: int = 50, planned_s: float = 0.0
    ) -> None:
        self.clock = Clock()
        self.phase = module.Phase("Wait", hosts, forks, planned_s, self.clock)

    def at(self, second: float) -> Told:
        self.clock.now_s = 100 + second
        return self

    def start(self, *hosts: str) -> None:
        for host in hosts:
            self.phase.start(host)

    def end(self, *hosts: str, failed: bool = False) -> None:
        for host in hosts:
            self.phase.end(host, failed=failed)

    def line(self) -> str:
        """What there is to tell, with room for all of it."""
        return str(self.phase.line(1000))


def test_a_line_says_how_far_it_is(progress: ModuleType) -> None:
    told = Told(progress, hosts=6)
    told.start("n1", "n2", "n3", "n4", "n5", "n6")
    assert told.at(4).line() == "Wait: 0/6 hosts, 4 s, time left unknown"
    told.at(10).end("n1")
    told.at(14).end("n2", failed=True)
    assert (
        told.line() == "Wait: 2/6 hosts, 1 failing (n2), 14 s, time left unknown, slowest n2 14 s"
    )
    told.at(60).end("n3")
    assert told.at(90).line() == (
        "Wait: 3/6 hosts, 1 failing (n2), 1 min 30 s, time left unknown, waiting for n4, n5, n6"
    )


def test_many_failing_hosts_are_counted(progress: ModuleType) -> None:
    told = Told(progress, hosts=5)
    told.at(1).end("n1", "n2", "n3", "n4", "n5", failed=True)
    assert "5 failing (n1, n2, n3 and 2 more)" in told.line()


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            300,
            "Wait: 2/6 hosts, 1 failing (a-node-with-a-long-name), 30 s, about 30 s left, "
            "slowest a-node-with-a-long-name 20 s",
        ),
        (80, "Wait: 2/6 hosts, 1 failing, 30 s, about 30 s left"),
        (40, "Wait: 2/6 hosts, 1 failing, 30 s"),
        (31, "2/6 hosts, 1 failing, 30 s"),
    ],
)
def test_what_matters_most_is_there_on_narrow_terminals(
    progress: ModuleType, columns: int, line: str
) -> None:
    told = Told(progress, hosts=6, forks=2)
    told.start("n1", "a-node-with-a-long-name")
    told.at(20).end("a-node-with-a-long-name", failed=True)
    told.end("n1")
    told.start("n3", "n4", "n5", "n6")
    told.at(30)
    assert told.phase.line(columns) == line


# --- what it says of the time that is left --------------------------------------------------------


def test_the_rest_is_estimated_by_what_hosts_took_and_by_forks(progress: ModuleType) -> None:
    told = Told(progress, hosts=6, forks=2)
    told.start("n1", "n2")
    told.at(10).end("n1", "n2")
    told.start("n3", "n4")
    assert "10 s, about 20 s left" in told.line()
    assert "15 s, about 15 s left" in told.at(15).line()
    assert "40 s, time left unknown" in told.at(40).line()


def test_what_is_planned_is_told_by_the_plan_alone(progress: ModuleType) -> None:
    told = Told(progress, hosts=200, forks=2, planned_s=300)
    told.start("n1", "n2")
    assert told.at(60).line() == "Wait: 0/200 hosts, 1 min 0 s, about 4 min 0 s left by plan"
    told.at(290).end("n1", "n2")
    assert "about 10 s left by plan" in told.line()
    assert "1 min 10 s longer than planned" in told.at(370).line()


def test_when_all_have_ended_nothing_is_left(progress: ModuleType) -> None:
    told = Told(progress, hosts=1, planned_s=300)
    told.at(5).end("n1")
    assert told.line() == "Wait: 1/1 hosts, 5 s"


# --- the line that stays --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took_s", "failed", "line"),
    [
        (1, False, ""),
        (1, True, "Wait: 2/2 hosts in 1 s, 2 failing (n1, n2), slowest n1 1 s"),
        (7, False, "Wait: 2/2 hosts in 7 s, slowest n1 7 s"),
    ],
)
def test_what_is_worth_it_leaves_a_line(
    progress: ModuleType, took_s: int, failed: bool, line: str
) -> None:
    told = Told(progress, hosts=2)
    told.start("n1", "n2")
    told.at(took_s).end("n1", "n2", failed=failed)
    assert told.phase.last_line() == line


def test_a_task_that_was_for_nobody_leaves_no_line(progress: ModuleType) -> None:
    told = Told(progress, hosts=1)
    told.phase.skip("n1")
    assert told.at(60).phase.last_line() == ""


def test_hosts_that_were_skipped_are_not_waited_for(progress: ModuleType) -> None:
    told = Told(progress, hosts=3)
    told.start("n1", "n2", "n3")
    told.phase.skip("n1")
    told.at(5).end("n2")
    assert told.line() == "Wait: 2/3 hosts, 5 s, time left unknown, waiting for n3"
    told.end("n3")
    assert told.phase.last_line() == "Wait: 2/3 hosts in 5 s, skipped on 1, slowest n2 5 s"


def test_a_name_steers_no_terminal(progress: ModuleType) -> None:
    told = Told(progress, hosts=1)
    told.end("n\x1b[2J\u202e\U0001f4a5\udc801", failed=True)
    assert told.line() == "Wait: 1/1 hosts, 1 failing (n?[2J???1), 0 s"


@pytest.mark.parametrize(
    ("result", "trouble"),
    [
        ({}, False),
        ({"findings": []}, False),
        ({"findings": [{"code": "RUN-LOCKED"}]}, True),
        ({"exit_code": 0, "problem": ""}, False),
        ({"exit_code": 1, "problem": ""}, True),
        ({"exit_code": None, "problem": "ended by force"}, True),
    ],
)
def test_a_node_that_is_bad_counts_as_failing(
    progress: ModuleType, result: dict[str, object], trouble: bool
) -> None:
    assert progress.tells_of_trouble(result) is trouble


# --- on a terminal, and without one ---------------------------------------------------------------


class Display:
    """Ansible's display, as far as the line knows it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def display(self, message: str, *, stderr: bool = False) -> None:
        self.stream.write(f"{'! ' if stderr else ''}{message}\n")

    def warning(self, message: str) -> None:
        self.display(message, stderr=True)


@contextmanager
def terminal(columns: int) -> Iterator[tuple[BinaryIO, TextIO]]:
    """What is read of a terminal, and what is written to it."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    with os.fdopen(master, "rb", buffering=0) as screen, os.fdopen(slave, "w") as written:
        yield screen, written


def assert_reads(screen: BinaryIO, expected: str) -> None:
    """Exactly this is on the screen, in as many pieces as the terminal gives."""
    seen = b""
    while len(seen) < len(expected):
        seen += screen.read(100)
    assert seen.decode() == expected


@pytest.fixture
def xterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_without_a_terminal_each_line_stays_where_it_belongs(progress: ModuleType) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as said, os.fdopen(writer, "w") as stream:
        line, display = progress.Line(stream), Display(stream)
        line.give_way_to(display, RLock())
        line.show("a")
        line.clear()
        display.display("of Ansible")
        line.show("b")
        stream.close()
        assert said.read() == "... a\nof Ansible\n... b\n"


@pytest.mark.usefixtures("xterm")
def test_on_a_terminal_one_line_is_written_over_and_cut(progress: ModuleType) -> None:
    with terminal(11) as (screen, written):
        line = progress.Line(written)
        line.clear()
        line.show("a line that is too long")
        line.show("b")
        line.clear()
        line.clear()
        assert_reads(screen, f"{ERASE}a line tha{ERASE}b{ERASE}")


@pytest.mark.usefixtures("xterm")
def test_the_room_is_that_of_the_moment(progress: ModuleType) -> None:
    with terminal(40) as (_, written):
        line = progress.Line(written)
        assert line.room() == 39
        termios.tcsetwinsize(written, (24, 300))
        assert line.room() == 299
        termios.tcsetwinsize(written, (0, 0))
        assert line.room() == progress.COLUMNS - 1


@pytest.mark.usefixtures("xterm")
def test_whatever_ansible_shows_takes_the_place_of_the_line(progress: ModuleType) -> None:
    with terminal(80) as (screen, written):
        line, display = progress.Line(written), Display(written)
        line.give_way_to(display, RLock())
        line.show("live")
        display.warning("careful")
        display.display("more")
        assert_reads(screen, f"{ERASE}live{ERASE}! careful\r\nmore\r\n")


@pytest.mark.usefixtures("xterm")
def test_a_terminal_that_is_gone_is_no_error_of_the_run(progress: ModuleType) -> None:
    master, slave = pty.openpty()
    # What could not be written is tried again when the stream is closed.
    with suppress(OSError), os.fdopen(slave, "w") as written:
        line = progress.Line(written)
        line.show("live")
        os.close(master)
        line.clear()
        with pytest.raises(OSError, match="Input/output error"):
            line.show("live")


def test_nobody_waits_for_who_does_not_read(progress: ModuleType) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as said, os.fdopen(writer, "w") as stream:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while os.write(writer, bytes(4096)):
                pass
        os.set_blocking(writer, True)
        progress.Line(stream).show("a")
        stream.close()
        assert b"..." not in said.read()


def test_a_terminal_that_can_do_nothing_gets_plain_lines(
    progress: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal(80) as (_, written):
        assert not progress.Line(written).live


# --- real runs ------------------------------------------------------------------------------------

HOSTS = """---
gpu:
  hosts:
    node[1:6]:
  vars:
    ansible_connection: local
    ansible_python_interpreter: {python}
away:
  hosts:
    node5:
      ansible_connection: ssh
      ansible_host: 127.0.0.1
      ansible_port: 1
      ansible_ssh_pipelining: false
"""
# Names of tasks and plays as in ours.
PLAYBOOK = r"""---
- name: Preflight
  hosts: gpu
  gather_facts: false
  ignore_unreachable: true
  tasks:
    - name: Check the node
      ansible.builtin.command: "{{ 'false' if inventory_hostname == 'node2' else 'true' }}"
      changed_when: false
      ignore_errors: true
- name: Judge
  hosts: localhost:all
  gather_facts: false
  tasks:
    - name: Wait for the container
      ansible.builtin.wait_for: {timeout: 3}
      run_once: true
    - name: Speak up
      speaking:
      run_once: true
    - name: Short
      ansible.builtin.meta: noop
    - name: Not for anybody
      ansible.builtin.debug: {msg: unsaid}
      when: false
    - name: Misspelled
      ansible.builtin.debug: {msg: "{{ no_such_variable }}"}
      run_once: true
      ignore_errors: true
    - name: Lost
      ansible.builtin.copy: {src: no-such-file, dest: /dev/null}
      run_once: true
      ignore_errors: true
    - name: Secret
      ansible.builtin.debug: {msg: "{{ lookup('ansible.builtin.file', 'sealed.txt') }}"}
      run_once: true
      ignore_errors: true
    - name: Several
      ansible.builtin.fail: {msg: "not {{ item }}"}
      loop: [one, other]
      run_once: true
      ignore_errors: true
    - name: Show the result
      ansible.builtin.debug: {msg: "verdict: FAIL\nthe page"}
      run_once: true
- name: Nodes
  hosts: gpu
  gather_facts: false
  tasks:
    - name: Fail each node that is not as promised
      ansible.builtin.fail: {msg: a bad node}
      when: inventory_hostname == 'node2'
"""
SPEAKING = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(argument_spec={})
module.warn("a warning of a module")
module.deprecate("a feature of a module", version="99.9", collection_name="ansible.builtin")
module.exit_json()
"""
# What no two runs say alike.
TIMES = re.compile(r"^ *(delta|end|start): .*$", re.MULTILINE)


@dataclass
class Run:
    """``ansible-playbook`` over some local hosts, one of them unreachable."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, columns: int = 0) -> tuple[subprocess.Popen[bytes], int]:
        """The process and where its output is read: a terminal of ``columns``, or a pipe for 0."""
        reader, writer = pty.openpty() if columns else os.pipe()
        if columns:
            termios.tcsetwinsize(writer, (24, columns))
        environment = {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_LIBRARY": str(self.folder),
            "ANSIBLE_SSH_RETRIES": "0",
            "NO_COLOR": "1",
            "TERM": "xterm",
        }
        process = subprocess.Popen(
            [Path(sys.executable).parent / "ansible-playbook", "-f", "3", *arguments],
            cwd=self.folder,
            env={**os.environ, **environment, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        os.close(writer)
        # Whoever reads its output reads to its end.
        limit = Timer(LIMIT_S, process.kill)
        limit.daemon = True
        limit.start()
        return process, reader

    def play(self, *arguments: str, status: int, columns: int = 0) -> str:
        """Everything that a run shows, which ends with ``status``."""
        process, reader = self.start("-i", "hosts.yml", *arguments, "play.yml", columns=columns)
        with process:
            output = rest(reader)
            assert process.wait(60) == status, output
        return output


def rest(reader: int) -> str:
    """All that comes until the end, which a terminal tells by EIO."""
    chunks = []
    with suppress(OSError):
        while chunk := os.read(reader, 65536):
            chunks.append(chunk)
    os.close(reader)
    return b"".join(chunks).decode().replace("\r\n", "\n")


@pytest.fixture
def a_run(tmp_path: Path) -> Run:
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "hosts.yml").write_text(HOSTS.format(python=sys.executable))
    (tmp_path / "speaking.py").write_text(SPEAKING)
    (tmp_path / "sealed.txt").write_text("$ANSIBLE_VAULT;1.1;AES256\n3030\n")
    return Run(tmp_path)


FAILED = 2


@pytest.mark.parametrize("columns", [200, 0])
def test_a_run_shows_progress_and_at_last_the_result(a_run: Run, columns: int) -> None:
    shown, _, recap = a_run.play(status=FAILED, columns=columns).partition("PLAY RECAP")
    assert (ERASE in shown) is bool(columns)
    assert not columns or "Wait for the container: 0/1 hosts, " in shown
    assert "Wait for the container: 1/1 hosts in " in shown
    assert re.search("^(.*\r.*)?Check the node: 6/6 hosts in .* 2 failing", shown, re.MULTILINE)
    for unsaid in ("TASK [Short]", "TASK [Not for anybody]", "ok: [node1]\n", "verdict:"):
        assert unsaid not in shown
    assert recap.endswith("\n\nverdict: FAIL\nthe page\n")


def test_no_word_of_an_error_or_a_warning_is_lost(a_run: Run) -> None:
    ours = lines(a_run.play(status=FAILED, columns=200))
    a_run.environment["ANSIBLE_STDOUT_CALLBACK"] = "default"
    theirs = lines(a_run.play(status=FAILED, columns=200))
    result = {"    msg: |-", "        verdict: FAIL", "        the page"}
    lost = {line for line in theirs - ours - result if not line.startswith(("ok: ", "TASK ["))}
    assert lost == set()
    for said in (
        *("[WARNING]: a warning of a module", "[DEPRECATION WARNING]: a feature of a module"),
        *("no_such_variable", "no-such-file", "no vault secrets found", "not other"),
        *("UNREACHABLE!", "a bad node", "ignored=4"),
    ):
        assert any(said in line for line in ours), said


def lines(output: str) -> set[str]:
    """What is left on the screen, line by line: what was written over is not."""
    return {line.rpartition(ERASE)[2] for line in TIMES.sub("", output).split("\n")}


@pytest.mark.parametrize("callback", ["default", "minimal"])
def test_the_result_is_there_with_ansibles_own_output(a_run: Run, callback: str) -> None:
    a_run.environment["ANSIBLE_STDOUT_CALLBACK"] = callback
    output = a_run.play("--start-at-task=Show the result", status=FAILED)
    assert "        verdict: FAIL\n        the page\n" in output
    assert "a bad node" in output


def test_a_terminal_that_can_do_nothing_gets_no_escapes(a_run: Run) -> None:
    a_run.environment["TERM"] = "dumb"
    output = a_run.play("-v", "--check", "--start-at-task=Misspelled", status=FAILED, columns=40)
    assert "\x1b" not in output
    assert "\r" not in output
    assert "'no_such_variable' is undefined" in output
    assert output.endswith("verdict: FAIL\nthe page\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-i", "hosts.yml", "--list-tasks", "play.yml"], "Wait for the container"),
        (["-i", "hosts.yml", "--syntax-check", "play.yml"], "playbook: play.yml"),
        (["-i", "hosts.yml", "absent.yml"], "absent.yml could not be found"),
        (["-i", "broken.yml", "play.yml"], "YAML parsing failed"),
        (["-i", "hosts.yml", "-e", "@absent.yml", "play.yml"], "absent.yml"),
        (["-i", "hosts.yml", "bad.yml"], "'no_such_keyword' is not a valid attribute"),
    ],
)
def test_what_ends_before_the_first_task_says_so(
    a_run: Run, arguments: list[str], said: str
) -> None:
    (a_run.folder / "broken.yml").write_text("gpu:\n  hosts: [\n")
    (a_run.folder / "bad.yml").write_text("- hosts: gpu\n  no_such_keyword: 1\n")
    process, reader = a_run.start(*arguments, columns=120)
    with process:
        assert said in rest(reader).replace("\n", " ")


@pytest.mark.parametrize("columns", [120, 0])
def test_an_interrupted_run_says_so_and_still_shows_its_result(a_run: Run, columns: int) -> None:
    held = """---
- name: Judge
  hosts: node1
  gather_facts: false
  tasks:
    - name: Show the result
      ansible.builtin.debug: {msg: "verdict: FAIL"}
    - name: Go on
      ansible.builtin.debug: {msg: going on}
    - name: Linger
      ansible.builtin.command: {argv: [sh, -c, "echo > LINGERS; exec sleep 100"]}
"""
    lingers = a_run.folder / "lingers"
    (a_run.folder / "play.yml").write_text(held.replace("LINGERS", str(lingers)))
    a_run.environment["PYTHONUNBUFFERED"] = "1"
    process, reader = a_run.start("-i", "hosts.yml", "play.yml", columns=columns)
    with process:
        begun = b""
        while (b"Linger" if columns else b"going on") not in begun:
            begun += os.read(reader, 65536)
        assert b"verdict" not in begun
        # A process of Ansible's that is interrupted while it reports takes the lock for that along.
        while not lingers.exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        output = rest(reader)
        assert process.wait(60) != 0
    *_, last = output.rstrip("\n").split("\n")
    assert "User interrupted execution" in output
    assert last.rpartition(ERASE)[2] == "verdict: FAIL"


def test_the_tasks_that_the_plugin_knows_are_in_the_playbook(progress: ModuleType) -> None:
    tasks = [
        task
        for path in (REPOSITORY / "playbooks/roles/gdrcheck/tasks").glob("*.yml")
        for task in yaml.safe_load(path.read_text())
    ]
    shown = [task for task in tasks if task["name"] == progress.RESULT_TASK]
    assert ["ansible.builtin.debug" in task for task in shown] == [True]
    assert any(progress.PLANNED_ACTION in task for task in tasks)
