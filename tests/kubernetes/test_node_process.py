"""The node's own process: its command line, its output, its end in order or by force."""

from __future__ import annotations

import argparse
import ctypes
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gdrcheck.kubernetes import node_process
from gdrcheck.kubernetes.document import make_document
from gdrcheck.kubernetes.node_process import LOG_FILE, NODE_COMMAND, node_argv, run_node_process
from gdrcheck.node.clock import Stop
from gdrcheck.node.options import add_arguments
from gdrcheck.pairing.deadline import Deadline
from tests.kubernetes.support import settings_of
from tests.kubernetes.test_document import came

PATIENCE_S = 60.0
# prctl(2)
SET_CHILD_SUBREAPER = 36


@pytest.fixture
def out(tmp_path: Path) -> Path:
    place = tmp_path / "out"
    place.mkdir()
    return place


def run(code: str, out: Path, within_s: float = PATIENCE_S) -> tuple[str, list[str]]:
    """How the process that runs ``code`` ended, and what it said; told to end when it is ready."""
    said: list[str] = []
    stop = Stop()

    def say(line: str) -> None:
        said.append(line)
        if line == "ready to be told":
            stop.request("told to end")

    argv = [sys.executable, "-c", textwrap.dedent(code)]
    return run_node_process(argv, out, Deadline.after(within_s), stop, say), said


@pytest.mark.parametrize("code", [0, 1, 2])
def test_an_orderly_end_needs_no_words_and_the_output_is_kept(out: Path, code: int) -> None:
    why, said = run(f"import sys; print('one\\ntwo'); sys.exit({code})", out)
    assert (why, said) == ("", ["one", "two"])
    assert (out / LOG_FILE).read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit(3)", "process exited with 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ],
)
def test_another_end_is_told(out: Path, code: str, words: str) -> None:
    assert words in run(code, out)[0]


def test_at_its_deadline_it_is_ended_by_force(out: Path) -> None:
    why, _ = run("import time; time.sleep(600)", out, within_s=0.5)
    assert "ended by force after 0.5 s" in why


def test_it_is_asked_to_end_before_it_is_ended(out: Path) -> None:
    code = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print("asked"), sys.exit(2)))
    print("ready to be told")
    time.sleep(600)
    """
    assert run(code, out) == ("", ["ready to be told", "asked"])


def test_who_does_not_heed_is_ended_by_force(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_process, "GRACE_S", 0.5)
    code = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready to be told")
    time.sleep(600)
    """
    assert "ended by force" in run(code, out)[0]


def test_the_log_has_a_limit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_process, "MAX_LOG_BYTES", 10)
    _, said = run("print('12345678')\nprint('12345678')", out)
    assert said == ["12345678", "12345678"]
    assert (out / LOG_FILE).read_bytes() == b"12345678\n1"


def test_a_full_disk_costs_the_log_and_neither_the_words_nor_the_end(out: Path) -> None:
    (out.parent / LOG_FILE).symlink_to("/dev/full")
    why, said = run("for number in range(40_000): print('line', number)", out)
    assert why == ""
    assert f"{LOG_FILE} cannot be written: No space left on device" in said
    assert [line for line in said if line.startswith("line ")] == [
        f"line {number}" for number in range(40_000)
    ]


def test_a_line_without_end_is_said_in_pieces(out: Path) -> None:
    length = 3 * node_process.MAX_LINE_BYTES
    _, said = run(f"print('x' * {length})", out)
    assert max(map(len, said)) == node_process.MAX_LINE_BYTES
    assert (out / LOG_FILE).stat().st_size == length + 1


@pytest.fixture
def orphans_are_ours() -> Iterator[None]:
    """As for PID 1 of a container."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.usefixtures("orphans_are_ours")
def test_dead_orphans_do_not_stay(out: Path) -> None:
    code = """
    import os, subprocess, sys, time
    shell = subprocess.run(["sh", "-c", "sleep 0.2 & echo $!"], stdout=subprocess.PIPE)
    orphan = int(shell.stdout)
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{orphan}"):
        if time.monotonic() > end:
            sys.exit(3)
        time.sleep(0.05)
    """
    assert run(code, out) == ("", [])


def test_the_command_line_is_that_of_the_playbook(tmp_path: Path) -> None:
    settings = replace(settings_of(1, 3, 18600), lock=Path("/run/lock"))
    document = make_document(settings, [came(0, "n1"), came(1, "node2")], datetime.now(UTC))
    run_file = tmp_path / "run.json"
    argv = node_argv(settings, document, run_file, tmp_path, NODE_COMMAND)
    assert argv[:4] == [sys.executable, "-m", "gdrcheck", "node"]
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    found = parser.parse_args(argv[4:])
    assert (found.run, found.node, found.out) == (run_file, "node2", tmp_path)
    assert (found.secret, found.lock) == (settings.secret_file, Path("/run/lock"))
    assert found.present == ("n1", "node2")
