"""Asking in a child process: answers, deaths, deadlines, and a child that cannot be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gdrcheck.facts import Unreadable
from gdrcheck.probes import live

AWAITED_S = 60.0
TOO_SOON_S = 0.5


def shell(folder: Path, script: str, deadline_s: float = AWAITED_S) -> bytes | Unreadable:
    path = folder / "child"
    path.write_text(script)
    return live.ask(("sh", str(path)), deadline_s)


def test_the_answer_is_the_standard_output_alone(tmp_path: Path) -> None:
    assert shell(tmp_path, "echo step >&2; echo answer") == b"answer\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo first >&2; echo last >&2; exit 3", "child: ended with status 3: last"),
        ("echo at it >&2; kill -SEGV $$", "child: ended by SIGSEGV: at it"),
        ("exit 1", "child: ended with status 1: its start"),
    ],
)
def test_a_child_that_dies_says_how_and_its_last_step(
    tmp_path: Path, script: str, expected: str
) -> None:
    assert shell(tmp_path, script) == Unreadable(unreadable=expected)


def test_a_command_that_is_not_there_is_unreadable() -> None:
    answer = live.ask(("/nowhere/child",), AWAITED_S)
    assert answer == Unreadable(unreadable="child: cannot be started: No such file or directory")


def test_a_deadline_names_the_step_and_ends_the_child(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"echo $$ > {note}; echo 'GPU 3: memory' >&2; exec sleep 600"
    answer = shell(tmp_path, script, TOO_SOON_S)
    assert isinstance(answer, Unreadable)
    assert "no answer within 0.5 s" in answer.unreadable
    assert answer.unreadable.endswith("at: GPU 3: memory")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize("end", ["exec sleep 600", "exit 1", "kill -SEGV $$"])
def test_what_was_printed_before_a_failure_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    # A module as the probes have them, which says something and is then ended.
    (tmp_path / "child_that_fails.py").write_text(
        f"import os; print('first', flush=True); os.execv('/bin/sh', ['sh', '-c', {end!r}])"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = live.listen(live.LIVE_ROOT, "child_that_fails", "none.json", 2.0)
    assert said.printed == b"first\n"
    assert said.failure is not None
    assert "child_that_fails" in said.failure.unreadable


def test_a_child_that_does_not_die_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda child: left.append(child.pid))
    monkeypatch.setattr(live, "KILL_S", 0.1)
    try:
        answer = shell(tmp_path, "exec sleep 600", TOO_SOON_S)
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert isinstance(answer, Unreadable)
    assert live.STUCK in answer.unreadable


def test_the_live_root_asks_a_module_and_others_read_the_record(tmp_path: Path) -> None:
    module = live.answer(live.LIVE_ROOT, "platform", "none.json", AWAITED_S)
    assert isinstance(module, bytes)
    assert sys.platform.encode() in module.lower()
    record = tmp_path / live.RECORDS / "some.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert live.answer(tmp_path, "platform", "some.json", AWAITED_S) == b"{}"


def test_a_record_that_is_too_large_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_BYTES", 10)
    record = tmp_path / live.RECORDS / "some.json"
    record.parent.mkdir(parents=True)
    record.write_text("x" * 11)
    answer = live.answer(tmp_path, "platform", "some.json", AWAITED_S)
    assert answer == Unreadable(unreadable="some.json: larger than 10 bytes")
