"""Reading each source in a child process: one that hangs in a driver takes nothing else along."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from .reading import Unread, unreadable, write


def ask(sources: dict[str, Callable[[], Any]], folder: Path, deadline_s: float) -> dict[str, Any]:
    """The answers of all sources, which are read at the same time; they pass through ``folder``.

    A child that has not ended at the deadline is killed with what it started, but not waited for,
    since it may hang in the kernel; its source is unreadable.
    """
    answers: dict[str, Any] = {}
    children = {}
    for name, read in sources.items():
        try:
            children[name] = start(read, folder / f".{name}.json")
        except OSError as error:
            answers[name] = unreadable(f"no process to read it: {error.strerror}")
    late = wait(set(children.values()), deadline_s)
    for name, pid in children.items():
        why = f"no answer within {deadline_s:g} s" if pid in late else "the process died"
        answers[name] = taken(folder / f".{name}.json", why)
    return {name: answers[name] for name in sources}


def start(read: Callable[[], Any], answer: Path) -> int:
    """The process id of a new child."""
    pid = os.fork()
    if pid == 0:
        answer_and_exit(read, answer)
    return pid


def answer_and_exit(read: Callable[[], Any], answer: Path) -> NoReturn:
    """The child. It keeps none of the caller's streams open: ssh waits for their end."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        try:
            value = read()
        except Unread as error:
            value = unreadable(str(error))
        except Exception as error:  # One broken source must not take the others along.
            value = unreadable(f"{type(error).__name__}: {error}")
        write(answer, json.dumps(value).encode())
    finally:
        os._exit(0)


def wait(running: set[int], deadline_s: float) -> set[int]:
    """Waits for the end of child processes; those that were killed at the deadline."""
    end = time.monotonic() + deadline_s
    while running and time.monotonic() < end:
        running = {pid for pid in running if os.waitpid(pid, os.WNOHANG)[0] == 0}
        time.sleep(0.01)
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return running


def taken(answer: Path, otherwise: str) -> Any:
    """A child's answer, whose file is removed; unreadable when there is none."""
    try:
        value = json.loads(answer.read_bytes())
        answer.unlink()
    except FileNotFoundError:
        value = unreadable(otherwise)
    return value
